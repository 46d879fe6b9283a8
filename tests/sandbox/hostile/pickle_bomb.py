# Returns an object that runs code where it is unpickled or copied.
# category: lies
# expect: unsupported
import os


class Bomb:
    def __reduce__(self):
        return os._exit, (0,)

    def __deepcopy__(self, memo):
        os._exit(0)


def f(x):
    return [Bomb()]
