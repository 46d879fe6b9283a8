"""`Stopping`: what stopped episodes pay, who may stop, and that nobody but its author sees a mark."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from every import CHECKED, make_least
from hypothesis import given
from hypothesis import strategies as st
from tasks import ITEMS, Graded
from typer.testing import CliRunner

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.agents.scripted import Scripted
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.checks import CHECKS, check_env
from llm_dec_pomdp.envs.wrappers import Discussion, Stopping, with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Event, Score, TaskItem

PROTOCOLS = ("parallel", "sequential", "discussion", "centralized")


def graded(who: str = "any", cost: float = 0.1, max_turns: int = 4) -> Stopping:
    return Stopping(Graded(ITEMS, max_turns=max_turns), cost, who)


def play(env: TextDecPOMDP, *turns: tuple[str, str]) -> list[float]:
    """Rewards of the turns of the task, when the two agents say these, drafts included."""
    env.reset(seed=0)
    phases = env.max_turns // env.task.max_turns
    rewards: list[float] = []
    for number, texts in enumerate(turns, start=1):
        actions = dict(zip(("agent_0", "agent_1"), texts, strict=True))
        if env.facts.parts_per_action > 1:
            actions = {"agent_0": env.facts.join(texts)}
        rewards.append(0.0)
        while env.agents and env.turn < number * phases:
            rewards[-1] += env.step(actions)[1]["agent_0"]
    return rewards


# --- what it pays -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("turns", "rewards", "delivered"),
    [
        ([("1", "a"), ("2.5 <stop>", "b")], [1 - 0.1, 1.5 - 0.1], 2.5),  # the text of the stop is the last
        ([("3", "a"), ("1", "b <stop> c")], [3 - 0.1, -2 - 0.1], 1),
        ([("3", "a"), ("<stop>", "b")], [3 - 0.1, -0.1], 3),  # what was delivered before stands
        ([("3", "a"), ("1", " <stop>")], [3 - 0.1, -0.1], 3),  # also against the text of another
        ([("<stop>", "a")], [-0.1], None),
        ([("1", "a"), ("2", "a"), ("1", "a"), ("2", "a")], [0.9, 0.9, -1.1, 0.9], 2),  # out of turns
        ([("1", "a"), ("4", "a")], [0.9, 2.9], 4),  # solved
    ],
)
def test_an_episode_pays_what_was_delivered_last_less_its_turns(
    protocol: str, turns: list[tuple[str, str]], rewards: list[float], delivered: float | None
) -> None:
    env = with_protocol(graded(), protocol)
    assert play(env, *turns) == pytest.approx(rewards)
    assert sum(rewards) == pytest.approx((delivered or 0.0) - 0.1 * len(turns))
    assert (env.last_score and env.last_score.total) == delivered
    assert not env.agents


TEXTS = st.sampled_from(["0", "1", "2.5", "<stop>", "3<stop>", "x", "nan"])


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=4, max_size=4), st.sampled_from(["any", "all", "first", "second"]))
def test_rewards_add_up_to_the_last_known_score_less_the_cost_of_turns(turns: list[tuple[str, str]], who: str) -> None:
    env = graded(who)
    env.reset(seed=0)
    known, total = 0.0, 0.0
    while env.agents:
        reward = env.step(dict(zip(env.agents, turns[env.turn], strict=True)))[1]["agent_0"]
        score = env.latest.transition.score
        if score is None or score.scorable:
            known, total = (score.total if score else known), total + reward
            assert total == pytest.approx(known - 0.1 * env.turn)
        else:  # pays NaN at its turn and leaves the others alone
            assert math.isnan(reward)
            total -= 0.1


def test_agents_that_are_paid_individually_are_each_charged() -> None:
    env = llm_dec_pomdp.make("keys-v0", stopping={"cost": 0.25})
    env.reset(seed=0)
    env.step({"agent_0": "r0"})
    _, rewards, terminated, _, _ = env.step({"agent_0": "", "agent_1": "k1 <stop>"})
    assert rewards == {"agent_0": -0.25, "agent_1": -0.25}
    assert all(terminated.values())


# --- who may stop -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "ends"),
    [
        ("any", [("1 <stop>", "a"), ("1", "<stop>")]),
        ("all", [("1 <stop>", "a <stop>"), ("<stop>", "<stop>")]),
        ("first", [("1 <stop>", "a"), ("1 <stop>", "<stop>")]),
        ("agent_1", [("1", "a <stop>")]),
    ],
)
def test_who_stops_is_who_may(who: str, ends: list[tuple[str, str]]) -> None:
    for texts in [("1", "a"), ("1 <stop>", "a"), ("1", "<stop>"), ("1", "a <stop>"), ("1 <stop>", "a <stop>"), *ends]:
        env = graded(who)
        play(env, texts)
        stopping = {agent for agent, text in zip(("agent_0", "agent_1"), texts, strict=True) if "<stop>" in text}
        stops = stopping & env.may_stop
        over = len(stops) == 2 if who == "all" else bool(stops)
        assert (not env.agents) == over
        assert over or texts not in ends
        expected = [Event("stop", agent, {"why": "it said <stop>"}) for agent in sorted(stops) if over]
        assert list(env.latest.transition.events) == expected


def test_all_are_those_who_are_asked() -> None:
    class OneRevises(Graded):
        def respond(self, item: TaskItem, actions: Mapping[str, str], score: Score) -> Mapping[str, str]:
            return {"agent_0": "again"}

    env = Stopping(OneRevises(ITEMS, max_turns=4), 0.1, "all")
    assert play(env, ("1", "a <stop>"), ("2 <stop>", "not asked")) == pytest.approx([0.9, 0.9])
    assert not env.agents


# --- what is seen -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("text", ["2<stop>tail", "2<stop><stop>", "2<stop>tail<stop>", "<st<stop>op>"])
@pytest.mark.parametrize("who", ["any", "all", "second"])
def test_neither_the_scorer_nor_the_others_see_a_mark_or_what_follows_it(protocol: str, text: str, who: str) -> None:
    env = with_protocol(graded(who), protocol)
    env.reset(seed=0)
    while env.agents:
        action = env.facts.join([text, "ok"]) if env.facts.parts_per_action > 1 else text
        for seen in env.step({agent: action if agent == "agent_0" else "ok" for agent in env.agents})[0].values():
            assert "tail" not in seen
            assert "<stop>" not in seen.replace("with <stop> to make", "").replace("say <stop> alone", "")
    assert env.last_score is not None
    assert list(env.last_score.notes.values()) == [text.partition("<stop>")[0], "ok"]


def test_those_who_may_stop_are_told_how_where_there_are_words_for_it() -> None:
    observations, _ = graded("second").reset(seed=0)
    assert "<stop>" not in observations["agent_0"]
    assert observations["agent_1"].endswith(
        "A turn costs 0.1. End your text with <stop> to make it the last, or say <stop> "
        "alone to keep what was delivered before."
    )
    env = llm_dec_pomdp.make("keys-v0", stopping={"cost": 0.1})
    observations, _ = env.reset(options={"index": 0})
    assert observations == {"agent_0": "Q e12 r2 r1"}
    assert "<stop>" in env.facts.vocabulary


def test_menus_and_well_formed_texts_have_the_mark_for_those_who_may_stop() -> None:
    env = llm_dec_pomdp.make("dectiger-v0", stopping={"cost": 1, "who": "explorer 2"})
    assert "<stop>" not in env.choices("agent_0")
    assert list(env.choices("agent_1")) == [*env.env.choices("agent_1"), "<stop>"]
    assert list(env.choices("agent_1", ())) == list(env.choices("agent_1"))
    assert graded().choices("agent_0") == ()
    assert "optimal" not in env.facts.scripts  # of the task without a cost


def test_reference_texts_are_known_by_what_is_told() -> None:
    env = llm_dec_pomdp.make("telegrams-v0", max_turns=2, stopping={"cost": 0.1})
    [group] = Trajectories().play(env, Scripted(env.script("gold")), [env.items[0].id], [0], Sampling())
    assert group.episodes[0].total == pytest.approx(env.facts.max_return - 0.1)


# --- laws, refusals, ways to it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "who"), [("parallel", "second"), ("discussion", "all")])
def test_every_law_is_kept(protocol: str, who: str) -> None:
    assert check_env(with_protocol(graded(who), protocol)) == list(CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", CHECKED)
def test_every_environment_keeps_the_laws_when_it_may_be_stopped(env_id: str) -> None:
    turns = {} if make_least(env_id).max_turns > 1 else {"max_turns": 3}
    env = make_least(env_id, stopping={"cost": 0.1}, **turns)
    assert check_env(env, rows=1) == list(CHECKS)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Stopping(Discussion(Graded(ITEMS, max_turns=2)), 0.1), "Stopping"),
        (lambda: Stopping(graded(), 0.1), "Stopping"),
        (lambda: graded(max_turns=1), "max_turns 1"),
        (lambda: Stopping(Graded(ITEMS, max_turns=2, turn_reward="shifted"), 0.1), "turn_reward"),
        (lambda: Stopping(Graded(ITEMS, max_turns=2, turn_reward="each"), 0.1), "turn_reward"),
        (lambda: graded(cost=-0.1), "cost is -0.1"),
        (lambda: graded(cost=math.nan), "cost is nan"),
        (lambda: graded("frist"), "who is 'frist'"),
        (lambda: llm_dec_pomdp.make("tldr-v0", max_turns=2, stopping=0.1), "stopping is 0.1"),
        (lambda: llm_dec_pomdp.make("tldr-v0", max_turns=2, stopping={"who": "any"}), "stopping"),
    ],
)
def test_what_cannot_be_stopped_is_refused(make: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        make()


def test_the_command_line_takes_it_as_an_option() -> None:
    call = ["check", "dectiger-v0", "--env", "stopping.cost=0.5", "--env", "stopping.who=all", "--json"]
    result = CliRunner().invoke(app, call)
    assert json.loads(result.stdout)["passed"] == list(CHECKS)
    result = CliRunner().invoke(app, [*call, "--env", "stopping.price=1"])
    assert result.exit_code == 2
    assert "give a mapping such as" in " ".join(result.output.split())
