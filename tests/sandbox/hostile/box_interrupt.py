# Methods raise KeyboardInterrupt.
# category: modules
# expect: failed,died
class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return (_ for _ in ()).throw(KeyboardInterrupt())

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = (_ for _ in ()).throw(KeyboardInterrupt())
