# Methods raise SystemExit(0).
# category: modules
# expect: failed,died
class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return exit(0)

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = exit(0)
