# Returns a list that holds itself.
# category: modules
# expect: failed,unsupported
cycle = []
cycle.append(cycle)


class Box:
    def __init__(self, size):
        self.size, self.items = size, {}

    def add(self, number):
        return cycle

    sealed = ratio = words = add

    def put(self, name, given):
        self.items = cycle
