"""When teams stop: shares by hand, and the suite that shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.benchmarks.cell import build_cell
from llm_dec_pomdp.benchmarks.suite import load_suite
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.evaluation.sections import measure
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Episode, Event, Group, Score, Turn


def looked(looks: float, best: float) -> Episode:
    score = Score(0.0, {}, {"looks": looks, "optimal_looks": best})
    return Episode("scouts", 0, (Turn({}, {}, 0.0, score), Turn({}, {}, 0.0)), True)


def ended(rewards: Sequence[float], *, by_stop: bool) -> Episode:
    events = (Event("stop", "agent_0"),) if by_stop else ()
    turns = [Turn({}, {}, reward) for reward in rewards[:-1]]
    return Episode("t", 0, (*turns, Turn({}, {}, rewards[-1], events=events)), by_stop)


def test_looks_are_held_against_those_of_the_best_rule() -> None:
    group = Group("scouts", (looked(1, 2), looked(2, 2), looked(5, 2), looked(0, 0)))
    assert llm_dec_pomdp.make("scouts-v0").measure([group])["stopping"] == {
        "looks": 2.0,
        "best looks": 1.5,
        "too early %": 25.0,
        "too late %": 25.0,
    }


def test_turns_are_held_against_an_earlier_end() -> None:
    """Of 2, 2 - 0.5, 2 - 0.5 + 1 the last is the best; of 2, 1.5 the first, by 0.5; a NaN is left out."""
    env = llm_dec_pomdp.make("telegrams-v0", max_turns=3, stopping={"cost": 0.1})
    episodes = (
        ended([2.0, -0.5, 1.0], by_stop=False),
        ended([2.0, -0.5], by_stop=True),
        ended([-0.1], by_stop=True),
        ended([math.nan, 1.0], by_stop=True),
    )
    for played in (env, with_protocol(env, "sequential")):
        assert played.measure([Group("t", episodes)])["stopping"] == pytest.approx(
            {"turns": 2.0, "stopped %": 200 / 3, "too late %": 100 / 3, "lost by going on": 0.5 / 3}
        )


def test_it_shows_nothing_where_nobody_can_stop() -> None:
    assert "stopping" not in measure(llm_dec_pomdp.make("telegrams-v0"), [Group("t", (ended([1.0], by_stop=False),))])


@pytest.mark.slow
def test_the_scripted_teams_of_the_suite_make_their_looks() -> None:
    looks = {}
    for cell in load_suite("stopping").cells():
        if cell.seed == 0 and cell.model.members:
            setup = build_cell(cell)
            groups = Trajectories("own").play(setup.eval_env, setup.team, ["scouts"], [0], setup.sampling, 50)
            measured = setup.eval_env.measure(groups)["stopping"]
            looks[cell.method.title] = (measured["looks"] == measured["best looks"], measured["looks"])
    assert looks["optimal"][0]
    assert [looks[name][1] for name in ("never stop", "stop at once", "fixed looks")] == [6.0, 0.0, 2.0]
