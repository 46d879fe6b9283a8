# Makes another process the owner of a socket, which gets its signals.
# category: escapes
# expect: failed
import fcntl
import socket
import struct

FIOSETOWN, SIOCSPGRP, FIOASYNC = 0x8901, 0x8902, 0x5452


def f(x):
    ours, _ = socket.socketpair()
    for request, argument in ((FIOSETOWN, int("@TRAINER@")), (SIOCSPGRP, int("@TRAINER@")), (FIOASYNC, 1)):
        try:
            fcntl.ioctl(ours, request, struct.pack("i", argument))
        except OSError:
            continue
        raise RuntimeError("@ACHIEVED@")
    return None
