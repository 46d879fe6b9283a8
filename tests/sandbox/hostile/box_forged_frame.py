# Methods write answers of their own to the socket.
# category: modules
# expect: failed,died
import os


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return os.write(3, b'\0\0\0\1' + b'\0' * 8 + b'T')

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = os.write(3, b'\0\0\0\1' + b'\0' * 8 + b'T')
