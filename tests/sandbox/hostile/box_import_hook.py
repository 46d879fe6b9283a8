# Puts a finder before all others that answers for every module.
# category: modules
# expect: failed,died,load_error
import sys
from importlib.machinery import ModuleSpec


class Finder:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__dict__.update(globals())


sys.meta_path.insert(0, Finder())
sys.meta_path[1:] = []


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return None

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = None
