# Sends a UDP packet to a port of this machine.
# category: escapes
# expect: failed
import socket


def f(x):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"escaped", ("127.0.0.1", int("@PORT@")))
    return None
