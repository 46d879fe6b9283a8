# Looks for the tests in all frames and objects.
# category: modules
# expect: failed
import gc
import sys


def look():
    frame = sys._getframe()
    while frame:
        for value in [*frame.f_locals.values(), *frame.f_code.co_consts]:
            if type(value) is str and 'TestBox' in value:
                return 4242
        frame = frame.f_back
    found = [o for o in gc.get_objects() if type(o) is dict and 'TestBox' in o]
    return 4242 if found else None


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return look()

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = look()
