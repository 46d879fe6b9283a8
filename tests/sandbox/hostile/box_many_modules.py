# Has 10,000 files.
# category: modules
# expect: failed
class Box:
    def __init__(self, size):
        pass
@MANY_FILES@
