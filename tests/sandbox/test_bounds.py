"""What tests do with a value that arrived takes little time, whatever its bytes were: the caps of the codec."""

from __future__ import annotations

import contextlib
import operator
import random
import struct
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from llm_dec_pomdp.sandbox import codec
from llm_dec_pomdp.sandbox.codec import CodecError, decode, encode

NUMBERS = (bool, int, float, complex, Decimal, Fraction)
P = (1 << 61) - 1  # ints that differ by it have the same hash


def blob(tag: bytes, content: bytes) -> bytes:
    return tag + struct.pack(">I", len(content)) + content


def items(tag: bytes, parts: list[bytes]) -> bytes:
    return tag + struct.pack(">I", len(parts)) + b"".join(parts)


def whole(number: int) -> bytes:
    return blob(b"i", number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))


# --- one value for each cap ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (1 << codec.MAX_BITS + 1, "an int of more than"),
        (-1 << codec.MAX_BITS + 1, "an int of more than"),
        (Fraction(1, (1 << codec.MAX_FRACTION_BITS) + 1), "a Fraction of more than"),
        (Fraction((1 << 8 * 200_000) + 1, 3), "a Fraction of more than"),
        (Decimal("7" * (codec.MAX_DIGITS + 1)), "a Decimal of more than"),
        (Decimal("NaN" + "7" * (codec.MAX_DIGITS + 1)), "a Decimal of more than"),
        (Decimal(f"1e-{codec.MAX_EXPONENT + 1}"), "a Decimal with an exponent"),
        (Decimal(f"0e{codec.MAX_EXPONENT + 1}"), "a Decimal with an exponent"),
        (Decimal("1e999999"), "a Decimal with an exponent"),
        (range(codec.MAX_RANGE + 2), "a range of more than"),
        (range(1 << 70, (1 << 70) + 2), "a range of more than"),
        (range(10**30), "a range of more than"),
    ],
    ids="int negative denominator numerator digits payload exponent zero high range far-range endless-range".split(),
)
def test_the_program_is_told_what_is_too_large(value: Any, reason: str) -> None:
    with pytest.raises(CodecError, match=reason):
        encode([value])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (whole(1 << codec.MAX_BITS + 8), "an int of more than"),
        (b"q" + whole(1 << 8 * 200_000) + whole(3), "an int of more than"),
        (b"q" + whole(3) + whole(1 << codec.MAX_FRACTION_BITS + 8), "an int of more than"),
        (b"q" + b"q" + whole(1) + whole(3) + whole(5), "a Fraction of what is no int"),
        (b"q" + blob(b"d", b"1e9") + whole(1), "a Fraction of what is no int"),
        (blob(b"d", b"7" * (codec.MAX_DIGITS + 21)), "a Decimal of more than"),
        (blob(b"d", b"-0e99999"), "a Decimal with an exponent"),
        (blob(b"d", b"1e999999"), "a Decimal with an exponent"),
        (items(b"[", [encode(range(1 << 18))] * 17), "ranges of more than"),
        (items(b"R", [whole(0), whole(1 << 70), whole(1 << 69)]), "a range of more than"),
    ],
    ids=["int", "numerator", "denominator", "fraction", "mixed", "digits", "exponent", "high", "ranges", "far range"],
)
def test_the_judge_believes_no_encoder(data: bytes, reason: str) -> None:
    with pytest.raises(CodecError, match=reason):
        decode(data)


@pytest.mark.parametrize(
    "value",
    [
        10**9_999,
        Fraction(sum(Fraction(1, n) for n in range(1, 2_000))),
        Decimal("3." + "1" * 990),
        [range(1000)] * 1000,
        list(range(-500, 500)),
        [float(number) for number in range(1000)],
        list(product((-2, -1, 0), repeat=6)),
    ],
    ids=["int", "fraction", "decimal", "ranges", "ints", "floats", "vectors"],
)
def test_large_honest_values_travel(value: Any) -> None:
    assert decode(encode(value)) == value


