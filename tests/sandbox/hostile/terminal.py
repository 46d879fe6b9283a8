# Types into the terminal.
# category: escapes
# expect: failed
import fcntl
import os
import termios


def f(x):
    descriptor = os.open("/dev/tty", os.O_RDWR)
    for letter in "touch @OUTSIDE@/escaped\n":
        fcntl.ioctl(descriptor, termios.TIOCSTI, letter.encode())
    return None
