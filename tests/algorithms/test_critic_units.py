"""Critics predict in units of the returns: a unit may change, and neither values nor what policies learn does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from models import AGENTS, copy_of, separate_team, weights
from updates import SAMPLING

import llm_dec_pomdp
from llm_dec_pomdp.agents import Request, Sampling, Team
from llm_dec_pomdp.agents.table import Table
from llm_dec_pomdp.algorithms.actor_critic import IAC, MAAC, ActorCritic
from llm_dec_pomdp.algorithms.critics import MEMORY, RunningReturnStats, ValueTarget
from llm_dec_pomdp.training.loop import TrainerConfig, train
from llm_dec_pomdp.types import Completion, Episode, Group, Turn, conversation

ONE_WORD = Sampling(max_new_tokens=1)


def test_the_unit_is_the_mean_and_spread_of_all_returns_so_far() -> None:
    seen = [np.array([0.0, 4.0]), np.array([10.0, 12.0]), np.array([-3.0, 1.0])]
    stats = RunningReturnStats()
    for returns in seen:
        stats.add(returns)
    assert (stats.mean, stats.spread) == pytest.approx((np.concatenate(seen).mean(), np.concatenate(seen).std()))


def test_the_unit_forgets_what_was_returned_long_ago() -> None:
    stats = RunningReturnStats()
    stats.add(np.array([-1000.0, 1000.0]))
    for _ in range(30 * MEMORY):
        stats.add(np.array([4.0, 6.0]))
    assert (stats.mean, stats.spread) == pytest.approx((5.0, 1.0), rel=1e-3)


def test_equal_returns_have_a_spread_of_1_so_that_rounding_is_not_learnt() -> None:
    stats = RunningReturnStats()
    stats.add(np.array([0.1 + 0.2, 0.3]))
    assert stats.spread == 1.0


# --- values -----------------------------------------------------------------------------------------------------------


def table_team() -> Team:
    return Team({agent: Table(("a", "b"), rows=8) for agent in AGENTS})


@pytest.mark.parametrize("make_team", [table_team, separate_team])
def test_no_value_changes_when_the_unit_does(make_team: Any) -> None:
    updater: Any = IAC(make_team(), SAMPLING, IAC.Config(learning_rate=0.1)).updaters[0]
    readings = [("agent_0", (5,)), ("agent_0", (6,))]
    updater.observe([1.0, 3.0])
    assert updater.values(readings) == [2.0, 2.0]  # the mean, while nothing was learnt
    updater.step([ValueTarget("agent_0", Completion("", ids), 0.0, target=5.0, value=2.0) for _, ids in readings[:1]])
    before = updater.values(readings[:1])
    assert abs(before[0] - 2.0) > 0.05
    updater.observe([-500.0, 900.0, 7.0])
    assert updater.return_stats.spread > 100.0
    assert updater.values(readings[:1]) == pytest.approx(before, abs=1e-3)


def test_what_could_not_be_scored_is_in_no_unit() -> None:
    updater: Any = IAC(table_team(), SAMPLING).updaters[0]
    updater.observe([float("nan")])
    updater.observe([1.0, float("nan"), 3.0])
    assert (updater.return_stats.updates, updater.return_stats.mean, updater.return_stats.spread) == (1, 2.0, 1.0)


# --- what policies learn ----------------------------------------------------------------------------------------------


def group_of(team: Team, rewards: Sequence[float]) -> Group:
    """Episodes of one turn with these rewards, of which each begins differently."""
    episodes: list[Episode] = []
    for number, reward in enumerate(rewards):
        observations: dict[str, str] = dict.fromkeys(AGENTS, f"say {'red ' * (number % 2)}left")
        requests = [Request(agent, conversation(text), (number,)) for agent, text in observations.items()]
        completions = [completion for [completion] in team.generate(requests, SAMPLING)]
        episodes.append(
            Episode("t", number, (Turn(observations, dict(zip(AGENTS, completions, strict=True)), reward),), True)
        )
    return Group("t", tuple(episodes), roles=dict(zip(AGENTS, ("left", "right"), strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "body"), [(IAC, "shared"), (MAAC, "own")])
def test_policies_learn_the_same_in_any_unit_of_the_reward(kind: type[ActorCritic], body: str) -> None:
    team = separate_team(1, double=True)
    rewards = [(0.0, 1.0, 0.5, 2.0), (1.0, 0.0, 3.0, 0.25), (0.0, 0.5, 1.0, 1.0)]
    learnt: list[list[dict[str, torch.Tensor]]] = []
    for scale, offset in ((1.0, 0.0), (100.0, 0.0), (1.0, 100.0)):
        mine = copy_of(team)
        algorithm = kind(mine, SAMPLING, kind.Config(body=body, learning_rate=0.01))
        for earned in rewards:
            algorithm.update([group_of(team, [scale * reward + offset for reward in earned])])
        learnt.append(weights(mine))
    for other in learnt[1:]:
        for a, b in zip(learnt[0], other, strict=True):
            for name in a:
                torch.testing.assert_close(a[name], b[name], rtol=1e-4, atol=1e-5)


def right(env: Any, team: Team) -> float:
    """How often a team says the word of a context."""
    requests = [Request("agent_0", conversation(item.prompt), tuple(range(64))) for item in env.items]
    drawn = team.generate(requests, ONE_WORD)
    return float(
        np.mean(
            [c.text == i.fields["word"] for completions, i in zip(drawn, env.items, strict=True) for c in completions]
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "pay"), [(IAC, {}), (MAAC, {"slope": 10.0})])
def test_a_bandit_is_learnt_whatever_its_contexts_pay(kind: type[ActorCritic], pay: dict[str, float]) -> None:
    """150 updates of 32 episodes; a uniform team is right one time in eight."""
    env = llm_dec_pomdp.make("bandit-v0", **pay)
    team = llm_dec_pomdp.load_team(env, "builtin:words")
    train(kind(team, ONE_WORD), env, ONE_WORD, TrainerConfig(steps=150, prompts_per_step=32, group_size=1), seed=0)
    assert right(env, team) > 0.75
