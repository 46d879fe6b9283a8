"""Event files, read by a reader of the format's description; other trackers by name."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest

from llm_dec_pomdp.config import ConfigError, flat
from llm_dec_pomdp.training.tracking import Trackers, check_trackers, crc32c


def records(data: bytes) -> list[bytes]:
    """The records of a TFRecord file, checksums verified."""
    found: list[bytes] = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        body = data[12 : 12 + length]
        for part, written in ((data[:8], data[8:12]), (body, data[12 + length : 16 + length])):
            rotated = (struct.unpack("<I", written)[0] - 0xA282EAD8) & 0xFFFFFFFF
            assert ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF == crc32c(part)
        found.append(body)
        data = data[16 + length :]
    return found


def fields(message: bytes) -> list[tuple[int, object]]:
    """Number and value of every field of a protocol buffer."""
    found: list[tuple[int, object]] = []
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        tag = varint()
        if tag & 7 == 0:
            found.append((tag >> 3, varint()))
            continue
        size = varint() if tag & 7 == 2 else {1: 8, 5: 4}[tag & 7]
        raw = message[place : place + size]
        place += size
        found.append((tag >> 3, raw if tag & 7 == 2 else struct.unpack({8: "<d", 4: "<f"}[size], raw)[0]))
    return found


def test_crc32c_agrees_with_its_published_check_value() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_an_event_file_holds_every_finite_number_by_step(tmp_path: Path) -> None:
    with Trackers.open(["tensorboard"], tmp_path, "run", {}) as trackers:
        trackers.log(0, {"test/return": 0.5, "lost": math.nan})
        trackers.log(300, {"test/return": 0.75, "a name of some length " * 9: -1.0})
    (path,) = tmp_path.iterdir()
    version, *events = (dict(fields(record)) for record in records(path.read_bytes()))
    assert version[3] == b"brain.Event:2"
    assert [event[2] for event in events] == [0, 300]
    values = [[dict(fields(v)) for _, v in fields(event[5])] for event in events]  # type: ignore[arg-type]
    assert values == [
        [{1: b"test/return", 2: 0.5}],
        [{1: b"test/return", 2: 0.75}, {1: b"a name of some length " * 9, 2: -1.0}],
    ]


def test_a_second_file_continues_beside_the_first(tmp_path: Path) -> None:
    for step in (1, 2):
        with Trackers.open(["tensorboard"], tmp_path, "run", {}) as trackers:
            trackers.log(step, {"x": 1.0})
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(("name", "distribution"), [("wandb", "wandb"), ("mlflow", "mlflow-skinny")])
def test_a_tracker_that_is_not_installed_says_what_to_install(
    name: str, distribution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(ConfigError, match=rf"pip install {distribution},"):
        check_trackers([name])


def test_an_unknown_tracker_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'wandbb'; did you mean wandb\?"):
        check_trackers(["wandbb"])


def test_nested_values_are_flattened() -> None:
    assert flat({"a": {"b": {"c": 1}}, "d": [2]}) == {"a.b.c": 1, "d": [2]}
