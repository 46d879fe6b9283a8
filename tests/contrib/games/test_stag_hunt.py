"""staghunt-v0: payoffs, messages, and all pure equilibria of two hunters."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from llm_dec_pomdp import make
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.contrib.games.self_play import value
from llm_dec_pomdp.contrib.games.staghunt import HARE, STAG, StagHunt
from llm_dec_pomdp.rollout import Trajectories

WORDS = (STAG, HARE)


def pure(env: Any, rules: Mapping[str, Any]) -> Any:
    """Return the strategy of hunters that follow (messages by tracks, choices by tracks and message of the other)."""

    def strategy(agent: str, history: Any) -> Mapping[str, float]:
        messages, choices = rules[agent]
        old = "You see old tracks" in history[0].text
        if len(history) == 1:
            return {messages[old]: 1.0}
        return {choices[2 * old + (f"says: {HARE}" in history[2].text)]: 1.0}

    return strategy


def payoffs(env: StagHunt) -> tuple[Any, Any]:
    """Return the 64 pure strategies of a hunter, and the rewards, of shape (agents, strategies, strategies)."""
    reward = np.zeros((2, 4, 2, 2))  # by task and choices
    for (row, item), choices in itertools.product(enumerate(env.items), itertools.product((0, 1), repeat=2)):
        spoken = env.transition(env.initial_state(item, 0), dict.fromkeys(env.possible_agents, ""), 0)
        chosen = dict(zip(env.possible_agents, (WORDS[choice] for choice in choices), strict=True))
        after = env.transition(spoken.state, chosen, 0)
        earned = after.rewards or dict.fromkeys(env.possible_agents, after.reward)
        reward[:, row, *choices] = [earned[agent] for agent in env.possible_agents]
    rules = list(itertools.product(itertools.product((0, 1), repeat=2), itertools.product((0, 1), repeat=4)))
    says, does = np.array([rule[0] for rule in rules]), np.array([rule[1] for rule in rules])
    total = np.zeros((2, len(rules), len(rules)))
    for row, item in enumerate(env.items):
        old = [int(item.fields["warned"] == number) for number in "12"]
        first = does[:, 2 * old[0] : 2 * old[0] + 2][:, says[:, old[1]]]  # by own rule and the rule of the other
        second = does[:, 2 * old[1] : 2 * old[1] + 2][:, says[:, old[0]]].T
        total += reward[:, row, first, second] / len(env.items)
    return rules, total


def _in_words(rule: Sequence[Sequence[int]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(WORDS[word] for word in part) for part in rule)


@pytest.mark.parametrize(
    ("rewards", "hare", "expected"),
    [
        ("joint", 0.5, [0.5, 0.625, 0.6875, 0.75]),
        ("individual", 0.5, [0.5, 0.625, 0.6875, 0.75]),
        ("joint", 0.8, [0.7, 0.8, 0.9]),
        ("individual", 0.8, [0.8, 0.9]),
    ],
)
def test_the_returns_of_all_pure_equilibria_are_those_of_the_page(
    rewards: str, hare: float, expected: list[float]
) -> None:
    env: Any = make("staghunt-v0", rewards=rewards, hare=hare)
    rules, reward = payoffs(env)
    stable = (reward[0] >= reward[0].max(0) - 1e-9) & (reward[1] >= reward[1].max(1, keepdims=True) - 1e-9)
    returns = reward.mean(0)
    assert sorted({round(float(found), 9) for found in returns[stable]}) == pytest.approx(expected)
    assert env.facts.optimum == pytest.approx(returns.max())
    places: Any = np.unravel_index(np.where(stable, returns, -1).argmax(), returns.shape)
    named: dict[str, Any] = {
        agent: _in_words(rules[place]) for agent, place in zip(env.possible_agents, places, strict=True)
    }
    assert env.exploitability(pure(env, named)) == pytest.approx(0.0, abs=1e-12)
    assert value(env, pure(env, named), "agent_0") == pytest.approx(reward[0, *places])


@pytest.mark.parametrize(("n", "rewards"), [(2, "joint"), (2, "individual"), (3, "joint"), (4, "individual")])
def test_a_stag_gains_where_the_page_says_so_if_teammates_choose_at_random(n: int, rewards: str) -> None:
    """Hunters with old tracks hunt a hare; messages are ignored."""

    def team(own: str) -> Any:
        def strategy(agent: str, history: Any) -> Mapping[str, float]:
            if "old tracks: " in history[0].text or len(history) == 1:
                return {HARE: 1.0}
            return {own: 1.0} if agent == "agent_0" else {STAG: 0.5, HARE: 0.5}

        return strategy

    threshold = 0.5 ** (n - 1) * n / (2 * n - 1) * (n if rewards == "joint" else 1)
    for hare in (threshold - 0.01, threshold + 0.01):
        env: Any = make("staghunt-v0", n_agents=n, rewards=rewards, hare=hare)
        gain = value(env, team(STAG), "agent_0") - value(env, team(HARE), "agent_0")
        assert (gain > 0) == (hare < threshold)


@pytest.mark.parametrize("n", [2, 6])
def test_scripts_receive_the_returns_of_both_equilibria(n: int) -> None:
    env: Any = make("staghunt-v0", n_agents=n, hare=0.4)
    for name, expected, measured in (("optimal", 0.7, (100, 0)), ("safe", 0.4, (0, None))):
        ids = [item.id for item in env.items]
        groups = Trajectories().play(env, Scripted(env.script(name)), ids, [0] * len(ids), Sampling())
        assert fmean(episode.total for group in groups for episode in group.episodes) == pytest.approx(expected)
        found = env.measure(groups)["hunts"]
        assert (found["stags caught %"], found.get("stag in vain %")) == measured


def test_without_messages_the_best_team_hunts_the_stag_only_if_hares_are_small() -> None:
    small, large = (make("staghunt-v0", hare=hare, max_turns=1) for hare in (0.2, 0.8))
    assert (small.facts.optimum, large.facts.optimum) == (pytest.approx(0.55), pytest.approx(0.8))
    small.reset(options={"task_id": "staghunt/warned_1"})
    assert set(small.step({"agent_0": HARE, "agent_1": STAG})[1].values()) == {0.1}
