# Uses posix instead of os.
# category: escapes
# expect: failed
import posix


def f(x):
    posix.system("touch @OUTSIDE@/escaped")
    descriptor = posix.open("@SECRET@", posix.O_RDONLY)
    raise ValueError(posix.read(descriptor, 1000).decode())
