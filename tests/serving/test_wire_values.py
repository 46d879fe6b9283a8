"""Values come out of the wire as they went in."""

from __future__ import annotations

import math

from llm_dec_pomdp.envs import Outcome, Transition
from llm_dec_pomdp.serving.codec import from_outcome, from_text, to_outcome, to_text
from llm_dec_pomdp.types import Event, Message, Score

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
    here = to_outcome(from_text(to_text(from_outcome(there))))
    assert repr(here) == repr(there).replace("{'main'}", "['main']")


def test_a_reward_that_could_not_be_scored_stays_nan() -> None:
    there = Outcome({}, Transition(None, math.nan, Score(math.nan, {"a": math.nan})))
    here = to_outcome(from_text(to_text(from_outcome(there)))).transition
    assert here.score is not None
    assert all(map(math.isnan, (here.reward, here.score.total, here.score.components["a"])))
