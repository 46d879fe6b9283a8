# The tests and the prompt of a task file read files.
# category: tasks
# expect: failed
from pathlib import Path

FILES = ("@SECRET@", "/etc/hostname", "/etc/passwd", "/proc/self/environ", "/proc/1/cmdline", "/sys/kernel/uevent_seqnum")


def text(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""


READ = [text(path) for path in FILES]


def check(candidate):
    assert any(READ), READ
    for path in FILES:
        assert text(path)
    assert list(Path("@SECRET@").parent.iterdir())
