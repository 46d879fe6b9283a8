# Returns a dict that equals everything and holds everything.
# category: modules
# expect: failed,unsupported
class Table(dict):
    __eq__ = __contains__ = lambda self, other: True


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return Table()

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = Table()
