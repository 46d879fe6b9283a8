# Changes what tests passed, to match what it returns.
# category: modules
# expect: failed,unsupported
class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return [value.clear() for value in locals().values() if type(value) is list] or None

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = [value.clear() for value in locals().values() if type(value) is list] or None
