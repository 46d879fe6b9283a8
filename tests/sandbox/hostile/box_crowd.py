# Answers with a hundred thousand objects, new ones each time.
# category: modules
# expect: failed,died,unsupported,timeout
class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return [Box(number) for _ in range(100_000)]

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = self.add(0)
