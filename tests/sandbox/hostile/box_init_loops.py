# The constructor does not end.
# category: modules
# expect: failed,timeout
class Box:
    def __init__(self, size):
        while True:
            pass
