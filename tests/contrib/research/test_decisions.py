"""The five decisions of main: teams with a mistake in exactly one of them, on embedded questions."""

from __future__ import annotations

import math
from typing import Any

import pytest
from teams import Erring

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.contrib.research.decisions import FIGURES, TeamLimits, decisions
from llm_dec_pomdp.contrib.research.orchestration import MEASURES
from llm_dec_pomdp.contrib.research.questions import steps_of
from llm_dec_pomdp.episodes import Header, from_episode
from llm_dec_pomdp.evaluation.sections import measure
from llm_dec_pomdp.rollout import Trajectories, replay
from llm_dec_pomdp.types import Group

GENERALISTS = {"specialists": ["reader+analyst+calculator"]}


def played(team: str, every: int = 3, **options: Any) -> tuple[Any, list[Group]]:
    """Run a scripted team on every n-th test question; return the environment and the groups."""
    env = llm_dec_pomdp.make("research-v0", split="test", **options)
    ids = [item.id for item in env.items[::every]]
    policy = Scripted(getattr(Erring(env), team))
    return env, Trajectories("own").play(env, policy, ids, list(range(len(ids))), Sampling())


def figures(team: str, every: int = 3, **options: Any) -> list[dict[str, float]]:
    env, groups = played(team, every, **options)
    items = {item.id: item for item in env.items}
    bounds = TeamLimits(env.kinds, env.max_invocations, env.max_turns)
    return [decisions(items[e.item_id], bounds, e) for group in groups for e in group.episodes]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("team", "wrong"),
    [
        ("asks_twice", "spawned when it helped"),
        ("asks_another", "asked the right one"),
        ("asks_vaguely", "said what was needed"),
        ("misreads", "kept what it was told"),
        ("goes_on", "stopped in time"),
    ],
)
def test_a_team_that_errs_in_one_decision_is_wrong_in_its_figure_alone(team: str, wrong: str) -> None:
    for shares in figures(team):
        assert {name for name, value in shares.items() if value != 1.0} == {wrong}, shares
        assert shares[wrong] < 1.0


def test_the_optimal_team_is_right_in_all() -> None:
    assert figures("optimal") == [dict.fromkeys(FIGURES, 1.0)] * 20


@pytest.mark.parametrize(("team", "value"), [("asks_vaguely", 1.0), ("goes_on", 1.0), ("misreads", 0.1)])
def test_what_errs_before_the_answer_costs_nothing_here_and_a_wrong_answer_all(team: str, value: float) -> None:
    _, groups = played(team)
    assert [group.episodes[0].total for group in groups] == [value] * 20


def test_who_never_asks_neither_spawns_nor_stops_as_it_should() -> None:
    [shares] = figures("never_ask", every=60)
    assert (shares["spawned when it helped"], shares["stopped in time"]) == (0.0, 0.0)
    assert all(math.isnan(shares[name]) for name in FIGURES[1:4])


def test_who_asks_everything_stops_late() -> None:
    """The team asks for two steps one by one, then uses all remaining invocations at once, and so ends too late."""
    [shares] = figures("ask_everything", every=60)
    assert (shares["spawned when it helped"], shares["stopped in time"]) == (1.0, 0.5)


def test_a_report_has_the_means() -> None:
    env, groups = played("goes_on")
    measured = measure(env, groups)["decisions"]
    assert {name: value.mean for name, value in measured.items()} == dict.fromkeys(FIGURES, 1.0) | {FIGURES[4]: 0.5}
    env, groups = played("optimal", every=60, **GENERALISTS)
    assert set(measure(env, groups)["decisions"]) == set(FIGURES) - {"asked the right one"}  # there is one specialist


def test_they_follow_from_a_trace_that_plays_again() -> None:
    env, [group] = played("asks_vaguely", every=60)
    assert replay(from_episode(group.episodes[0], Header.of(env), env.items[0])) == ""


# --- the other section of traces --------------------------------------------------------------------------------------


def test_orchestration_is_measured_where_agents_hear_each_other() -> None:
    env, groups = played("asks_twice", every=30)
    means = measure(env, groups)["orchestration"]
    assert means["reward"].mean == 1.0
    assert means["messages"].mean > 7  # at least three texts of main, and two of each of three sub-agents
    assert means["redundancy"].mean > 0.2  # two of them have the same results
    plain = llm_dec_pomdp.make("tldr-v0")
    [group] = Trajectories("own").play(plain, Scripted(lambda a, h: "x"), [plain.items[0].id], [0], Sampling())
    assert "orchestration" not in measure(plain, [group])


# --- the three measures of orchestration ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("team", "measures"),
    [
        ("optimal", {"critical_path": 1.0, "split": 1.0, "aggregation": 1.0}),
        ("asks_twice", {"critical_path": 1.0, "split": 0.8, "aggregation": 1.0}),
        ("misreads", {"critical_path": 1.0, "split": 1.0, "aggregation": 0.5}),
        ("never_ask", {"critical_path": 0.0, "split": 0.0, "aggregation": 0.0}),
    ],
)
def test_a_mistake_lowers_the_measure_that_names_it_and_its_reward(team: str, measures: dict[str, float]) -> None:
    """The question has two chains of two steps, whose ends are compared."""
    weights = {"critical_path": 0.5, "split": 1.0, "aggregation": 2.0}
    env = llm_dec_pomdp.make("research-v0", split="train", needs=[4], orchestration=weights)
    item = next(item for item in env.items if len(steps_of(item)) == 5)
    [group] = Trajectories().play(env, Scripted(getattr(Erring(env), team)), [item.id], [0], Sampling())
    final = group.episodes[0].final
    assert final is not None
    assert {name: final.diagnostics[name] for name in measures} == pytest.approx(measures)
    paid = {name: final.components[name] for name in measures}
    assert paid == pytest.approx({name: weight * measures[name] for name, weight in weights.items()})
    assert env.measure([group])["measures of orchestration"] == pytest.approx(measures)


def test_a_team_that_asks_for_all_open_steps_at_once_has_the_highest_measures() -> None:
    env = llm_dec_pomdp.make("research-v0", split="train", needs=[4], candidates=True, orchestration={"split": 0.0})
    at_once = Scripted(env.script("optimal"))
    ids = [item.id for item in env.items[:2]]
    groups = Trajectories().play(env, at_once, ids, range(2), Sampling())
    assert env.measure(groups)["measures of orchestration"] == dict.fromkeys(MEASURES, 1.0)
    assert {group.episodes[0].total for group in groups} == {1.0}
