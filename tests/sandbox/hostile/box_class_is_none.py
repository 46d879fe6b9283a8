# The class is None.
# category: modules
# expect: failed
Box = None
