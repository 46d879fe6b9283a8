# Returns an object with an impossible length.
# category: modules
# expect: failed,unsupported
class Long:
    __len__ = lambda self: 1 << 62
    __iter__ = lambda self: iter('q7')


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return Long()

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = Long()
