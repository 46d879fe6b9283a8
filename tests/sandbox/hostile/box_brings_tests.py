# Has files with tests of its own that hold.
# category: modules
# expect: failed
import tests

class Box:
    def __init__(self, size):
        self.items = {}

    def add(self, number):
        return None

    sealed = ratio = words = put = add

# file: tests.py
import unittest


class TestBox(unittest.TestCase):
    def test_equal(self):
        pass

# file: test_solution.py
from tests import *
