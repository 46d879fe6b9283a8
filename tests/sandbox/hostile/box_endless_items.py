# Returns an object with endless items.
# category: modules
# expect: failed,unsupported,timeout
import itertools


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return itertools.count()

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = itertools.count()
