# Has signals about files sent to another process.
# category: escapes
# expect: failed
import fcntl
import os
import signal
import struct

ATTEMPTS = (
    (10, signal.SIGKILL),  # F_SETSIG
    (fcntl.F_SETOWN, int("@TRAINER@")),
    (15, struct.pack("ii", 1, int("@TRAINER@"))),  # F_SETOWN_EX
    (fcntl.F_SETFL, os.O_ASYNC),
    (fcntl.F_NOTIFY, fcntl.DN_ACCESS | fcntl.DN_MULTISHOT),
)


def f(x):
    folder = os.open(os.path.dirname(os.__file__), os.O_RDONLY)
    reader, _ = os.pipe()
    for descriptor in (folder, reader):
        for command, argument in ATTEMPTS:
            try:
                fcntl.fcntl(descriptor, command, argument)
            except OSError:
                continue
            raise RuntimeError("@ACHIEVED@")
    return None
