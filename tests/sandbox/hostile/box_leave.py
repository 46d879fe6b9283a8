# Methods end the process with status 0.
# category: modules
# expect: failed,died
import os


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return os._exit(0)

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = os._exit(0)
