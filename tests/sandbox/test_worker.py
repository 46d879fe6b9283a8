"""The judge's pure parts: rewriting tests and summing up what a child reported."""

from __future__ import annotations

import io
from typing import Any

import pytest

from llm_dec_pomdp.sandbox.worker import explain, read_frame, rewrite_check, verdict, write_frame

LOADED: list[dict[str, Any]] = [{"asserts": 2}, {"loaded": True}]
FAILED = {"passed": False, "source": "s", "problem": "p"}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def check(c):\n    assert c(1) == 1\n    assert c(2) == 2", 2),
        ("def check(c):\n    assert True\n    assert 1, 'always'\n    assert c(1)", 1),
        ("def check(c):\n    for i in range(9):\n        assert c(i) == i", 1),
        ("def check(c):\n    assert False", 1),
    ],
)
def test_asserts_of_a_true_constant_are_not_counted(source: str, count: int) -> None:
    assert rewrite_check(source)[1] == count


@pytest.mark.parametrize(
    ("reports", "out_of_time", "outcome", "passed", "total"),
    [
        ([*LOADED, {"passed": True}, {"passed": True}, {"done": True}], False, "passed", 2, 2),
        ([*LOADED, {"passed": True}, FAILED, {"done": True}], False, "failed", 1, 2),
        ([*LOADED, {"passed": True}], False, "died", 1, 2),
        ([*LOADED, {"passed": True}], True, "timeout", 1, 2),
        ([{"asserts": 2}, {"error": "NameError: x"}], False, "load_error", 0, 2),
        ([{"asserts": 2}], False, "died", 0, 2),
        ([{"asserts": 2}, {"timeout": "loading took too long"}], False, "timeout", 0, 2),
        ([{"asserts": 0}, {"loaded": True}, {"done": True}], False, "failed", 0, 0),
    ],
)
def test_what_was_not_reached_counts_as_failed(
    reports: list[dict[str, Any]], out_of_time: bool, outcome: str, passed: int, total: int
) -> None:
    found = verdict(reports, out_of_time)
    assert (found["outcome"], found["passed"], found["total"]) == (outcome, passed, total)


def test_a_frame_survives_the_wire() -> None:
    stream = io.BytesIO()
    write_frame(stream, {"text": "\ud800 ü"})  # type: ignore[arg-type]
    stream.seek(0)
    assert read_frame(stream) == {"text": "\ud800 ü"}  # type: ignore[arg-type]
    assert read_frame(stream) is None  # type: ignore[arg-type]


def test_an_explanation_survives_a_hostile_message() -> None:
    class Hostile(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise ValueError

    assert explain(Hostile()) == "Hostile"
    assert len(explain(ValueError("x" * 10_000))) <= 200
