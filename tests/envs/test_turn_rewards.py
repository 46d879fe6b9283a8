"""What several turns pay: the three rules by hand, under every protocol, in copies, in branches, and their ranges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
from tasks import ITEMS, Graded

from llm_dec_pomdp.agents import Policy, Sampling, Team
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.turn_rewards import RULES
from llm_dec_pomdp.envs.wrappers import ByteObservation, DiscreteMenu, FixedRoster, make_vec, with_protocol
from llm_dec_pomdp.rollout import Counterfactual, Rollout, Tree
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Completion, Decision, Score

NAN = math.nan
MENU = ("0", "1", "2.5", "4")


def graded(turn_reward: Any = "final", max_turns: int = 3) -> Graded:
    return Graded(ITEMS, max_turns=max_turns, turn_reward=turn_reward)


def paid(env: TextDecPOMDP, scores: Sequence[float]) -> list[float]:
    """Rewards of an episode that scores these; drafts say the same as the text that is scored."""
    if not env.agents:
        env.reset(seed=0)
    rewards: list[float] = []
    for score in scores:
        scored = False
        while env.agents and not scored:
            text = env.facts.join([str(score)] * 2) if env.facts.parts_per_action > 1 else str(score)
            rewards.append(next(iter(env.step(dict.fromkeys(env.agents, text))[1].values())))
            scored = env.latest.transition.score is not None
    return rewards


THREE_TURNS: list[tuple[str, list[float], list[float]]] = [
    ("final", [1.0, 2.5, 2.0], [1.0, 1.5, -0.5]),
    ("final", [2.5, 4.0], [2.5, 1.5]),
    ("final", [4.0], [4.0]),
    ("final", [1.0, NAN, 2.5], [1.0, NAN, 1.5]),
    ("final", [NAN, 1.0, 2.5], [NAN, 1.0, 1.5]),
    ("shifted", [1.0, 2.5, 2.0], [-3.0, -1.5, -2.0]),
    ("shifted", [2.5, 4.0], [-1.5, 0.0]),
    ("shifted", [4.0], [0.0]),
    ("shifted", [1.0, NAN, 2.5], [-3.0, NAN, -1.5]),
    ("each", [1.0, 2.5, 2.0], [1.0, 2.5, 2.0]),
    ("each", [2.5, 4.0], [2.5, 8.0]),
    ("each", [4.0], [12.0]),
    ("each", [1.0, NAN, 2.5], [1.0, NAN, 2.5]),
]


@pytest.mark.parametrize(("protocol", "drafts"), [("parallel", 0), ("centralized", 0), ("sequential", 1)])
@pytest.mark.parametrize(("turn_reward", "scores", "wanted"), THREE_TURNS)
def test_rewards_of_three_turns(
    protocol: str, drafts: int, turn_reward: str, scores: list[float], wanted: list[float]
) -> None:
    env = with_protocol(graded(turn_reward), protocol)
    rewards = [reward for last in wanted for reward in (*[0.0] * drafts, last)]
    assert paid(env, scores) == pytest.approx(rewards, nan_ok=True, abs=0)
    assert not env.agents


@pytest.mark.parametrize("turn_reward", ["final", "each"])
@pytest.mark.parametrize("score", [0.0, 0.1 + 0.2, 4.0])
def test_one_turn_pays_the_score_itself(turn_reward: str, score: float) -> None:
    env = graded(turn_reward, 1)
    assert paid(env, [score]) == [score]
    assert env.facts.reward_range == env.facts.score_range


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("turn_reward", RULES)
def test_ending_by_solving_is_never_worth_less_than_going_on(turn_reward: str, gamma: float) -> None:
    def worth(scores: Sequence[float], first: int) -> float:
        return sum(gamma**t * reward for t, reward in enumerate(paid(graded(turn_reward), scores)[first:]))

    for first in range(3):
        for before in itertools.product((0.0, 2.5), repeat=first):
            solved = worth([*before, 4.0], first)
            for after in itertools.product((0.0, 2.5, 3.9, 4.0), repeat=3 - first):
                assert worth([*before, *after], first) <= solved + 1e-12


# --- ranges and laws --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("turn_reward", "turns", "wanted"),
    [("final", 2, (-4.0, 4.0)), ("shifted", 1, (-4.0, 0.0)), ("shifted", 3, (-4.0, 0.0)), ("each", 3, (0.0, 12.0))],
)
@pytest.mark.parametrize("protocol", ["parallel", "sequential"])
def test_the_range_of_rewards_is_that_of_the_rule(
    turn_reward: str, turns: int, wanted: tuple[float, float], protocol: str
) -> None:
    env = with_protocol(graded(turn_reward, turns), protocol)
    assert env.facts.reward_range == wanted
    assert env.facts.score_range == (0.0, 4.0)


# --- copies and wrappers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["parallel", "sequential"])
def test_forks_and_restored_episodes_remember_the_score_before(protocol: str) -> None:
    env = with_protocol(graded(), protocol)
    paid(env, [2.5])
    point, twin = env.snapshot(), env.fork()
    assert sum(paid(env, [1.0])) == -1.5
    assert sum(paid(twin, [3.0, 3.5])) == 1.0
    env.restore(point)
    assert sum(paid(env, [2.0])) == -0.5
    env.reset(seed=1)
    assert sum(paid(env, [1.0])) == 1.0


def test_the_state_tells_apart_what_pays_differently() -> None:
    """Of two equal histories one could not be judged, so that the next turn pays another difference."""
    scored, lost = graded(), graded()
    for env, value in ((scored, 1.0), (lost, NAN)):
        env.reset(options={"index": 0})
        env.score = lambda item, actions, value=value: Score(value, {"hits": value})  # type: ignore[method-assign]
        env.step(dict.fromkeys(env.agents, "the same"))
    assert scored.history("agent_0") == lost.history("agent_0")
    assert scored.state() != lost.state()


def test_wrappers_for_numbers_forward_negative_rewards() -> None:
    def build() -> Any:
        return FixedRoster(ByteObservation(DiscreteMenu(graded(), MENU), 64))

    envs = make_vec(build, 2)
    envs.reset(seed=0)
    rewards = [envs.step({agent: [worse, 1] for agent in ("agent_0", "agent_1")})[1].tolist() for worse in (2, 0)]
    assert rewards == [[2.5, 1.0], [-2.5, 0.0]]


# --- branches ---------------------------------------------------------------------------------------------------------


class Grades(Policy):
    """Says a grade that follows from the seed."""

    def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[list[Completion]]:
        return [
            [Completion(MENU[int(generator(seed).integers(3))], (0,), (1,), (0.0,)) for seed in r.seeds]
            for r in requests
        ]


def play(turn_reward: str, rollout: Rollout) -> Any:
    env = graded(turn_reward, 2)
    [group] = rollout.play(env, Team(dict.fromkeys(env.possible_agents, Grades())), ["t0"], [3], Sampling(), 3)
    return group


def by_rule(turn_reward: str, scores: Sequence[float]) -> list[float]:
    return paid(graded(turn_reward, 2), scores)


def first_text(decision: Decision, choice: Sequence[int]) -> float:
    return float(decision.actions["agent_0"][choice[0]].text)


@pytest.mark.parametrize("turn_reward", RULES)
def test_branches_of_a_tree_are_paid_by_the_rule(turn_reward: str) -> None:
    group = play(turn_reward, Tree("cross"))
    for e in group.episodes:
        assert list(e.rewards) == by_rule(turn_reward, [turn.score.total for turn in e.turns])
    root, *later = group.decisions
    for branch, decision in zip(root.branches, later, strict=True):
        played = [
            by_rule(turn_reward, [first_text(root, branch.choice), first_text(decision, b.choice)])
            for b in decision.branches
        ]
        assert [b.rewards[0] for b in decision.branches] == [rewards[1] for rewards in played]
        assert branch.rewards[1] == pytest.approx(sum(rewards[1] for rewards in played) / len(played))


@pytest.mark.parametrize("continuation", ["frozen", "resampled"])
@pytest.mark.parametrize("turn_reward", RULES)
def test_alternatives_are_paid_by_the_rule(turn_reward: str, continuation: Any) -> None:
    group = play(turn_reward, Counterfactual(continuation))
    for place, decision in enumerate(group.decisions):
        recorded = [float(turn.actions["agent_0"].text) for turn in group.episodes[place // 2].turns]
        for branch in decision.branches:
            tried = [*recorded]
            tried[decision.turn] = first_text(decision, branch.choice)
            if continuation == "frozen" or decision.turn == 1 or not branch.choice[0]:
                assert list(branch.rewards) == by_rule(turn_reward, tried)[decision.turn :]
            else:
                assert branch.rewards[0] == by_rule(turn_reward, tried)[0]
