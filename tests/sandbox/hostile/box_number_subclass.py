# Returns a number that equals everything.
# category: modules
# expect: failed,unsupported
class Number(int):
    __eq__ = lambda self, other: True
    __hash__ = int.__hash__
    __sub__ = __rsub__ = __abs__ = lambda self, *other: 0


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return Number(1)

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = Number(1)
