# Returns fractions of two numbers of 200 kB: every operation on them takes a gcd, which no timer interrupts.
# category: resources
# expect: failed, unsupported, timeout
from fractions import Fraction


def f(x):
    value = Fraction.__new__(Fraction)
    value._numerator, value._denominator = (1 << 1_600_000) + 1, (1 << 1_600_000) - 1
    return value if x != 1 else [value]
