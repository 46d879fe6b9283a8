# Constants that the compiler would fold for ever.
# category: resources
# expect: load_error, died, timeout, failed
x = 9**9**9**9


def f(x):
    return None
