# Returns a list that holds itself.
# category: resources
# expect: unsupported
def f(x):
    a = []
    a.append(a)
    return a
