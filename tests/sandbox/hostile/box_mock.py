# Returns mock.ANY.
# category: modules
# expect: failed,unsupported
from unittest.mock import ANY


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return ANY

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = ANY
