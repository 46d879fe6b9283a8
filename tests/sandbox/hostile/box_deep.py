# Returns a list 100,000 levels deep.
# category: modules
# expect: failed,unsupported
deep = []
for _ in range(100_000):
    deep = [deep]


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return deep

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = deep
