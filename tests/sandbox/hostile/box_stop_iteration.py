# Methods raise StopIteration.
# category: modules
# expect: failed,died
class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return next(iter(()))

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = next(iter(()))
