"""What passes over the wire comes out as it went in."""

from __future__ import annotations

import math

import pytest

from llm_dec_pomdp.envs import Outcome, Transition
from llm_dec_pomdp.envs.tasks import item_as_json, item_of
from llm_dec_pomdp.serving.codec import from_bytes, from_outcome, to_bytes, to_outcome
from llm_dec_pomdp.types import Event, Message, Score, TaskItem

HALF = "half of a character: \ud83d, NUL \x00, \u202e"


def test_an_outcome_is_the_same_to_the_last_bit() -> None:
    score = Score(0.1 + 0.2, {"a": 1e-300, "b": -0.0}, {"odd": math.inf}, {"why": HALF})
    there = Outcome(
        {"main": HALF, "sub": Message("tool", "found", "search"), "other": ""},
        Transition(
            None,
            1 / 3,
            score,
            terminated=True,
            rewards={"main": 0.1, "sub": -5.0},
            events=(Event("call", "main", {"name": "search"}),),
            reset_history=frozenset({"sub"}),
        ),
        asked={"main"},
        agents=["main", "sub"],
    )
    here = to_outcome(from_bytes(to_bytes(from_outcome(there))))
    assert repr(here) == repr(there).replace("{'main'}", "['main']")


def test_what_could_not_be_scored_stays_so() -> None:
    there = Outcome({}, Transition(None, math.nan, Score(math.nan, {"a": math.nan})))
    here = to_outcome(from_bytes(to_bytes(from_outcome(there)))).transition
    assert here.score is not None
    assert all(map(math.isnan, (here.reward, here.score.total, here.score.components["a"])))


def test_a_task_keeps_its_references() -> None:
    item = TaskItem("a/b", HALF, "test", ("x", "y"), {"test": "assert True"})
    assert item_of(from_bytes(to_bytes(item_as_json(item)))) == item


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"{\xff}", "decode"),
        (b"[1]", "a list, not an object"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"seed": ' + b"1" * 5000 + b"}", "digits"),
        (b"{", "Expecting"),
    ],
)
def test_garbage_is_a_value_error_with_a_reason(sent: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        from_bytes(sent)