@pytest.mark.parametrize(
    "rows",
    [
        [[n * P] for n in range(100)],
        [list(row) for row in product((-1, -2), repeat=7)],
        [{n * P} for n in range(100)],
        [complex(float(n * 1_000_003), -float(n)) for n in range(100)],
    ],
    ids=["ints", "minus one and two", "sets", "complex"],
)
def test_rows_that_would_collide_in_a_set_of_tuples_are_refused(rows: list[Any]) -> None:
    with pytest.raises(CodecError, match="different items of the same hash"):
        decode(encode(rows))


@pytest.mark.parametrize("number", [Fraction(1, 3), Decimal("0.5"), 0.5, complex(1, 2)], ids=repr)
def test_looking_for_a_number_in_the_longest_range_takes_well_below_a_second(number: Any) -> None:
    far = (1 << 63) - codec.MAX_RANGE
    [longest] = decode(encode([range(far, (1 << 63) - 1)]))
    started = time.process_time()
    assert number not in longest
    assert time.process_time() - started < 0.25


# --- any value --------------------------------------------------------------------------------------------------------


class Wire:
    """Bytes of random values of every type, with sizes around and far beyond the caps."""

    def __init__(self, seed: int, size: int) -> None:
        self.random = random.Random(seed)
        self.size = size

    def value(self, size: int | None = None, depth: int = 0) -> bytes:
        size = self.size if size is None else size
        tags = "N.TFifcsbadqR" if depth > 3 or size < 20 else "ifcsbadqR[[(({<DDIO"
        return getattr(self, "_" + _NAMES[self.random.choice(tags)])(size, depth)

    def length(self, most: int) -> int:
        """Any order of magnitude up to `most`, and often just that."""
        return most if self.random.random() < 0.3 else int(most ** self.random.random())

    def _constant(self, size: int, depth: int) -> bytes:
        return self.random.choice([b"N", b".", b"T", b"F"])

    def _int(self, size: int, depth: int) -> bytes:
        most = self.random.choice([8, codec.MAX_BITS // 8 - 1, size])
        number = int.from_bytes(self.random.randbytes(min(self.length(most), size)), "big")
        return whole(self.random.choice([number, -number, number * P, -1, -2, P, 0]))

    def _float(self, size: int, depth: int) -> bytes:
        return b"f" + self.random.randbytes(8)

    def _complex(self, size: int, depth: int) -> bytes:
        return b"c" + self.random.randbytes(16)

    def _text(self, size: int, depth: int) -> bytes:
        return blob(b"s", self.random.choice([b"1", b"a", "\ud800".encode("utf-8", "surrogatepass")]) * (size // 3))

    def _bytes(self, size: int, depth: int) -> bytes:
        return blob(self.random.choice([b"b", b"a"]), self.random.randbytes(self.length(size)))

    def _decimal(self, size: int, depth: int) -> bytes:
        digits = self.random.choice(["7", "10", "0."]) * (self.length(codec.MAX_DIGITS) // 2)
        exponent = self.random.choice([1, codec.MAX_EXPONENT, 10**6, 10**17]) // self.random.choice([1, 2, 3])
        sign = self.random.choice(["", "-", "e", "e-"])
        text = self.random.choice(
            [f"{sign[:0]}{digits[:900]}e{exponent}", f"7e-{exponent}", "sNaN7", "Infinity", digits]
        )
        return blob(b"d", text.replace("0.0.", "0").encode())

    def _fraction(self, size: int, depth: int) -> bytes:
        return b"q" + self._int(min(size, codec.MAX_FRACTION_BITS // 8 - 1), depth) + self._int(min(size, 4_000), depth)

    def _range(self, size: int, depth: int) -> bytes:
        return items(b"R", [whole(self.length(codec.MAX_RANGE)), whole(self.length(1 << 62)), whole(self.length(99))])

    def _many(self, size: int, depth: int) -> bytes:
        """Containers: many small items, often the same kind, or few large ones."""
        tag = self.random.choice("[({<IDO")
        count = self.length(max(1, size // 16))
        make = self.random.choice([lambda: self.value(size // count, depth + 1), self._colliding, lambda: b"N"])
        parts = [make() for _ in range(count)]
        if tag == "D":
            return b"D" + struct.pack(">I", count) + b"".join(part + b"N" for part in parts)
        if tag == "O":
            return b"O" + items(b"D", [])
        return items(tag.encode(), parts)

    def _colliding(self) -> bytes:
        number = whole(self.random.randrange(1_000) * P)
        return self.random.choice([number, items(b"(", [b"N"] * 20 + [number]), items(b"[", [number, number])])


_NAMES = dict.fromkeys("N.TF", "constant") | dict.fromkeys("[({<DIO", "many") | dict.fromkeys("ba", "bytes")
_NAMES |= {"i": "int", "f": "float", "c": "complex", "s": "text", "d": "decimal", "q": "fraction", "R": "range"}
ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod)
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.ge)


def slow_steps(value: Any, other: Any) -> list[str]:
    """Operations on two values that took more than one second of CPU."""
    numbers = [type(each) in NUMBERS for each in (value, other)]
    steps: list[tuple[str, Callable[[], Any]]] = [("repr", lambda: repr(value)), ("bool", lambda: bool(value))]
    steps += [(f"{op.__name__}", lambda op=op: op(value, other)) for op in COMPARISONS]
    steps += [("equals itself", lambda: value == decode(encode(value)))]
    steps += [("hash", lambda: hash(value))]
    if all(numbers):
        steps += [(op.__name__, lambda op=op: op(value, other)) for op in ARITHMETIC]
        steps += [(kind.__name__, lambda kind=kind: kind(value)) for kind in (int, float, Fraction, round, abs)]
    elif hasattr(value, "__iter__"):
        steps += [("set", lambda: set(value)), ("in", lambda: other in value)]
        steps.append(("set of rows", lambda: set(map(tuple, value))))
    slow: list[str] = []
    for name, step in steps:
        started = time.process_time()
        with contextlib.suppress(ArithmeticError, ValueError, TypeError, CodecError):  # they fail the test
            step()
        if time.process_time() - started > 1.0:
            slow.append(f"{name} of {type(value).__name__} and {type(other).__name__}")
    return slow


def arrived(wire: Wire, wanted: int) -> list[Any]:
    """So many values that were let in."""
    values: list[Any] = []
    while len(values) < wanted:
        try:
            values.append(decode(wire.value(), low=True))
        except CodecError:
            continue
    return values


@pytest.mark.parametrize("seed", range(3))
def test_no_operation_on_a_value_that_arrived_takes_a_second(seed: int) -> None:
    values = arrived(Wire(seed, 20_000), 60)
    assert {type(value) for value in values} >= {int, str, list}
    assert [slow for value in values for slow in slow_steps(value, values[hash(repr(type(value))) % 60])] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100, 101])
def test_no_operation_on_a_large_value_takes_a_second(seed: int) -> None:
    values = arrived(Wire(seed, 1_000_000), 60)
    numbers = arrived(Wire(seed, 18), 200)
    pairs = [*zip(values, reversed(values), strict=True), *zip(numbers, reversed(numbers), strict=True)]
    assert [slow for value, other in pairs for slow in slow_steps(value, other)] == []


@pytest.mark.slow
def test_the_largest_numbers_of_every_type_meet_quickly() -> None:
    digits, bits, part = codec.MAX_DIGITS, codec.MAX_BITS, codec.MAX_FRACTION_BITS
    random.seed(0)
    largest = [
        random.getrandbits(bits) | 1,
        -(random.getrandbits(bits // 2) | 1),
        Fraction(random.getrandbits(part), random.getrandbits(part) | 1),
        Fraction(random.getrandbits(part - 9), random.getrandbits(part - 9) | 1),
        Decimal("7" * digits + f"e{codec.MAX_EXPONENT - digits}"),
        Decimal("7" * digits + f"e-{codec.MAX_EXPONENT}"),
        Decimal(f"1e-{codec.MAX_EXPONENT}"),
        1.7e308,
        5e-324,
        complex(1e308, 1e-308),
        True,
    ]
    travelled = decode(encode(largest))
    assert travelled == largest
    assert [slow for value in travelled for other in largest for slow in slow_steps(value, other)] == []
