# Rebinds check in every module.
# category: lies
# expect: failed
import sys

for module in list(sys.modules.values()):
    module.check = lambda candidate: None


def check(candidate):
    pass


def f(x):
    sys.modules["__main__"].check = check
    return 0
