# Reads command lines of all processes for the tests.
# category: lies
# expect: failed
import glob


def f(x):
    found = ""
    for path in glob.glob("/proc/[0-9]*/cmdline") or ["/proc/self/cmdline", "/proc/1/cmdline"]:
        with open(path) as file:
            found += file.read()
    return eval(found[found.index("candidate") :])
