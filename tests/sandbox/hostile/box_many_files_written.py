# Writes 10,000 files beside itself.
# category: modules
# expect: failed,load_error,died,timeout
for number in range(10_000):
    with open(f'{number}.py', 'w') as file:
        file.write('x = 1')


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return None

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = None
