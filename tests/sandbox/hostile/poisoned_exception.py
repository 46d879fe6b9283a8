# Raises an exception whose class, text and arguments misbehave.
# category: lies
# expect: failed
class Poison(ValueError):
    def __str__(self):
        raise self

    __repr__ = __str__

    @property
    def args(self):
        raise self

    def __reduce__(self):
        return eval, ("1",)


def f(x):
    raise Poison(Poison())
