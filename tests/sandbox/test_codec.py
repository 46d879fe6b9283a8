"""Values that travel, values that do not, and bytes that are no value."""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_dec_pomdp.sandbox.codec import MAX_DEPTH, MAX_SIZE, CodecError, decode, encode

ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    st.text(),
    st.binary(),
    st.fractions(),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(ATOMS, inner),
        st.frozensets(ATOMS),
        st.sets(ATOMS),
    ),
    max_leaves=30,
)


def same(a: Any, b: Any) -> bool:
    """Equal, of the same types, and in the same order."""
    if type(a) is not type(b) or a != b:
        return False
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (list, tuple)):
        return all(same(x, y) for x, y in zip(a, b, strict=True))
    return True


@given(VALUES)
def test_plain_values_travel(value: Any) -> None:
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize(
    "value",
    [
        ...,
        float("inf"),
        -0.0,
        1 << 4000,
        -1,
        -(1 << 63),
        bytearray(b"x"),
        Decimal("1.10"),
        Decimal("-Infinity"),
        Fraction(1, 3),
        range(1, 10, 3),
        "\ud800",
        {(1, "a"): [{2: {3}}]},
        [[]] * 10_000,
        [0] * 10_000,
        list(range(10_000)),
        [(0, 1.0)] * 10_000,
    ],
    ids=lambda value: repr(value)[:20],
)
def test_odd_values_travel(value: Any) -> None:
    assert same(decode(encode(value)), value)
    assert repr(decode(encode(value))) == repr(value)


def test_not_a_number_travels() -> None:
    assert decode(encode(float("nan"))) != decode(encode(float("nan")))


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (defaultdict(int, a=1), {"a": 1}),
        (np.float64(1.5), 1.5),
        (np.int32(3), 3),
        (np.bool_(True), True),
    ],
    ids=repr,
)
def test_some_values_travel_as_what_they_equal(value: Any, plain: Any) -> None:
    assert same(decode(encode(value)), plain)


Pair = namedtuple("Pair", "a b")


class Thing:
    def __init__(self) -> None:
        self.x = 1


@pytest.mark.parametrize(
    ("value", "low"),
    [
        (type("int", (int,), {"__eq__": lambda a, b: True, "__hash__": None})(3), 3),
        (type("dict", (dict,), {"items": lambda a: [(9, 9)]})(a=1), {"a": 1}),
        (Pair(1, 2), (1, 2)),
        (Thing(), SimpleNamespace(x=1)),
    ],
    ids=["int", "dict", "namedtuple", "object"],
)
def test_subclasses_and_objects_travel_with_low_trust_only(value: Any, low: Any) -> None:
    with pytest.raises(CodecError, match="is no plain value"):
        encode(value)
    assert same(decode(encode(value, low=True), low=True), low)


def test_iterators_travel_with_low_trust_only() -> None:
    with pytest.raises(CodecError, match="generator is no plain value"):
        encode(x for x in (1, 2))
    data = encode((x for x in (1, 2)), low=True)
    with pytest.raises(CodecError, match="unknown tag"):
        decode(data)
    assert list(decode(data, low=True)) == [1, 2]


@pytest.mark.parametrize(
    "value",
    [deque([1]), object(), len, int, np.zeros(3), memoryview(b"x"), slice(1)],
    ids="deque object builtin type array memoryview slice".split(),
)
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(CodecError, match="is no plain value"):
        encode([value])


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def test_depth_is_capped() -> None:
    assert same(decode(encode(nested(MAX_DEPTH))), nested(MAX_DEPTH))
    for value in (nested(MAX_DEPTH + 1), nested(100_000)):
        with pytest.raises(CodecError, match="nested deeper"):
            encode(value)
    with pytest.raises(CodecError, match="nested deeper"):
        decode((b"[" + struct.pack(">I", 1)) * 10_000 + b"N")


@pytest.mark.parametrize(
    "value",
    ["x" * (MAX_SIZE + 1), b"x" * MAX_SIZE * 2, [1.0] * (MAX_SIZE // 9 + 1), "ü" * MAX_SIZE],
    ids=["text", "bytes", "list", "characters"],
)
def test_size_is_capped(value: Any) -> None:
    with pytest.raises(CodecError, match="larger than"):
        encode(value)


@pytest.mark.parametrize("kind", ["[", "{", "(", "D"])
def test_many_items_of_one_hash_are_refused(kind: str) -> None:
    collide = [i * ((1 << 61) - 1) for i in range(6_000)]
    value = b"N" if kind == "D" else b""
    data = kind.encode() + struct.pack(">I", 6_000) + b"".join(encode(number) + value for number in collide)
    with pytest.raises(CodecError, match="more than 64 different items of the same hash"):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"?",
        b"NN",
        b"f\0",
        b"i\xff\xff\xff\xff1",
        b"[" + struct.pack(">I", 1 << 31),
        b"D" + struct.pack(">I", 1) + b"N",
        b"D" + struct.pack(">I", 1) + encode([]) + b"N",
        b"{" + struct.pack(">I", 1) + encode([]),
        b"s" + struct.pack(">I", 1) + b"\xff",
        b"d" + struct.pack(">I", 1) + b"x",
        b"q" + encode(1) + encode(0),
        b"q" + encode("1") + encode(2),
        b"R" + struct.pack(">I", 1) + encode("1"),
        b"O" + encode({}),
        b"I" + struct.pack(">I", 0),
        b"N" * (MAX_SIZE + 65),
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode(data)


@pytest.mark.parametrize("attributes", [[], {"__class__": 1}, {1: 2}])
def test_attributes_have_proper_names(attributes: Any) -> None:
    with pytest.raises(CodecError, match="attributes"):
        decode(b"O" + encode(attributes), low=True)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_plain_value_or_refused(data: bytes) -> None:
    try:
        value = decode(data, low=True)
    except CodecError:
        return
    assert type(value).__module__ in ("builtins", "types", "decimal", "fractions")
