"""A ready tool: Python in the code sandbox.

A program runs in the sandbox as generated code does (docs/sandbox.md). The answer is its output, followed by the value
of the last line if that is an expression. With `keep`, earlier programs of the episode that did not fail run again
before it, so that names persist. A program that depends on a clock or on randomness may then give another result.
"""

from __future__ import annotations

from typing import NamedTuple

from ...sandbox import Limits
from . import confined
from .function import Kit, kit

LONGEST_PROGRAM = 20_000  # characters
LONGEST_KEPT = 200_000  # characters of a program and of the earlier programs that run before it
LONGEST_OUTPUT = 20_000  # characters of output
_FINISHED, _RAISED = "+", "-"  # the first character of the result
_RUN = """
import ast as _ast, contextlib as _contextlib, io as _io

def _run(sources):
    names = {{"__name__": "__main__"}}
    for source in sources:
        out = _io.StringIO()
        try:
            with _contextlib.redirect_stdout(out), _contextlib.redirect_stderr(out):
                tree = _ast.parse(source)
                last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
                exec(compile(tree, "<program>", "exec"), names)
                value = eval(compile(_ast.Expression(last.value), "<program>", "eval"), names) if last else None
                if value is not None:
                    print(repr(value))
            sign, error = "{finished}", ""
        except BaseException as raised:
            sign, error = "{raised}", type(raised).__name__ + ": " + str(raised)[:500]
    return sign + out.getvalue()[:{most}] + error

def program():
    return _run({sources!r})
"""


def python(*, keep: bool = True, limits: Limits | None = None) -> Kit:
    """Return a kit with the tool `python`.

    Args:
        keep: True if programs of an episode share their names.
        limits: Limits of a program together with the earlier ones; see `sandbox.Limits`.
    """
    return kit("python", Programs(keep, limits or Limits()).python, initial=(), bounded=True)


class Programs(NamedTuple):
    """The tool `python` with its settings; see the function `python`."""

    keep: bool
    limits: Limits

    def python(self, state: tuple[str, ...], code: str) -> tuple[tuple[str, ...], str]:
        """Run a Python program and see what it prints, and the value of its last line.

        Args:
            code: The program; the standard library can be imported, files and the network cannot be reached.
        """
        if len(code) > LONGEST_PROGRAM:
            raise ValueError(f"the program has {len(code)} characters; give at most {LONGEST_PROGRAM}")
        if (size := sum(map(len, (*state, code)))) > LONGEST_KEPT:
            raise ValueError(f"with the earlier programs it has {size} characters; {LONGEST_KEPT} are run at most")
        source = _RUN.format(finished=_FINISHED, raised=_RAISED, most=LONGEST_OUTPUT, sources=[*state, code])
        answer = confined.returned(source, self.limits)
        kept = self.keep and answer[:1] == _FINISHED
        return ((*state, code) if kept else state), answer[1:].rstrip("\n") or "(it printed nothing)"
