# Reading an attribute does not end.
# category: modules
# expect: failed,timeout
class Box:
    def __init__(self, size):
        pass

    def __getattr__(self, name):
        while True:
            pass
