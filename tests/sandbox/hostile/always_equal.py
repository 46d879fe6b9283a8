# Returns an object that equals everything and supports every operation.
# category: lies
# expect: unsupported
class Equal:
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __hash__(self):
        return 0

    def __iter__(self):
        return iter([self] * 3)

    def __lt__(self, other):
        return True

    def __sub__(self, other):
        return 0.0

    __rsub__ = __sub__

    def __abs__(self):
        return 0.0


def f(x):
    return Equal()
