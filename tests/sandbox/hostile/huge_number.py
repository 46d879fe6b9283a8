# Returns a number of a million digits, and a Decimal with a vast exponent.
# category: resources
# expect: failed, unsupported
from decimal import Decimal


def f(x):
    return Decimal("1e999999999") if x == 2.5 else 1 << 3_000_000
