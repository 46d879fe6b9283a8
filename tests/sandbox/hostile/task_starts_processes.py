# The tests of a task file start processes and threads and send signals.
# category: tasks
# expect: failed
import ctypes
import os
import signal
import subprocess
import threading


def forked():
    if os.fork() == 0:
        os._exit(0)
    return True


def copied(call):
    if call() == 0:  # in the new process
        os._exit(0)
    return True


def called(number, *arguments):
    made = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if made < 0:
        raise OSError
    return made


def check(candidate):
    assert subprocess.run(["/bin/sh", "-c", "touch @OUTSIDE@/escaped"]).returncode == 0
    assert forked()
    assert os.posix_spawn("/bin/true", ["true"], {}) > 0
    assert copied(lambda: called(57 if os.uname().machine == "x86_64" else 220, 17))  # fork, clone
    assert copied(lambda: called(435, (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17), 88))  # clone3
    assert os.system("touch @OUTSIDE@/escaped") == 0
    assert os.kill(int("@TRAINER@"), 0) is None
    assert os.kill(os.getppid(), signal.SIGCONT) is None
    assert ctypes.CDLL(None).unshare(0x10000000) == 0
    assert threading.Thread(target=print).start() is None
