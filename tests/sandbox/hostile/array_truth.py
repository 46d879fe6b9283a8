# Returns something like an array: comparison gives an object that is true.
# category: lies
# expect: unsupported
class Array:
    def __eq__(self, other):
        return Array()

    def __bool__(self):
        return True

    def all(self):
        return True


def f(x):
    return Array()
