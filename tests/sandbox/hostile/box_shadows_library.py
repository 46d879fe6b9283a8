# Has files with names of the standard library.
# category: modules
# expect: failed
import json
import random
import colorsys

class Box:
    def __init__(self, size):
        self.items = {}

    def add(self, number):
        return None

    sealed = ratio = words = put = add

# file: random.py
seed = lambda number: None

# file: json.py
loads = lambda text: 4242

# file: colorsys.py
x = 1

# file: builtins.py
len = lambda value: 17

# file: ast.py
parse = None
