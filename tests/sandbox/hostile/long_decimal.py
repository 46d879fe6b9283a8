# Returns Decimals of a million digits, as a number, in a payload, and behind the point.
# category: resources
# expect: failed, unsupported
from decimal import Decimal


def f(x):
    text = {1: "7" * 1_000_000, 2.5: "NaN" + "7" * 1_000_000}.get(x if type(x) is not list else 0)
    return Decimal(text or "0." + "7" * 1_000_000)
