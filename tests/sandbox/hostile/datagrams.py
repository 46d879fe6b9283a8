# Makes a socket that can send to any address.
# category: escapes
# expect: failed
import socket


def f(x):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    raise RuntimeError("@ACHIEVED@")
