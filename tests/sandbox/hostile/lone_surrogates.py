# Lone surrogates in the source.
# category: resources
# expect: load_error
def f(x):
    return "@SURROGATE@"
