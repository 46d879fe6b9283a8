# Answers every question with the number of one object, so that everything is the same thing.
# category: modules
# expect: failed,died,unsupported
import sys


def patch(box):
    frame = sys._getframe()
    while frame:
        if 'objects' in frame.f_locals:
            objects = frame.f_locals['objects']
            number = objects.keep(box)
            objects.do = lambda *asked: box
            objects.keep = type(objects).keep = lambda *given: number
        frame = frame.f_back
    return box


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return patch(self)

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = patch(self)
