"""Who deserves what: crossed texts, trees and counterfactual credit, from play to the weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from models import COLOURS, ITEMS, Match, Softmax, gradients, language_model, sampled
from updates import agreement

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.training import TrainerConfig, TrainingStep, train
from llm_dec_pomdp.types import Branch, Decision, Episode, Group, Score, TaskItem

ONE_WORD = Sampling(max_new_tokens=1)
QUESTIONS = [TaskItem(item.id, item.prompt) for item in ITEMS]  # without references, which are of two agents


class Bystander(Match):
    """Agents 0 and 1 are paid for their colours, agent_2 can do what it likes."""

    declared = replace(Match.declared, roles=("left", "right", "bystander"), score_range=(0.0, 8.0), best=math.inf)

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        first, second, _ = ((COLOURS.index(a) if a in COLOURS else 0) for a in actions.values())
        value = float(first == second) + 0.1 * first
        return Score(value, {"match": value})


CREDIT: list[dict[str, Any]] = [
    {"credit": "counterfactual"},
    {"credit": "crossed"},
]
LATER_TURNS: list[dict[str, Any]] = [
    {"credit": "counterfactual"},
    {"credit": "counterfactual", "continuation": "resampled"},
    {"credit": "crossed", "tree": True},
]


def tables(env: Match) -> Team:
    return Team({agent: Softmax() for agent in env.possible_agents})


def make(team: Team, **options: Any) -> MAGRPO:
    return MAGRPO(team, ONE_WORD, MAGRPO.Config(**{"max_grad_norm": 1e9, **options}))


def play(learner: MAGRPO, env: Match, size: int = 3, ids: Sequence[str] = ("t1", "t2", "t3")) -> list[Group]:
    return learner.rollout.play(env, learner.team, ids, range(len(ids)), ONE_WORD, size)


def advantages(learner: MAGRPO, groups: Sequence[Group]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {agent: [] for agent in learner.team.members}
    for s in learner.samples(groups):
        found[s.agent].append(s.advantage)
    return found


# --- an agent that cannot matter --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "turns"), [*((o, 1) for o in CREDIT), *((o, 2) for o in LATER_TURNS)])
def test_an_agent_that_cannot_matter_has_advantage_exactly_zero(options: dict[str, Any], turns: int) -> None:
    env = Bystander(QUESTIONS, max_turns=turns)
    learner = make(tables(env), **options)
    found = advantages(learner, play(learner, env, 2 if options.get("tree") else 3))
    assert set(found["agent_2"]) == {0.0}
    assert any(found["agent_0"])
    assert any(found["agent_1"])


@pytest.mark.parametrize("turns", [1, 2])
def test_language_models_that_cannot_matter_have_advantage_exactly_zero(turns: int) -> None:
    """Texts drawn anew in another batch must not differ where nothing was heard."""
    env = Bystander(QUESTIONS, max_turns=turns)
    team = Team({a: language_model(i) for i, a in enumerate(env.possible_agents)})
    learner = make(team, credit="counterfactual", **({"continuation": "resampled"} if turns == 2 else {}))
    assert set(advantages(learner, play(learner, env))["agent_2"]) == {0.0}


# --- what a text is worth, computed once more from the texts ----------------------------------------------------------


def worth(env: Match, texts: Sequence[str]) -> float:
    return env.score(QUESTIONS[0], dict(zip(env.possible_agents, texts, strict=True))).total


@pytest.mark.parametrize("options", [{"credit": "counterfactual"}, {"credit": "crossed", "advantage": "leave_one_out"}])
def test_one_turn_counterfactual_advantages_from_the_texts(options: dict[str, str]) -> None:
    env = Bystander(QUESTIONS)
    learner = make(tables(env), **options)
    [group] = play(learner, env, ids=["t1"])
    plain = Trajectories().play(env, learner.team, ["t1"], [0], ONE_WORD, 3)[0]
    texts = [[e.turns[0].actions[a].text for e in plain.episodes] for a in env.possible_agents]
    found = advantages(learner, [group])
    for i, agent in enumerate(env.possible_agents):
        wanted: list[float] = []
        for g in range(3):
            differences: list[float] = []
            for others in itertools.product(range(3), repeat=2) if "advantage" in options else [(g, g)]:
                beside = [texts[j][k] for j, k in zip([j for j in range(3) if j != i], others, strict=True)]
                value = [worth(env, [*beside[:i], texts[i][h], *beside[i:]]) for h in range(3)]
                differences.append(value[g] - sum(value[h] for h in range(3) if h != g) / 2)
            wanted.append(sum(differences) / len(differences))
        assert found[agent] == pytest.approx(wanted, abs=1e-12)


def test_crossed_advantages_from_the_texts() -> None:
    env = Bystander(QUESTIONS)
    learner = make(tables(env), credit="crossed", advantage="mean")
    [group] = play(learner, env, ids=["t1"])
    texts = [[c.text for c in completions] for completions in group.decisions[0].actions.values()]
    found = advantages(learner, [group])
    for i, agent in enumerate(env.possible_agents):
        q = [
            np.mean(
                [
                    worth(env, joint)
                    for joint in itertools.product(*(t if j != i else [t[g]] for j, t in enumerate(texts)))
                ]
            )
            for g in range(3)
        ]
        assert found[agent] == pytest.approx([x - np.mean(q) for x in q], abs=1e-12)


def test_later_turns_are_credited_with_what_follows_and_the_discount() -> None:
    env = Bystander(QUESTIONS, max_turns=2, turn_reward="each")
    learner = make(tables(env), credit="counterfactual", gamma=0.5)
    [group] = play(learner, env, 2, ids=["t1"])
    first, second = group.episodes
    texts = [[[t.actions[a].text for a in env.possible_agents] for t in e.turns] for e in (first, second)]
    played = worth(env, texts[0][0]) + 0.5 * worth(env, texts[0][1])
    replaced = worth(env, [texts[1][0][0], *texts[0][0][1:]]) + 0.5 * worth(env, texts[0][1])
    [decision] = [
        d for d in group.decisions if d.turn == 0 and d.actions["agent_0"][0] is first.turns[0].actions["agent_0"]
    ]
    found = next(s for s in learner.samples([Group("t1", group.episodes, (decision,))]) if s.agent == "agent_0")
    assert found.advantage == pytest.approx(played - replaced)


# --- trees ------------------------------------------------------------------------------------------------------------


def tree(scores: Sequence[float] = (1.0, 2.0, 3.0, 7.0)) -> Group:
    """Two joint actions, each followed by two."""
    leaves = [Branch((g,), (s,)) for g, s in zip((0, 1, 0, 1), scores, strict=True)]
    root = [Branch((g,), (0.0, (scores[2 * g] + scores[2 * g + 1]) / 2)) for g in range(2)]
    decisions = (
        Decision(0, {"agent_0": (sampled(0), sampled(1))}, 2, tuple(root)),
        Decision(1, {"agent_0": (sampled(0, 0), sampled(1, 1))}, 2, tuple(leaves[:2]), 0.5),
        Decision(1, {"agent_0": (sampled(0, 0), sampled(2, 2))}, 2, tuple(leaves[2:]), 0.5),
    )
    return Group("t", (Episode("t", 0, (), True),), decisions)


def test_siblings_are_compared_and_nobody_else() -> None:
    learner = make(Team({"agent_0": Softmax()}), tree=True, advantage="mean", gamma=0.5)
    found = [s.advantage for s in learner.samples([tree()])]
    assert found == pytest.approx([-0.875, 0.875, -0.5, 0.5, -2.0, 2.0])


def test_a_tree_gives_every_turn_its_due() -> None:
    """Four texts of two tokens at the second turn weigh as much as the two that trajectories would have had."""
    three = {"words": ("a", "b", "c"), "logits": (0.3, -1.0, 0.8)}
    team = Team({"agent_0": Softmax(**three)})
    make(team, tree=True, advantage="mean").update([tree()])
    p = torch.tensor(three["logits"]).softmax(-1)

    def score(k: int, length: int) -> torch.Tensor:
        return length * (torch.eye(3)[k] - p)

    first = -1.75 * score(0, 1) + 1.75 * score(1, 1)
    second = 0.5 * (-0.5 * score(0, 2) + 0.5 * score(1, 2) - 2.0 * score(0, 2) + 2.0 * score(2, 2))
    torch.testing.assert_close(gradients(team)[0], -(first + second) / (2 * 1 + 2 * 2))


def test_a_branch_without_score_is_not_learnt_from() -> None:
    learner = make(Team({"agent_0": Softmax()}), tree=True, advantage="mean")
    found = learner.samples([tree((math.nan, 2.0, 3.0, 7.0))])
    assert [(s.completion.token_ids, s.advantage) for s in found] == [
        ((1,), 0.0),
        ((1, 1), 0.0),
        ((0, 0), -2.0),
        ((2, 2), 2.0),
    ]


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        LATER_TURNS[0],
        pytest.param(LATER_TURNS[1], marks=pytest.mark.slow),
        pytest.param(LATER_TURNS[2], marks=pytest.mark.slow),
    ],
    ids=["frozen", "resampled", "cross-tree"],
)
def test_two_tables_agree_over_two_turns(options: dict[str, Any]) -> None:
    env = Match(ITEMS, max_turns=2)
    team = tables(env)
    learner = make(team, learning_rate=0.15, max_grad_norm=1.0, **options)
    size = 2 if options.get("tree") else 4
    train(learner, env, ONE_WORD, TrainerConfig(steps=60, prompts_per_step=4, group_size=size), 0)
    assert agreement(team) > 0.9


# --- how many episodes it takes ---------------------------------------------------------------------------------------


class Red(Match):
    """The first five agents are rewarded for saying red; the last one has no effect."""

    declared = replace(Match.declared, roles=("a", "b", "c", "d", "e", "bystander"))

    def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
        value = sum(text == "red" for text in list(actions.values())[:5]) / 5
        return Score(value, {"match": value})


class ReachedError(Exception):
    """The wanted return was reached."""


def episodes_needed(seed: int, **options: Any) -> int:
    """Played until the exact mean return is above 0.9; scoring what was tried beside them is not counted."""
    env, taken = Red(QUESTIONS), list[int]()
    team = tables(env)

    def watch(step: TrainingStep) -> None:
        taken.append(step.number)
        deciding = [team.members[a].logits.detach().softmax(-1)[0] for a in env.possible_agents[:5]]  # type: ignore[attr-defined]
        if sum(map(float, deciding)) / 5 > 0.9:
            raise ReachedError

    config = TrainerConfig(steps=150, prompts_per_step=2, group_size=4)
    try:
        train(make(team, learning_rate=0.05, max_grad_norm=1.0, **options), env, ONE_WORD, config, seed, watch)
    except ReachedError:
        return 8 * len(taken)
    raise AssertionError("the return was not reached")


@pytest.mark.slow
def test_counterfactual_credit_needs_fewer_episodes_where_others_are_noise() -> None:
    """Five agents that decide and one that does not, a table each: about a quarter fewer (369 against 485)."""
    joint, counterfactual = (
        sum(episodes_needed(seed, **options) for seed in range(4)) / 4 for options in ({}, {"credit": "counterfactual"})
    )
    assert counterfactual < 0.85 * joint


# --- advantages of a learner's own ------------------------------------------------------------------------------------


class Own(MAGRPO):
    """Its baseline is the mean of the returns that are compared."""

    def advantages(self, returns: Any) -> Any:
        return returns - returns.mean()


class LeftOut(MAGRPO):
    """Its baseline is the mean of the other returns."""

    def advantages(self, returns: Any) -> Any:
        return returns - (returns.sum() - returns) / max(len(returns) - 1, 1) if len(returns) > 1 else 0 * returns


@pytest.mark.parametrize(
    ("kind", "options", "default"),
    [
        (Own, {}, {"advantage": "mean"}),
        (Own, {"tree": True}, {"advantage": "mean"}),
        (Own, {"credit": "crossed", "tree": True}, {"advantage": "mean"}),
        (LeftOut, {"credit": "counterfactual"}, {}),
        (LeftOut, {"credit": "message"}, {}),
    ],
    ids=str,
)
def test_a_learner_has_its_own_advantages_of_the_returns_under_every_credit(
    kind: type[MAGRPO], options: dict[str, Any], default: dict[str, Any]
) -> None:
    env = Bystander(QUESTIONS, max_turns=2)
    own = kind(tables(env), ONE_WORD, kind.Config(**options))
    groups = play(own, env)
    found, wanted = advantages(own, groups), advantages(make(own.team, **options, **default), groups)
    assert any(found["agent_0"])
    assert {agent: pytest.approx(values, abs=1e-9) for agent, values in wanted.items()} == found


def test_own_advantages_are_one_number_for_each_return() -> None:
    class Scalar(MAGRPO):
        def advantages(self, returns: Any) -> Any:
            return np.median(returns)

    env = Bystander(QUESTIONS)
    learner = Scalar(tables(env), ONE_WORD)
    with pytest.raises(ValueError, match=r"advantages of 3 returns have shape \(\)"):
        learner.samples(play(learner, env))


def test_own_advantages_refuse_the_option_that_they_replace() -> None:
    assert "'batch'" in Own.incompatibility(Own.Config(advantage="batch"), Bystander(QUESTIONS))
    assert Own.incompatibility(Own.Config(), Bystander(QUESTIONS)) == ""
