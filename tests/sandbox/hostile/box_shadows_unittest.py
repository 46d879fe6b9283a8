# Has files called unittest, in which every assert holds.
# category: modules
# expect: failed
import unittest

class Box:
    def __init__(self, size):
        self.items = {}

    def add(self, number):
        return None

    sealed = ratio = words = put = add

# file: unittest.py
class TestCase:
    def __getattr__(self, name):
        return lambda *a, **k: None

# file: unittest/__init__.py
from unittest import TestCase

# file: unittest/case.py
class TestCase:
    run = lambda self, result: result
