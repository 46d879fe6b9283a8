# The module does not parse.
# category: modules
# expect: failed
class Box(:
