# Replaces modules in sys.modules by itself.
# category: modules
# expect: failed,died,load_error
import sys
for name in ('unittest', 'unittest.case', 'tests', 'solution', 'importlib', 'builtins'):
    sys.modules[name] = sys.modules[__name__]


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return None

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = None
