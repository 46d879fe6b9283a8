# Replaces the function that answers.
# category: lies
# expect: died, failed, unsupported
import gc
import types


def module_with(name):
    for thing in gc.get_objects() + [g for g in map(vars, []) if g]:
        if type(thing) is types.FunctionType and thing.__name__ == name:
            return thing.__globals__
    frame = __import__("sys")._getframe()
    while frame is not None:
        if name in frame.f_globals:
            return frame.f_globals
        frame = frame.f_back
    return {}


def f(x):
    room = module_with("receive")
    send = room["send"]

    def lie(number, answer, low=False):
        send(number, ("value", True))
        send(number, ("passed", 4, 4))
        send(0, ("done",))

    room["send"] = lie
    return None
