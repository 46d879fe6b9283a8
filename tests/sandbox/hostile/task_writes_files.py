# The tests of a task file write, rename and remove files.
# category: tasks
# expect: failed
import os
from pathlib import Path


def done(act):
    try:
        act()
    except OSError:
        return False
    return True


def check(candidate):
    assert done(lambda: Path("@OUTSIDE@/escaped").write_text("x"))
    assert done(lambda: Path("@SECRET@").unlink())
    assert done(lambda: os.rename("@SECRET@", "@OUTSIDE@/escaped"))
    assert done(lambda: os.chmod("@SECRET@", 0o777))
    assert done(lambda: os.symlink("@SECRET@", "/tmp/llm-dec-pomdp-escaped"))
    assert done(lambda: Path("/dev/shm/llm-dec-pomdp-escaped").write_text("x"))
