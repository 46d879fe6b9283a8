# Finds the codec in the frames and lets it encode other values.
# category: modules
# expect: failed,died,unsupported,load_error
import sys
frame = sys._getframe()
while frame:
    if 'codec' in frame.f_globals:
        codec = frame.f_globals['codec']
        codec.encode = lambda value, **k: b'(' + b'\0\0\0\2' + b's\0\0\0\5value' + b'H' + b'\xff' * 8
    frame = frame.f_back


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return None

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = None
