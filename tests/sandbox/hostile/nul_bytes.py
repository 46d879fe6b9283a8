# NUL bytes in the source.
# category: resources
# expect: load_error
x = "@NUL@"


def f(x):
    return "@NUL@"
