# Answers with numbers of objects that do not exist.
# category: modules
# expect: failed,died,unsupported
import sys


def patch():
    frame = sys._getframe()
    while frame:
        if 'objects' in frame.f_locals:
            frame.f_locals['objects'].keep = type(frame.f_locals['objects']).keep = lambda *a: 1 << 60
        frame = frame.f_back
    return patch


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return patch()

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = patch()
