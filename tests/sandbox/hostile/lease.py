# Takes leases on files of the library, so that others who open them wait.
# category: escapes
# expect: failed
import fcntl
import os
from pathlib import Path

HELD = []


def f(x):
    for path in Path(os.__file__).parent.glob("*.py"):
        HELD.append(os.open(path, os.O_RDONLY))
        try:
            fcntl.fcntl(HELD[-1], fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError:
            os.close(HELD.pop())
            continue
        raise RuntimeError("@ACHIEVED@")
    return None
