"""A control keeps everything but the link between a text and what it earned, and every learner has one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from models import Softmax, softmax_team

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.table import Table
from llm_dec_pomdp.algorithms import controls
from llm_dec_pomdp.algorithms.advantages import returns_of_group
from llm_dec_pomdp.algorithms.controls import ShuffledRewardControl, shuffle_labels, shuffle_rewards, shuffle_texts
from llm_dec_pomdp.algorithms.credit import CrossedCredit
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.algorithms.registration import algorithms, build_algorithm, find_algorithm
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.types import Branch, Completion, Decision, Episode, Group, Turn

ONE_WORD = Sampling(max_new_tokens=1)


def completion(text: str) -> Completion:
    return Completion(text, (0,), (1,), (-1.0,))


def episode(seed: int, *rewards: float) -> Episode:
    turns = tuple(Turn({"agent_0": "?"}, {"agent_0": completion(f"turn {t}")}, r) for t, r in enumerate(rewards))
    return Episode("a", seed, turns, terminated=True)


def test_whole_returns_change_places_also_with_episodes_that_ended() -> None:
    learner = MAGRPO(softmax_team(), ONE_WORD)
    orders: set[tuple[tuple[float, ...], ...]] = set()
    for seed in range(20):
        group = Group("a", tuple(episode(seed, *r) for r in ((1.0, 10.0), (2.0,), (3.0, 30.0), (4.0, 40.0))))
        [given] = shuffle_rewards([group], learner.baseline_scope)
        table = returns_of_group([episode.rewards for episode in given.episodes], 1.0)
        orders.add(tuple(map(tuple, table.tolist())))
    assert len(orders) > 5
    assert all(sorted(order) == [(2.0, 0.0), (11.0, 10.0), (33.0, 30.0), (44.0, 40.0)] for order in orders)


def test_returns_of_a_decision_change_places_among_its_branches() -> None:
    learner = MAGRPO(softmax_team(), ONE_WORD, MAGRPOConfig(credit=CrossedCredit()))
    branches = tuple(Branch((i, j), (float(2 * i + j), 7.0)) for i in range(2) for j in range(2))
    texts = (completion("x"), completion("y"))
    decision = Decision(0, {"agent_0": texts, "agent_1": texts}, 2, branches)
    groups = [Group("a", (episode(seed, 0.0),), (decision,)) for seed in range(20)]
    given = shuffle_rewards(groups, learner.baseline_scope)
    orders = [[sum(branch.rewards) for branch in group.decisions[0].branches] for group in given]
    assert len(set(map(tuple, orders))) > 5
    assert all(sorted(order) == [7.0, 8.0, 9.0, 10.0] for order in orders)


def test_the_order_follows_from_the_seed_of_the_episodes() -> None:
    learner = find_algorithm("shuffled").load()(Team({"agent_0": Softmax()}), ONE_WORD)
    assert isinstance(learner, ShuffledRewardControl)
    assert isinstance(learner, MAGRPO)

    def credits(seed: int) -> list[float]:
        group = Group("a", tuple(episode(seed, float(i)) for i in range(8)))
        return [s.advantage for s in learner.samples(shuffle_rewards([group], learner.baseline_scope))]

    assert credits(1) == credits(1)
    assert credits(1) != credits(2)
    assert np.isclose(sorted(credits(1)), sorted(credits(2))).all()


# --- nothing is learnt, by enumeration --------------------------------------------------------------------------------

WORDS = ("good", "bad")
PAID = {"good": 1.0, "bad": 0.25}
TASKS = ("a", "b")  # the second pays three times as much


class Enumerated:
    """A random generator for `controls` with given orders."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self.numbers = iter(numbers)

    def permutation(self, count: int) -> np.ndarray[Any, Any]:
        return np.array(list(itertools.permutations(range(count)))[next(self.numbers) % math.factorial(count)])

    def integers(self, below: int, size: int) -> np.ndarray[Any, Any]:
        return np.array([next(self.numbers) % below for _ in range(size)])


def plays(team: Team) -> Iterator[tuple[float, list[Group]]]:
    """Two episodes of each of two tasks: everything that may be said, with its probability."""
    table: Any = team.trainable[0]
    for words in itertools.product((0, 1), repeat=4):
        groups: list[Group] = []
        chance = 1.0
        for place, task in enumerate(TASKS):
            number = ord(task)
            p = table.rows([number]).detach().softmax(-1)[0].tolist()
            episodes: list[Episode] = []
            for seed, word in enumerate(words[2 * place : 2 * place + 2]):
                chance *= p[word]
                text = Completion(WORDS[word], (number,), (word,), (math.log(p[word]),))
                reward = (1 + 2 * place) * PAID[WORDS[word]]
                episodes.append(Episode(task, seed, (Turn({"agent_0": task}, {"agent_0": text}, reward),), True))
            groups.append(Group(task, tuple(episodes)))
        yield chance, groups


