# Returns a list that equals everything, holds everything, and is as long as is wanted.
# category: modules
# expect: failed,unsupported
class List(list):
    __eq__ = __contains__ = lambda self, other: True
    __len__ = lambda self: 17


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return List()

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = List()
