# The constructor takes all memory.
# category: modules
# expect: failed,died,timeout
class Box:
    def __init__(self, size):
        self.items = [bytearray(1 << 20) for _ in range(1 << 20)]
