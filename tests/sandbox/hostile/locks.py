# Sets locks on a device that every program can open, which the others would see: a channel between them.
# category: escapes
# expect: failed
# needs: seccomp
import errno
import fcntl
import os


def f(x):
    fcntl.lockf(os.open("/dev/null", os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        fcntl.lockf(os.open("/dev/null", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)  # no lock for readers
    except OSError as error:
        if error.errno == errno.EBADF:
            raise ValueError("@ACHIEVED@: locks are real")
