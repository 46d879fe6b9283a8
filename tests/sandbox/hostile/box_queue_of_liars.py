# Returns a deque of objects that equal everything.
# category: modules
# expect: failed,unsupported
from collections import deque

class Liar:
    def __eq__(self, other):
        return True

    __hash__ = None
    __ne__ = lambda self, other: False
    __contains__ = __bool__ = __lt__ = __eq__
    __bool__ = lambda self: True


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return deque([Liar()], 17)

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = deque([Liar()], 17)
