"""Encoding of plain data between judge and program: tagged builtin types with limits, without pickle.

Tests compute with decoded values in C functions, which no timer can interrupt. So the limits ensure that arithmetic,
comparison, hash and text of two numbers take well under a second. The same holds for sets and tables of other values.
Both sides check the limits before they build a value.

Decoded values are built from bytes, so that no object of generated code takes part in a comparison. A value is one tag
byte and its content; containers have a count. A frame is a length, a number that pairs request and answer, and the
bytes of the value.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import builtins
import contextlib
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import chain, islice
from types import SimpleNamespace
from typing import Any, cast

MAX_DEPTH = 200
MAX_SIZE = 1 << 22  # bytes of one value
MAX_BITS = 1 << 17  # bits of an int (39,000 digits): division and gcd take quadratic time
MAX_FRACTION_BITS = 1 << 15  # bits of either part of a Fraction: every operator needs several products and a gcd
MAX_DIGITS = 1_000  # digits of a Decimal: with ten times as many, one power takes half a minute
MAX_EXPONENT = 40_000  # exponent of a Decimal: as an int it has about MAX_BITS bits
MAX_RANGE = 1 << 18  # numbers in one range: `in` compares most types with each of them
MAX_RANGES = 1 << 22  # numbers in all ranges of one value together
MAX_EQUAL_HASHES = 64  # different items of a container with the same hash: a set of many takes quadratic time
HEADER = struct.Struct(">IQ")
_VIEWS = (KeysView, ValuesView, ItemsView)
_COUNT = struct.Struct(">I")
_FLOAT = struct.Struct(">d")
_HANDLE = struct.Struct(">Q")
_FROZEN: dict[type, Callable[..., Any]] = {list: tuple, set: frozenset}
_CONTAINERS: dict[type, bytes] = {list: b"[", tuple: b"(", set: b"{", frozenset: b"<"}
_TIMES: dict[type, bytes] = {datetime: b"@", date: b"Y", time: b"C"}
Keep = Callable[[Any], int]  # returns the number of an object that stays in its process
Kept = Callable[[int], Any]  # returns the proxy for the object of a number
_DICTS = (dict, Counter, OrderedDict, defaultdict)  # the last three compare as a dict does
_ATOMS = (bool, int, float, complex, str, bytes, bytearray, Decimal, Fraction)
_SPREAD = frozenset([type(None), type(...), bool, float, str, bytes, bytearray, dict])  # few can share a hash
_HASH_OF_INTS = (1 << 61) - 1  # below it every int except -1 has its own hash


class CodecError(ValueError):
    """A value that cannot be encoded, or bytes that are not an encoded value."""


# --- encoding ---------------------------------------------------------------------------------------------------------


def encode(value: Any, *, low: bool = False, keep: Keep | None = None) -> bytes:
    """Return the bytes of a value.

    Args:
        value: Any value; it is refused unless it and all parts are exactly of a plain type.
        low: Encode the plain data of subclasses, iterators and objects with attributes instead of refusing them.
        keep: Function that returns a number for an object of another type; the number is sent in its place.

    Raises:
        CodecError: The value has another type, is too large or too deep, or contains itself.
    """
    out = bytearray()
    _encode(value, out, 0, low, keep)
    return bytes(out)


def _encode(value: Any, out: bytearray, depth: int, low: bool, keep: Keep | None) -> None:
    if depth > MAX_DEPTH:
        raise CodecError(f"nested deeper than {MAX_DEPTH}")
    kind: type = type(value)
    if value is None:
        out += b"N"
    elif value is Ellipsis:
        out += b"."
    elif kind in _ATOMS:
        _encode_atom(kind, value, out)
    elif kind in _CONTAINERS:
        _encode_items(_CONTAINERS[kind], value, len(value), out, depth, low, keep)
    elif kind in _DICTS:
        _encode_items(b"D", list(chain.from_iterable(dict.items(value))), len(value), out, depth, low, keep)
    elif kind is range:
        _capped_length(value)
        _encode_items(b"R", (value.start, value.stop, value.step), 3, out, depth, low, keep)
    elif _is_numpy_scalar(kind):
        _encode(value.item(), out, depth + 1, low, keep)
    elif keep is not None:
        _encode_kept(kind, value, out, depth, low, keep)
    elif low:
        _encode_low(value, out, depth, low, keep)
    else:
        raise CodecError(f"{kind.__name__} is no plain value")
    if len(out) > MAX_SIZE:
        raise CodecError(f"larger than {MAX_SIZE} bytes")


def _is_numpy_scalar(kind: type) -> bool:
    return kind.__module__ == "numpy" and any(base.__name__ == "generic" for base in kind.__mro__)


def _encode_atom(kind: type, value: Any, out: bytearray) -> None:
    if kind is bool:
        out += b"T" if value else b"F"
    elif kind is float:
        out += b"f" + _FLOAT.pack(value)
    elif kind is complex:
        out += b"c" + _FLOAT.pack(value.real) + _FLOAT.pack(value.imag)
    elif kind is int:
        if value.bit_length() > MAX_BITS:
            raise CodecError(f"an int of more than {MAX_BITS} bits")
        _blob(b"i", value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True), out)
    elif kind is str:
        if len(value) > MAX_SIZE:
            raise CodecError(f"larger than {MAX_SIZE} bytes")
        _blob(b"s", value.encode("utf-8", "surrogatepass"), out)
    elif kind is Decimal:
        if len(value.as_tuple().digits) > MAX_DIGITS:
            raise CodecError(f"a Decimal of more than {MAX_DIGITS} digits")
        _blob(b"d", str(_capped_decimal(value)).encode(), out)
    elif kind is Fraction:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_FRACTION_BITS:
            raise CodecError(f"a Fraction of more than {MAX_FRACTION_BITS} bits")
        out += b"q"
        _encode_atom(int, value.numerator, out)
        _encode_atom(int, value.denominator, out)
    else:
        _blob(b"b" if kind is bytes else b"a", bytes(value), out)


def _blob(tag: bytes, content: bytes, out: bytearray) -> None:
    if len(content) > MAX_SIZE:
        raise CodecError(f"larger than {MAX_SIZE} bytes")
    out += tag + _COUNT.pack(len(content)) + content


def _encode_items(tag: bytes, items: Any, count: int, out: bytearray, depth: int, low: bool, keep: Keep | None) -> None:
    if count > MAX_SIZE:
        raise CodecError(f"larger than {MAX_SIZE} bytes")
    out += tag + _COUNT.pack(count)
    for item in items:
        _encode(item, out, depth + 1, low, keep)


def _encode_kept(kind: type, value: Any, out: bytearray, depth: int, low: bool, keep: Keep) -> None:
    """Encode a queue, a time or a builtin type, or the number of any other object."""
    if kind is deque:
        _encode_items(b"Q", (list(value), value.maxlen), 2, out, depth, low, keep)
    elif kind in _TIMES and getattr(value, "tzinfo", None) is None:
        _blob(_TIMES[kind], value.isoformat().encode(), out)
    elif kind is timedelta:
        _encode_items(b"t", (value.days, value.seconds, value.microseconds), 3, out, depth, low, keep)
    elif kind is type and vars(builtins).get(value.__name__) is value:
        _blob(b"B", value.__name__.encode(), out)
    else:
        out += b"H" + _HANDLE.pack(keep(value))


def _encode_low(value: Any, out: bytearray, depth: int, low: bool, keep: Keep | None) -> None:
    for base in (*_ATOMS, *_CONTAINERS, dict):
        if isinstance(value, base):
            plain: Any = cast(Any, base)(value) if base is not dict else dict(dict.items(cast("dict[Any, Any]", value)))
            return _encode(plain, out, depth + 1, low, keep)
    if isinstance(value, (Iterator, *_VIEWS)):
        items = list(islice(cast("Iterator[Any]", iter(value)), MAX_SIZE))
        return _encode_items(b"I", items, len(items), out, depth, low, keep)
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is not dict:
        raise CodecError(f"{type(value).__name__} holds no plain data")
    out += b"O"
    return _encode(attributes, out, depth + 1, low, keep)


# --- decoding ---------------------------------------------------------------------------------------------------------


def decode(data: bytes, *, low: bool = False, kept: Kept | None = None) -> Any:
    """Return the value of these bytes; `kept` returns the proxy for the object of a number, see `encode`.

    Raises:
        CodecError: The bytes are not a result of `encode`.
    """
    if len(data) > MAX_SIZE + 64:
        raise CodecError(f"larger than {MAX_SIZE} bytes")
    reader = _Reader(data, low, kept)
    try:
        value = reader.value(0)
    except CodecError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, struct.error, RecursionError) as error:
        raise CodecError(f"malformed: {error}") from error
    if reader.position != len(data):
        raise CodecError("bytes after the value")
    return value


class _Reader:
    def __init__(self, data: bytes, low: bool, kept: Kept | None) -> None:
        self.data = data
        self.low = low
        self.kept = kept
        self.position = 0
        self.numbers = 0  # in ranges so far

    def take(self, count: int) -> bytes:
        start = self.position
        self.position = start + count
        if self.position > len(self.data):
            raise CodecError("cut off")
        return self.data[start : self.position]

    def blob(self) -> bytes:
        return self.take(_COUNT.unpack(self.take(4))[0])

    def items(self, depth: int, per_item: int = 1) -> list[Any]:
        count = _COUNT.unpack(self.take(4))[0] * per_item
        if count > len(self.data) - self.position:
            raise CodecError("cut off")
        items = [self.value(depth + 1) for _ in range(count)]
        if count > MAX_EQUAL_HASHES:
            _refuse_collisions(items)
        return items

    def whole_number(self, most: int) -> int:
        """Read the integer after its tag, of at most `most` bits."""
        count = _COUNT.unpack(self.take(4))[0]
        if count > most // 8 + 1:
            raise CodecError(f"an int of more than {most} bits")
        return int.from_bytes(self.take(count), "big", signed=True)

    def float(self) -> float:
        return _FLOAT.unpack(self.take(8))[0]

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH + 1:
            raise CodecError(f"nested deeper than {MAX_DEPTH}")
        tag = self.take(1)
        build = _DECODERS.get(tag)
        if build is None or (tag in b"IO" and not self.low) or (tag in b"BHQ@YCt" and not self.kept):
            raise CodecError(f"unknown tag {tag!r}")
        return build(self, depth)


def _refuse_collisions(items: list[Any]) -> None:
    """Refuse many different items with the same hash: a set of them would keep the judge busy for hours."""
    if all(type(item) in _SPREAD or (type(item) is int and -_HASH_OF_INTS < item < _HASH_OF_INTS) for item in items):
        return
    same: defaultdict[int, list[Any]] = defaultdict(list)
    for item in items:
        with contextlib.suppress(TypeError):
            key = _FROZEN[type(item)](item) if type(item) in _FROZEN else item  # as a test would
            same[hash(key)].append(key)
    for group in same.values():
        if len(group) > MAX_EQUAL_HASHES and _many_differ(group):
            raise CodecError(f"more than {MAX_EQUAL_HASHES} different items of the same hash")


def _many_differ(group: list[Any]) -> bool:
    """Return whether more than `MAX_EQUAL_HASHES` of these are different."""
    seen: list[Any] = []
    for item in group:
        if item not in seen:
            seen.append(item)
            if len(seen) > MAX_EQUAL_HASHES:
                return True
    return False


def _decode_range(reader: _Reader, depth: int) -> range:
    value = range(*reader.items(depth))
    reader.numbers += _capped_length(value)
    if reader.numbers > MAX_RANGES:
        raise CodecError(f"ranges of more than {MAX_RANGES} numbers together")
    return value


def _capped_length(value: range) -> int:
    parts = (value.start, value.stop, value.step)
    length = max(0, (value.stop - value.start) // value.step)  # up to one off
    if length > MAX_RANGE or max(part.bit_length() for part in parts) > 64:
        raise CodecError(f"a range of more than {MAX_RANGE} numbers, or of numbers beyond 64 bits")
    return length + 1


def _decode_decimal(reader: _Reader, depth: int) -> Decimal:
    text = reader.blob()
    if len(text) > MAX_DIGITS + 20:  # sign, point and exponent, or the text of a NaN
        raise CodecError(f"a Decimal of more than {MAX_DIGITS} digits")
    return _capped_decimal(Decimal(text.decode()))


def _capped_decimal(value: Decimal) -> Decimal:
    if value.is_finite() and abs(value.adjusted()) > MAX_EXPONENT:
        raise CodecError(f"a Decimal with an exponent beyond {MAX_EXPONENT}")
    return value


def _decode_dict(reader: _Reader, depth: int) -> dict[Any, Any]:
    flat = reader.items(depth, per_item=2)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _decode_fraction(reader: _Reader, depth: int) -> Fraction:
    parts: list[int] = []
    for _ in range(2):
        if reader.take(1) != b"i":
            raise CodecError("a Fraction of what is no int")
        parts.append(reader.whole_number(MAX_FRACTION_BITS))
    return Fraction(*parts)


def _decode_deque(reader: _Reader, depth: int) -> deque[Any]:
    items, longest = reader.items(depth)
    if type(items) is not list or type(longest) not in (int, type(None)):
        raise CodecError("a deque of what is no list")
    return deque(items, longest)


def _decode_handle(reader: _Reader, depth: int) -> Any:
    assert reader.kept is not None
    return reader.kept(_HANDLE.unpack(reader.take(8))[0])


def _decode_type(reader: _Reader, depth: int) -> type:
    kind = vars(builtins)[reader.blob().decode()]
    if type(kind) is not type:
        raise CodecError("a type that is none")
    return kind


def _decode_timedelta(reader: _Reader, depth: int) -> timedelta:
    days, seconds, microseconds = reader.items(depth)
    if not type(days) is type(seconds) is type(microseconds) is int:
        raise CodecError("a timedelta of what is no int")
    return timedelta(days, seconds, microseconds)


_DECODERS: dict[bytes, Callable[[_Reader, int], Any]] = {
    b"N": lambda reader, depth: None,
    b".": lambda reader, depth: Ellipsis,
    b"T": lambda reader, depth: True,
    b"F": lambda reader, depth: False,
    b"i": lambda reader, depth: reader.whole_number(MAX_BITS),
    b"f": lambda reader, depth: reader.float(),
    b"c": lambda reader, depth: complex(reader.float(), reader.float()),
    b"s": lambda reader, depth: reader.blob().decode("utf-8", "surrogatepass"),
    b"b": lambda reader, depth: reader.blob(),
    b"a": lambda reader, depth: bytearray(reader.blob()),
    b"d": _decode_decimal,
    b"q": _decode_fraction,
    b"[": lambda reader, depth: reader.items(depth),
    b"(": lambda reader, depth: tuple(reader.items(depth)),
    b"{": lambda reader, depth: set(reader.items(depth)),
    b"<": lambda reader, depth: frozenset(reader.items(depth)),
    b"D": _decode_dict,
    b"R": _decode_range,
    b"Q": _decode_deque,
    b"H": _decode_handle,
    b"@": lambda reader, depth: datetime.fromisoformat(reader.blob().decode()),
    b"Y": lambda reader, depth: date.fromisoformat(reader.blob().decode()),
    b"C": lambda reader, depth: time.fromisoformat(reader.blob().decode()),
    b"t": _decode_timedelta,
    b"B": _decode_type,
    b"I": lambda reader, depth: iter(reader.items(depth)),
    b"O": lambda reader, depth: SimpleNamespace(**_decode_attributes(reader, depth)),
}


def _decode_attributes(reader: _Reader, depth: int) -> dict[str, Any]:
    attributes = reader.value(depth + 1)
    if type(attributes) is not dict:
        raise CodecError("attributes that are no dict")
    names = cast("dict[Any, Any]", attributes)
    if any(type(name) is not str or name.startswith("__") for name in names):
        raise CodecError("attributes without proper names")
    return names


# --- frames -----------------------------------------------------------------------------------------------------------


def frame(number: int, body: bytes) -> bytes:
    """Return one frame: length, number and body."""
    return HEADER.pack(len(body), number) + body