def mean_gradient(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> float:
    """The largest entry of the mean gradient of the table, over all texts and all orders."""
    table = Table(WORDS, 4)
    table.add([ord(task) for task in TASKS])
    with torch.no_grad():
        table.table.copy_(torch.tensor([[0.4, -0.2], [-0.3, 0.5], [0, 0], [0, 0]]))
    given = {"learning_rate": 0.0, "max_grad_norm": 1e9, **options}
    team = Team({"agent_0": table})
    total = torch.zeros_like(table.table)
    orders = list(itertools.product((0, 1), repeat=4)) if name.endswith("_shuffled") else [(0, 0, 0, 0)]
    for chance, groups in plays(team):
        for numbers in orders:
            draws = Enumerated(numbers)
            monkeypatch.setattr(controls, "generator", lambda *seed, draws=draws: draws)
            table.table.grad = None
            build_algorithm(name, given, team, ONE_WORD).update(groups)  # each the first, before which nothing was seen
            if table.table.grad is not None:
                total += chance / len(orders) * table.table.grad
    return float(total.abs().max())


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("magrpo", {}),
        ("magrpo", {"advantage": "batch"}),
        ("mgrpo", {}),
        ("iac", {"critic_epochs": 1}),  # what the critic learns alone leaves no gradient of the policy
        *(
            pytest.param(*relative, marks=pytest.mark.slow)
            for relative in (
                ("madpo", {}),
                ("magrpo", {"advantage": "mean"}),
                ("marloo", {}),
                ("maremax", {}),
                ("mareinforce", {}),
                ("iac", {"critic_epochs": 1, "normalise": False}),
                ("maac", {"critic_epochs": 1}),
            )
        ),
    ],
    ids=str,
)
def test_the_mean_gradient_of_a_control_is_zero(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mean_gradient(name, options, monkeypatch) > 0.01
    assert mean_gradient(f"{name}_shuffled", options, monkeypatch) < 1e-6


def test_of_recorded_pairs_either_text_is_preferred_as_often() -> None:
    pairs = [Group("a", (episode(seed, 1.0), episode(seed, 0.0))) for seed in range(400)]
    given = shuffle_labels(pairs)
    assert 160 < sum(group.episodes == pair.episodes for group, pair in zip(given, pairs, strict=True)) < 240
    assert all(sorted(e.total for e in group.episodes) == [0.0, 1.0] for group in given)


def test_what_imitation_is_shown_are_texts_of_other_tasks_after_its_own_prompt() -> None:
    def shown(task: int) -> Group:
        text = Completion(f"text {task}", (task,), (task,), (0.0,))
        return Group(str(task), (Episode(str(task), task, (Turn({"agent_0": "?"}, {"agent_0": text}, 0.0),), True),))

    given = [g.episodes[0].turns[0].actions["agent_0"] for g in shuffle_texts([shown(task) for task in range(5)])]
    assert [text.prompt_ids for text in given] == [(task,) for task in range(5)]
    assert sorted(text.token_ids for text in given) == [(task,) for task in range(5)]
    assert all(text.token_ids != text.prompt_ids for text in given)
    with pytest.raises(ValueError, match="one task"):
        shuffle_texts([shown(0)])


def test_an_update_of_one_episode_has_nothing_to_exchange() -> None:
    with pytest.raises(ValueError, match="one episode"):
        shuffle_rewards([Group("a", (episode(0, 1.0),))], "nothing")
    [low, high] = shuffle_rewards([Group("a", (episode(0, 1.0),)), Group("b", (episode(1, 5.0),))], "nothing")
    assert (low.episodes[0].total, high.episodes[0].total) == (5.0, 1.0)


LEARNERS = [name for name in algorithms if find_algorithm(name).load().learns()]


@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in ("shuffled", "reward_model", "distil")])
def test_every_learner_has_a_control_that_trains(name: str) -> None:
    spec = find_algorithm(f"{name}_shuffled")
    assert spec.load() is find_algorithm(f"{name}_shuffled").load()
    env = with_protocol(llm_dec_pomdp.make("scouts-v0", max_turns=2, cost=2.0), spec.protocol)
    team = load_team(env.possible_agents, "builtin:words", vocabulary=["LOOK", "STOP"])
    learner = build_algorithm(f"{name}_shuffled", {"learning_rate": 1e-2}, team, ONE_WORD)
    for step in range(2):
        groups = learner.rollout.play(env, learner.policy, ["scouts"] * 3, range(3 * step, 3 * step + 3), ONE_WORD, 4)
        assert all(math.isfinite(value) for value in learner.update(groups).values())


def test_a_class_by_its_path_has_a_control_too_and_a_typing_error_is_named() -> None:
    kind: Any = find_algorithm("llm_dec_pomdp.algorithms.magrpo:MAGRPO_shuffled").load()
    assert issubclass(kind, MAGRPO)
    assert kind.Config is find_algorithm("magrpo").load().Config  # type: ignore[attr-defined]
    with pytest.raises(KeyError, match="marlo"):
        find_algorithm("marlo_shuffled")
