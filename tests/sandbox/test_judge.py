"""The judge's pure parts: summing up what became of each case, and its wire."""

from __future__ import annotations

import io
import json
from typing import Any, cast

import pytest

from llm_dec_pomdp.sandbox.judge import Record, explain, read_frame, slowness, verdict, write_frame
from llm_dec_pomdp.sandbox.solution import OverError, Solution, UnsupportedError


class Idle:
    """A program that is never called."""

    def begin_case(self) -> None:
        pass


def record(*results: bool, over: str = "", **flags: Any) -> Record:
    made = Record(cast(Solution, Idle()), 1.0)
    made.loaded = made.done = True
    for holds in results:
        made.case(holds, "s")
    made.over = OverError(over, "why") if over else None
    for name, value in flags.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("made", "outcome", "cases"),
    [
        (record(True, True), "passed", [True, True]),
        (record(True, False), "failed", [True, False]),
        (record(True, over="died"), "died", [True, False]),
        (record(True, over="timeout"), "timeout", [True, False]),
        (record(True, True, over="died"), "died", [True, True, False]),
        (record(True, done=False), "died", [True, False]),
        (record(True, timed_out=True, done=False), "timeout", [True, False]),
        (record(loaded=False, done=False, error="NameError: x"), "load_error", [False, False]),
        (record(loaded=False, done=False, over="died"), "died", [False, False]),
        (record(loaded=False, done=False, timed_out=True), "timeout", [False, False]),
        (record(True, False, unsupported=True), "unsupported", [True, False]),
        (record(True, True, unsupported=True), "passed", [True, True]),
    ],
)
def test_what_was_not_reached_counts_as_failed(made: Record, outcome: str, cases: list[bool]) -> None:
    found = verdict(made, 2)
    assert (found["outcome"], found["cases"], found["passed"]) == (outcome, cases, sum(cases))
    assert found["total"] == len(cases)


def test_nothing_to_count_is_not_passed() -> None:
    assert verdict(record(), 0)["outcome"] == "failed"


def test_no_case_holds_once_the_program_is_over() -> None:
    made = record(over="died")
    for late in (lambda: made.start(), lambda: made.case(True, "s"), lambda: made.broke(ValueError(), "s"), made.call):
        with pytest.raises(OverError):
            late()
    assert made.cases == []


def test_a_refused_result_makes_the_outcome_unsupported() -> None:
    made = record(True)
    made.failed(UnsupportedError("Thing is no plain value"), "c(1) == 1")
    assert verdict(made, 2)["outcome"] == "unsupported"
    assert made.notes == ["c(1) == 1: UnsupportedError: Thing is no plain value"]


def test_a_frame_survives_the_wire() -> None:
    stream = io.BytesIO()
    write_frame(stream, {"text": "\ud800 ü"})
    stream.seek(0)
    assert read_frame(stream) == {"text": "\ud800 ü"}
    assert read_frame(stream) is None


def test_an_explanation_survives_a_hostile_message() -> None:
    class Hostile(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise ValueError

    assert explain(Hostile()) == "Hostile"
    assert len(explain(ValueError("x" * 10_000))) <= 200
    told = ValueError("x")
    told.told = "Mine: x \ud800"  # type: ignore[attr-defined]
    json.dumps(explain(told)).encode()
    assert explain(told).startswith("Mine: x")


def test_slowness_is_a_factor_between_one_and_four() -> None:
    assert 1.0 <= slowness() <= 4.0
