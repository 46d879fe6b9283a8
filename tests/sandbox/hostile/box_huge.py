# Returns a text of 64 MB.
# category: modules
# expect: failed,unsupported
class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return 'x' * (1 << 26)

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = 'x' * (1 << 26)
