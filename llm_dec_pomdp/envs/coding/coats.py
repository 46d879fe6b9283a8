"""Values of generated programs: their parts, whether one is an encoding of another, and values to try instead.

A coat is a simple encoding, a way from a value to an answer and back: the same, negated, moved by a constant, as text,
reversed, within other text, in a code of the standard library, cut in parts, an element of a list, or one of these for
each element. This source is sent to the process of a program, before `evidence` and `observer`.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from __future__ import annotations

import base64
import itertools
import zlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

LONG = 64  # longer lists, and texts of more than ten times as many characters, are not compared in parts
PARTS = 8  # elements of a value that may be an answer
ALTERED = 3  # ways to alter a value
ATOMS = (bool, int, float, complex, str, bytes, type(None))
BOXES = (list, tuple, set, frozenset, dict)
CODES: dict[str, Callable[[bytes], bytes]] = {
    **{way: getattr(base64, f"{way}decode") for way in ("b16", "b32", "b64", "urlsafe_b64", "a85", "b85")},
    "hex": lambda code: bytes.fromhex(code.decode()),
    "zlib": zlib.decompress,
}
CUT = 4  # parts that a text may be cut in
ALIKE = str.maketrans('"()', "'[]")


def copied(value: Any) -> Any:
    """A deep copy; the value itself where it cannot be copied."""
    if type(value) in ATOMS:
        return value
    try:
        return deepcopy(value)
    except Exception:
        return value


def text_of(value: Any) -> str:
    """The text by which values are compared; only the type where `__repr__` raises."""
    try:
        return repr(value)
    except Exception:
        return type(value).__name__


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """A value without its containers of one element, and its first elements, each with its place."""
    boxed = value
    while type(value) in BOXES and len(value) == 1:
        value = next(iter(value.values() if type(value) is dict else value))
    yield "", value
    yield "boxed", boxed
    if type(value) in (list, tuple, dict) and len(value):
        named = value.items() if type(value) is dict else enumerate(value)
        for place, part in itertools.islice(named, PARTS):
            yield f"at {place}", next(parts(part))[1]
        if type(value) is not dict:
            yield "last", next(parts(value[-1]))[1]


def coats_of(value: Any, answer: Any) -> set[tuple[Any, ...]]:
    """The simple ways from a value to an answer and back. A value that has one way in all calls is a coat."""
    coats: set[tuple[Any, ...]] = set()
    if same(value, answer):
        coats.add(("same",))
    if isinstance(value, (int, float)) and isinstance(answer, (int, float)):
        coats |= _coats_of_numbers(value, answer)
    if isinstance(value, str):
        if isinstance(answer, str) and value.swapcase() == answer:
            coats.add(("case",))
        for order in (1, -1):
            coats |= {(order, *coat) for coat in _coats_of_text(value[::order], answer)}
    elif isinstance(answer, str) and plain(answer) == plain(text_of(value)):
        coats.add(("text",))
    told = plain(text_of(answer))
    coats |= {(way, order) for way, text in _spelled(value) for order in (1, -1) if plain(text[::order]) == told}
    return coats | _coats_of_several(value, answer)


def _spelled(value: Any) -> Iterator[tuple[Any, str]]:
    """The texts that a text or bytes encode, or that several texts make when they are joined or interleaved."""
    if type(value) in (str, bytes) and len(value) < 20 * LONG:
        code = value.encode("utf-8", "replace") if type(value) is str else value
        yield "bytes", code.decode("utf-8", "replace")
        for way, decoded in CODES.items():
            try:
                yield way, decoded(code).decode()
            except (ValueError, zlib.error):  # not in this code
                continue
    elif type(value) in (list, tuple) and 1 < len(value) <= CUT and all(type(part) is str for part in value):
        yield ("joined", len(value)), "".join(value)
        yield ("in turns", len(value)), "".join(itertools.chain(*itertools.zip_longest(*value, fillvalue="")))


def _coats_of_numbers(value: Any, answer: Any) -> set[tuple[Any, ...]]:
    coats: set[tuple[Any, ...]] = set()
    if isinstance(value, bool) or isinstance(answer, bool):
        return {("not",)} if bool(value) != bool(answer) and value in (0, 1) and answer in (0, 1) else coats
    try:
        coats.add(("offset", round(answer - value, 9)))
        if value == -answer:
            coats.add(("negated",))
    except (ArithmeticError, ValueError):  # infinite, no number, or too large
        pass
    return coats


def _coats_of_several(value: Any, answer: Any) -> set[tuple[Any, ...]]:
    if type(value) not in (str, list, tuple) or type(answer) not in (str, list, tuple) or len(value) != len(answer):
        return set()
    coats: set[tuple[Any, ...]] = set()
    if same(list(value[::-1]), list(answer)):
        coats.add(("reversed",))
    if type(value) is not str and type(answer) is not str and 0 < len(value) <= LONG:
        each = [coats_of(one, other) for one, other in zip(value, answer, strict=True)]
        coats |= {("each", *coat) for coat in set.intersection(*each)}
    elif type(value) is not type(answer) and same(list(value), list(answer)):
        coats.add(("characters",))
    return coats


def _coats_of_text(value: str, answer: Any) -> set[tuple[Any, ...]]:
    coats: set[tuple[Any, ...]] = set()
    for inner in {text_of(answer), str(answer)} if len(value) < 10 * LONG else ():
        moved = {ord(one) - ord(other) for one, other in zip(value, inner, strict=False)}
        if len(value) == len(inner) and len(moved) == 1:
            coats.add(("moved", *moved))
        if inner and plain(inner) in plain(value):
            before, _, after = plain(value).partition(plain(inner))
            coats.add(("within", before, after))
    return coats


def plain(text: str) -> str:
    """Text in which literals of Python and of JSON look alike."""
    return text.translate(ALIKE).lower().replace("null", "none")


def same(value: Any, answer: Any) -> bool:
    """Equal, also as list and tuple, in boxes, or nearly as numbers."""
    if type(value) is float and type(answer) in (int, float):
        return abs(value - answer) <= 1e-9 * max(1.0, abs(answer))
    return text_of(_listed(value)) == text_of(_listed(answer))


def _listed(value: Any) -> Any:
    value = next(parts(value))[1]
    return list(value) if type(value) is tuple else value


def altered(value: Any, way: int) -> Any:
    """Another value of the same type, made in one of `ALTERED` ways; the value itself for other types."""
    if type(value) is bool:
        return not value
    if type(value) in (int, float):
        return (value + 1, value - 1, 2 * value + 3)[way]
    if type(value) in (str, bytes, list, tuple):
        return (value[:-1], value[::-1], value[1:] + value[:1])[way]
    if type(value) in (set, frozenset):
        return type(value)(sorted(value, key=text_of)[way + 1 :])
    if type(value) is dict:
        return dict(list(value.items())[way + 1 :])
    return value


def extended(value: Any, argument: Any) -> Any:
    """A list or tuple to which an argument was added."""
    return type(value)([*value, argument]) if type(value) in (list, tuple) else value


def empty_like(value: Any) -> Any:
    """The empty value of a type, None where it has none."""
    try:
        return type(value)()
    except Exception:
        return None
