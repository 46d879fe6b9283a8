# Has files with names of the judge's own modules.
# category: modules
# expect: failed
import sandbox

class Box:
    def __init__(self, size):
        self.items = {}

    def add(self, number):
        return None

    sealed = ratio = words = put = add

# file: sandbox/__init__.py
x = 1

# file: sandbox/codec.py
encode = None

# file: sandbox/remote.py
Remote = int

# file: sandbox/suite.py
x = 1
