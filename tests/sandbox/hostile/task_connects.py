# The tests of a task file open connections.
# category: tasks
# expect: failed
import socket


def check(candidate):
    assert socket.create_connection(("127.0.0.1", int("@PORT@")), timeout=1)
    assert socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"escaped", ("127.0.0.1", int("@PORT@")))
    assert socket.socket(socket.AF_UNIX).connect("\0@SOCKET@") is None
    assert socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
