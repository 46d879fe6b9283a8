# Ten megabytes of source.
# category: resources
# expect: load_error
def f(x):
    return None


@PADDING@
