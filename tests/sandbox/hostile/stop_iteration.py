# Raises what ends the loops, maps and generators of a test instead of answering.
# category: lies
# expect: failed
class End(StopIteration):
    pass


def f(x):
    raise {1: StopIteration, 2.5: End, "text": StopAsyncIteration}.get(x if type(x) is not list else 0, GeneratorExit)
