# Every module imports another one.
# category: modules
# expect: failed,died,timeout
import sys


class Finder:
    def find_spec(self, name, path=None, target=None):
        from importlib.machinery import ModuleSpec
        return ModuleSpec(name, self)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(f'import {module.__name__}x')


sys.meta_path.append(Finder())
import endless
