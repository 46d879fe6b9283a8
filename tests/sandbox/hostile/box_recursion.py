# Attributes ask for themselves.
# category: modules
# expect: failed,died
class Box:
    def __init__(self, size):
        pass

    def __getattr__(self, name):
        return getattr(self, name + '_')
