# Replaces how unittest runs a test and what results say.
# category: modules
# expect: failed
import unittest
unittest.TestCase.run = lambda self, result=None: result
unittest.TestResult.wasSuccessful = lambda self: True
unittest.main = lambda *a, **k: None


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return None

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = None
