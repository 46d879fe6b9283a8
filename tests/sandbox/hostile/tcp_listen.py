# Listens on a TCP port.
# category: escapes
# expect: failed
import socket

kept = []


def f(x):
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    kept.append(server)
    return None
