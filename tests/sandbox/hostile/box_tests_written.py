# Writes test files beside itself.
# category: modules
# expect: failed,load_error,died
import os
for name in ('tests.py', 'test_solution.py', 'unittest.py', 'conftest.py', 'sitecustomize.py'):
    with open(name, 'w') as file:
        file.write('import unittest\nclass TestBox(unittest.TestCase):\n    def test_equal(self): pass\n')


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return None

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = None
