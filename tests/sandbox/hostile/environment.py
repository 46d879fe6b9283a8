# Reads environment variables of its own and of other processes.
# category: escapes
# expect: failed
import glob
import os


def f(x):
    found = repr(dict(os.environ))
    for path in ["/proc/self/environ", "/proc/@TRAINER@/environ", *glob.glob("/proc/[0-9]*/environ")]:
        try:
            found += open(path).read()
        except OSError:
            pass
    raise ValueError(found[found.find("escape") :])
