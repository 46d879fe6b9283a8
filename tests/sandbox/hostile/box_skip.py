# Methods raise unittest.SkipTest.
# category: modules
# expect: failed,died
import unittest


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return (_ for _ in ()).throw(unittest.SkipTest('fine'))

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = (_ for _ in ()).throw(unittest.SkipTest('fine'))
