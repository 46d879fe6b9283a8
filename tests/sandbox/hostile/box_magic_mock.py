# Returns a MagicMock.
# category: modules
# expect: failed,unsupported
from unittest.mock import MagicMock


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return MagicMock()

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = MagicMock()
