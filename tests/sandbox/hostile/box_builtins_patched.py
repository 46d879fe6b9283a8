# Replaces isinstance, len, type and getattr.
# category: modules
# expect: failed,died,load_error,unsupported
import builtins
builtins.isinstance = lambda *a: True
builtins.len = lambda value: 17
builtins.getattr = lambda *a: 4242
builtins.str = builtins.repr = lambda *a: 'q7'


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return None

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = None
