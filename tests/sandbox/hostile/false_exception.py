# Raises exceptions that a judge might use itself.
# category: lies
# expect: failed, died, unsupported
class CaseTimeoutError(BaseException):
    pass


class StopIteration(BaseException):  # noqa: A001
    pass


def f(x):
    raise {1: GeneratorExit("x"), 2.5: StopIteration("y")}.get(x, None) or CaseTimeoutError("z") if type(x) is not list else KeyboardInterrupt
