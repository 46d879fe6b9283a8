# Answers the order to load with a dict of a hundred thousand keys of one hash, which is slow to build.
# category: resources
# expect: died, load_error, timeout
import gc
import sys
import types

[room] = [g for g in gc.get_objects() if type(g) is types.FunctionType and g.__name__ == "receive"][:1] or [None]
frame = sys._getframe()
while "receive" not in frame.f_globals:
    frame = frame.f_back
room, number = frame.f_globals, None
while number is None:
    number = frame.f_locals.get("number")
    frame = frame.f_back
codec = room["codec"]
P = (1 << 61) - 1
one = [codec.encode(i * P) + b"N" for i in range(1, 100_000)]
body = b"(" + (2).to_bytes(4, "big") + codec.encode("value") + b"D" + len(one).to_bytes(4, "big") + b"".join(one)
data = codec.frame(number, body)
while data:
    data = data[__import__("os").write(3, data) :]


def f(x):
    return None
