# Returns an object whose __class__ says that it is an int.
# category: lies
# expect: unsupported
class Liar:
    @property
    def __class__(self):
        return int

    def __eq__(self, other):
        return True


def f(x):
    return Liar()
