# Two modules import names from each other.
# category: modules
# expect: failed
from other import helper


class Box:
    pass

# file: other.py
from solution import Box

helper = Box(1)
