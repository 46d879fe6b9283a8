# Empties sys.modules.
# category: modules
# expect: failed,died,load_error
import sys
sys.modules.clear()


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return None

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = None
