# Hides the object that equals everything inside of plain containers.
# category: lies
# expect: unsupported
from unittest.mock import ANY


def f(x):
    return {"sum": ANY, "all": [ANY, (ANY, {"a": ANY})]} if type(x) is list else [ANY]
