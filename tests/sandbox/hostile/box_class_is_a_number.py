# The class is a number.
# category: modules
# expect: failed,unsupported
Box = 4242
