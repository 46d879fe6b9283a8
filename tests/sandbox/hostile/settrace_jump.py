# Sets a trace function on its callers that jumps over what comes next.
# category: lies
# expect: timeout, failed, died
import sys


def jump(frame, event, argument):
    if event == "line":
        try:
            frame.f_lineno += 1
        except ValueError:
            pass
    return jump


def f(x):
    frame = sys._getframe(1)
    sys.settrace(jump)
    while frame is not None:
        frame.f_trace = jump
        frame = frame.f_back
    return None
