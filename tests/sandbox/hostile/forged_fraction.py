# Writes the bytes of a fraction of two huge numbers itself, and of one nested in others.
# category: resources
# expect: died, failed, unsupported
import gc
import types


def codec_of_the_room():
    for thing in gc.get_objects():
        if type(thing) is types.FunctionType and thing.__name__ == "describe" and "codec" in thing.__globals__:
            return thing.__globals__["codec"]
    frame = __import__("sys")._getframe()
    while frame is not None:
        if "codec" in frame.f_globals:
            return frame.f_globals["codec"]
        frame = frame.f_back


def f(x):
    codec = codec_of_the_room()
    number = b"i" + (200_000).to_bytes(4, "big") + b"\x77" * 200_000
    value = b"q" + (number + number if x == 1 else (b"q" + number + number) * 2)
    head = b"(" + (2).to_bytes(4, "big")
    codec.encode = lambda answer, **options: head + b"s" + (5).to_bytes(4, "big") + b"value" + value
    return 0
