# Connects to a TCP port of this machine.
# category: escapes
# expect: failed
import socket


def f(x):
    with socket.create_connection(("127.0.0.1", int("@PORT@")), timeout=1) as connection:
        connection.sendall(b"escaped")
    return None
