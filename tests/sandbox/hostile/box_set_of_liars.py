# Returns a set of objects that equal everything.
# category: modules
# expect: failed,unsupported
class Liar:
    __eq__ = lambda self, other: True
    __hash__ = lambda self: hash('xee')


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return {Liar()}

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = {Liar()}
