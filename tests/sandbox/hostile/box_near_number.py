# Returns an object whose distance from everything is 0.
# category: modules
# expect: failed,unsupported
class Near:
    __sub__ = __rsub__ = __abs__ = __round__ = lambda self, *other: 0
    __eq__ = __le__ = __lt__ = lambda self, other: True


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return Near()

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = Near()
