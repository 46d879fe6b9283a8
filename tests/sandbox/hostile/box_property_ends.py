# Reading or setting an attribute ends the process.
# category: modules
# expect: failed,died
import os


class Box:
    def __init__(self, size):
        pass

    def __getattribute__(self, name):
        os._exit(0)

    def __setattr__(self, name, value):
        os._exit(0)
