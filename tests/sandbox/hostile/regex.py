# Catastrophic regular expression.
# category: resources
# expect: timeout, failed
import re


def f(x):
    return re.match("(a+)+b", "a" * 60)
