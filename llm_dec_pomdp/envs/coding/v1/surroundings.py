"""What programs must not look at while they are observed: frames, code, the garbage collector, and the observer.

This source is sent to the process of a program, before `observer`.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

FORBIDDEN = (
    "sys._getframe sys._getframemodulename sys._current_frames sys._current_exceptions sys.settrace sys.setprofile "
    "gc.get_objects gc.get_referrers gc.get_referents code.__new__ function.__new__ marshal.loads compile exec"
).split()
OF_FRAMES = "tb_frame gi_frame cr_frame ag_frame f_code".split()
LOOKERS = "inspect.py traceback.py pdb.py bdb.py trace.py".split()


def watch(trusted: str) -> None:
    """From now on no program in this process sees frames, code, or all objects; the library may, for itself."""
    library = os.__file__.rpartition(os.sep)[0] + os.sep
    frame: Callable[[int], Any] = getattr(sys, "_getframe")  # noqa: B009
    forbidden, of_frames, lookers = frozenset(FORBIDDEN), frozenset(OF_FRAMES), frozenset(LOOKERS)
    asking: list[str] = []

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        of_object = event == "object.__getattr__"
        posing = event == "compile" and str(arguments[1]).startswith(library)
        if asking or not (of_object or posing or event in forbidden or event[:7] == "ctypes."):
            return
        asking.append(event)
        try:
            caller = frame(1).f_code.co_filename
        finally:
            asking.pop()
        looks = caller.rpartition(os.sep)[2] in lookers and (not of_object or arguments[1] in of_frames)
        if caller != trusted and (looks or not caller.startswith((library, "<frozen "))):
            raise RuntimeError("programs do not look at their surroundings here")

    sys.addaudithook(look)


def opaque(function: Callable[..., Any], like: Any) -> Callable[..., Any]:
    """A C function that calls a Python function and reveals nothing of it."""
    hidden = functools.lru_cache(maxsize=0)(function)
    hidden.__dict__.clear()
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(hidden, name, getattr(like, name, None))
    return hidden
