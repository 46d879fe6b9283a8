# Returns subclasses of builtin types under the same names, with an __eq__ that lies.
# category: lies
# expect: unsupported
def liar(base):
    lies = {"__eq__": lambda a, b: True, "__ne__": lambda a, b: False, "__hash__": lambda a: 0}
    lies |= {"__sub__": lambda a, b: 0.0, "__rsub__": lambda a, b: 0.0}
    return type(base.__name__, (base,), {**lies, "__module__": "builtins"})


int, float, str, list, dict = map(liar, (int, float, str, list, dict))


def f(x):
    return {1: int(7), 2.5: float(7)}.get(x, list([1])) if not hasattr(x, "append") else dict(a=1)
