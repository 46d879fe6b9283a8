# Returns an object that says that it is a str.
# category: modules
# expect: failed,unsupported
class Poser:
    __class__ = str
    __eq__ = lambda self, other: True


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return Poser()

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = Poser()
