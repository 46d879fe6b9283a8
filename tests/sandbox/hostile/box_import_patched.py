# Replaces __import__ and importlib.import_module.
# category: modules
# expect: failed,died,load_error
import builtins
import importlib
import sys
builtins.__import__ = lambda *a, **k: sys.modules[__name__]
importlib.import_module = lambda *a, **k: sys.modules[__name__]


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return None

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = None
