# Connects to an abstract socket.
# category: escapes
# expect: failed
import socket


def f(x):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("\0@SOCKET@")
    connection.sendall(b"escaped")
    return None
