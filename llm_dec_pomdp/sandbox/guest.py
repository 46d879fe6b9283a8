"""The untrusted guest: loads one program and answers calls of its entry point with plain data.

This module runs in one process with generated code, which may change all of it. So no verdict is made here. The judge
only decodes the received bytes as a value, and compares it with values that only the judge knows.
"""

from __future__ import annotations
import __future__

import builtins
import os
import random
import select
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

from . import codec

SOCKET = 3  # the only descriptor; the three standard ones lead nowhere
NOTE_LENGTH = 200
_CHUNK = 1 << 14  # smallest number of bytes that are read at once
_FEATURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
_REHEARSAL = """
class C:
    def __init__(self, values):
        self.values = dict(enumerate(values))

    def sorted(self):
        return sorted(str(value) for value in self.values.values())

def f(values):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        tree = ast.parse("print(sum(range(10)))")
        exec(compile(tree, "<rehearsal>", "exec"), {"c": C(values).sorted()})
    raise ValueError(out.getvalue())
"""


def serve(modules: Callable[[int, Any], NoReturn]) -> NoReturn:
    """Answer frames until the judge closes the connection; `modules` serves programs of several files."""
    function: Any = None
    low = False
    random.seed()  # else all programs would have the random state of the zygote
    if not select.select([SOCKET], [], [], 0)[0]:
        rehearse()
    send(0, ("ready",))
    while True:
        number, body = receive()
        answer: tuple[Any, ...]
        try:
            request = codec.decode(body, low=True)
            if function is None and request[0] == "modules":
                modules(number, request[1])
            elif function is None:
                prelude, solution, entry_point, low = request
                function = load(prelude, solution, entry_point)
                answer = ("loaded",)
            else:
                positional, named = request
                answer = ("value", function(*positional, **named))
        except BaseException as error:  # every exception of the program, including SystemExit, is its outcome
            answer = describe(error)
        send(number, answer, low=low)


def rehearse() -> None:
    """Run a sample program once in advance, because the first execution after a fork is slow."""
    named = codec.decode(codec.encode({"values": [1, 2.0, "3", None, True]}), low=True)
    try:
        load("import ast, contextlib, io", _REHEARSAL, "f")(**named)
    except ValueError as error:
        codec.encode(describe(error))
    finally:
        del sys.modules["solution"]


def load(prelude: str, solution: str, entry_point: str) -> Callable[..., Any]:
    """Execute prelude and solution as one module, which is registered because dataclasses look up their module.

    Neither inherits the `__future__` features of this file. The solution has its own and those of the prelude.
    """
    module = types.ModuleType("solution")
    sys.modules["solution"] = module
    given = compile(prelude, "<problem>", "exec", dont_inherit=True)
    exec(given, module.__dict__)
    features = given.co_flags & _FEATURES
    exec(compile(solution, "<solution>", "exec", features, dont_inherit=True), module.__dict__)
    return getattr(module, entry_point)


def describe(error: BaseException) -> tuple[Any, ...]:
    """Return ("raised", builtin types, arguments, note), with the text in place of arguments that are not plain."""
    kinds = [kind.__name__ for kind in type(error).__mro__ if getattr(builtins, kind.__name__, None) is kind]
    try:
        text = str(error)
        arguments: tuple[Any, ...] = tuple(BaseException.args.__get__(error))  # type: ignore[attr-defined]
        codec.encode(arguments)
    except BaseException:  # a hostile __str__, or arguments that cannot be encoded
        text, arguments = explain(error).partition(": ")[2], ()
    return "raised", kinds[:-1], arguments or ((text[:NOTE_LENGTH],) if text else ()), explain(error)


def explain(error: BaseException) -> str:
    """Return `TypeName: message`, truncated, and without characters that cannot be encoded."""
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:  # a hostile __str__
        text = type(error).__name__
    return text[:NOTE_LENGTH].encode("utf-8", "replace").decode()


def send(number: int, answer: tuple[Any, ...], *, low: bool = False, keep: codec.Keep | None = None) -> None:
    """Write one frame; a value that cannot be encoded is replaced by the reason."""
    try:
        body = codec.encode(answer, low=low, keep=keep)
    except codec.CodecError as error:
        body = codec.encode(("refused", str(error)[:NOTE_LENGTH]))
    except BaseException as error:
        body = codec.encode(("refused", type(error).__name__[:NOTE_LENGTH]))
    data = memoryview(codec.frame(number, body))
    while data:
        data = data[os.write(SOCKET, data) :]


def receive() -> tuple[int, bytes]:
    """Return the next frame, after which nothing may follow before the answer; exit at the end of the input."""
    data = bytearray()
    _read(data, codec.HEADER.size)
    length, number = codec.HEADER.unpack_from(data)
    _read(data, codec.HEADER.size + length)
    return number, bytes(data[codec.HEADER.size :])


def _read(data: bytearray, count: int) -> None:
    """Read until `data` has `count` bytes."""
    while len(data) < count:
        chunk = os.read(SOCKET, min(max(count - len(data), _CHUNK), 1 << 20))
        if not chunk:
            os._exit(0)
        data += chunk
