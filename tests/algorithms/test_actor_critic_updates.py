"""An update of IAC and MAAC on language models: which steps it takes, what each critic reads and what teaches it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from models import AGENTS, copy_of, gradients, same, separate_team, weights
from updates import SAMPLING, make

from llm_dec_pomdp.agents import Request, Team
from llm_dec_pomdp.agents.language_model.policy import PromptTooLongError
from llm_dec_pomdp.algorithms.actor_critic import IAC, MAAC, ActorCritic
from llm_dec_pomdp.types import Episode, Group, Turn, conversation

KINDS = [IAC, MAAC]


def learner(kind: type[ActorCritic], team: Team, **options: Any) -> Any:
    given: dict[str, Any] = {"max_grad_norm": 1e9, "critic_epochs": 1, "learning_rate": 0.01, **options}
    return kind(team, SAMPLING, kind.Config(**given))


def group_of(team: Team, *rewards: tuple[float, ...], terminated: bool = True) -> Group:
    """Episodes with these rewards by turn, in which everybody is told its role and the turn."""
    episodes: list[Episode] = []
    for number, earned in enumerate(rewards):
        turns: list[Turn] = []
        for t, reward in enumerate(earned):
            observations = {
                agent: f"say {'red ' * t}{colour}" for agent, colour in zip(AGENTS, ("left", "right"), strict=True)
            }
            requests = [Request(agent, conversation(text), (10 * number + t,)) for agent, text in observations.items()]
            completions = [completion for [completion] in team.generate(requests, SAMPLING)]
            turns.append(Turn(observations, dict(zip(AGENTS, completions, strict=True)), reward))
        episodes.append(Episode("t", number, tuple(turns), terminated))
    return Group("t", tuple(episodes), roles={"agent_0": "left", "agent_1": "right"})


TWO_TURNS = ((0.0, 1.0), (1.0, 0.0), (0.5, 2.0))


@pytest.mark.parametrize("kind", KINDS)
def test_one_update_is_one_step_whatever_the_number_of_turns(kind: type[ActorCritic]) -> None:
    """A step per turn would take the later turns with weights that did not sample them."""
    team = separate_team(1)
    algorithm = learner(kind, team)
    group = group_of(team, *TWO_TURNS)
    metrics = algorithm.update([group])
    steps = {float(s["step"]) for u in algorithm.updaters for s in u.state_dict()["optimizer"]["state"].values()}
    assert steps == {1.0}
    completions = [text for e in group.episodes for turn in e.turns for text in turn.actions.values()]
    assert metrics["tokens"] == sum(len(text.token_ids) for text in completions) / len(AGENTS)


def test_a_critic_of_the_team_learns_each_joint_history_once_and_not_once_for_every_agent() -> None:
    team = separate_team(1)
    algorithm = learner(MAAC, team, epochs=3)
    heard: list[list[Any]] = []
    values = algorithm.updaters[0].critic.values
    algorithm.updaters[0].critic.values = lambda readings: heard.append(list(readings)) or values(readings)
    algorithm.update([group_of(team, *TWO_TURNS)])
    with_gradient = [reading for batch in heard[1:] for reading in batch]
    assert len(with_gradient) == 3 * len(set(with_gradient)) == 3 * 4  # three second turns, one first one
    assert [hasattr(updater, "critic") for updater in algorithm.updaters] == [True, False]


def test_a_critic_of_the_team_reads_all_turns_of_all_by_role_in_agent_order() -> None:
    team = separate_team(1)
    algorithm = learner(MAAC, team)
    group = group_of(team, (0.0, 1.0))
    [sequence] = algorithm.sequences(group, 0)
    first, _ = group.episodes[0].turns
    lines = ["left is told:\nsay left", "right is told:\nsay right"]
    assert sequence.inputs[0].history[0].text == "\n\n".join(lines)
    lines += [f"left says:\n{first.actions['agent_0'].text}", f"right says:\n{first.actions['agent_1'].text}"]
    lines += ["left is told:\nsay red left", "right is told:\nsay red right"]
    assert sequence.inputs[1].history[0].text == "\n\n".join(lines)


def test_a_joint_history_that_is_too_long_is_refused_and_not_cut() -> None:
    team = separate_team(1, max_position_embeddings=24)
    with pytest.raises(PromptTooLongError, match="exceed the model's context of 24"):
        learner(MAAC, team).update([group_of(team, (0.0, 1.0))])


@pytest.mark.parametrize("kind", KINDS)
def test_what_could_not_be_scored_teaches_neither_policy_nor_critic(kind: type[ActorCritic]) -> None:
    team = separate_team(1)
    scored = group_of(team, (0.0, 1.0), (1.0, 0.0))
    lost = Group("t", (*scored.episodes, *group_of(team, (0.5, math.nan)).episodes), roles=scored.roles)
    moved = [copy_of(team), copy_of(team)]
    for mine, given in zip(moved, (scored, lost), strict=True):
        metrics = learner(kind, mine).update([given])
        assert all(map(math.isfinite, metrics.values()))
    assert same(*(weights(mine) for mine in moved))


@pytest.mark.parametrize("kind", KINDS)
def test_equal_advantages_leave_the_policy_alone_and_teach_the_critic(kind: type[ActorCritic]) -> None:
    """Divided by a small number, their rounding would be a gradient."""
    team = separate_team(1)
    before = weights(team)
    algorithm = learner(kind, team)
    metrics = algorithm.update([group_of(team, (0.1 + 0.2,), (0.3,))])
    assert metrics["value_loss"] == pytest.approx(0.0, abs=1e-12)  # the mean so far is what the critic says at first
    group = group_of(team, (1.0,), (1.0,))
    algorithm.update([group])
    assert same(before, weights(team))
    sequences = algorithm.sequences(group, 0)
    algorithm._value(sequences)
    assert all(0.301 < sequence.values[0] < 1.0 for sequence in sequences)


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"ratio": "sequence"}, {"entropy": 0.01}])
def test_policies_step_as_those_of_other_learners_do(kind: type[ActorCritic], options: dict[str, Any]) -> None:
    """With its own last token and without padding, at the temperature: the same updater, for the same advantages."""
    team = separate_team(1, double=True)
    group = group_of(team, (0.0,), (1.0,), (0.5,))
    mine, theirs = copy_of(team), copy_of(team)
    learner(kind, mine, **options).update([group])
    make(theirs, **options).update([group])  # MAGRPO: (R - mean R) / std R, as here, where the critic still says 0
    for a, b in zip(gradients(mine), gradients(theirs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{"body": "own"}, {"body": "shared"}, {"critic_level": "token"}])
def test_the_gradient_does_not_depend_on_the_micro_batch(kind: type[ActorCritic], options: dict[str, Any]) -> None:
    team = separate_team(1, double=True)
    group = group_of(team, *TWO_TURNS)
    results: list[list[torch.Tensor]] = []
    for size in (1, 3, 16):
        mine = copy_of(team)
        algorithm = learner(kind, mine, micro_batch=size, **options)
        for critic in algorithm.critics:
            torch.nn.init.constant_(critic.critic.weight, 0.1)
        algorithm.update([group])
        heads = [
            p.grad.flatten().double() for u in algorithm.critics for p in u.critic.parameters() if p.grad is not None
        ]
        results.append([*gradients(mine), torch.cat(heads)])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_every_value_target_is_in_one_minibatch_of_an_epoch() -> None:
    team = separate_team(1)
    algorithm = learner(IAC, team, minibatches=2, epochs=2)
    updater = algorithm.updaters[0]
    taken: list[Any] = []
    compute = updater.gradient
    updater.gradient = lambda texts, targets, size: taken.append(list(targets)) or compute(texts, targets, size)
    algorithm.update([group_of(team, *TWO_TURNS)])
    assert len(taken) == 4
    for first, second in (taken[:2], taken[2:]):
        assert sorted(s.target for s in (*first, *second)) == sorted(
            s.target for s in itertools.chain(*updater.extra_targets)
        )


@pytest.mark.parametrize("minibatches", [1, 2])
def test_what_is_masked_for_the_policy_still_teaches_the_critic(minibatches: int) -> None:
    """A step for each minibatch of value targets, though every text is cut."""
    team = separate_team(1)
    cut = group_of(team, *TWO_TURNS)
    episodes = [
        replace(
            e,
            turns=tuple(
                replace(t, actions={a: replace(c, truncated=True) for a, c in t.actions.items()}) for t in e.turns
            ),
        )
        for e in cut.episodes
    ]
    algorithm = learner(IAC, team, minibatches=minibatches, truncated="mask")
    taken: dict[int, list[float]] = {}
    for place, updater in enumerate(algorithm.updaters):
        compute = updater.gradient
        updater.gradient = lambda texts, targets, size, compute=compute, place=place: (
            taken.setdefault(place, []).extend(s.target for s in targets) or compute(texts, targets, size)
        )
    before = weights(team)
    algorithm.update([replace(cut, episodes=tuple(episodes))])
    assert same(weights(team), before)
    assert [len(targets) for targets in taken.values()] == [6, 6]  # 3 episodes of 2 turns


def test_kl_is_reported_where_a_minibatch_has_value_targets_only() -> None:
    """The texts of the second turn are masked, so that the second minibatch has none."""
    team = separate_team(1)
    group = group_of(team, *TWO_TURNS)
    episodes: list[Any] = []
    for e in group.episodes:
        *first, last = e.turns
        cut = {agent: replace(text, truncated=True) for agent, text in last.actions.items()}
        episodes.append(replace(e, turns=(*first, replace(last, actions=cut))))
    algorithm = learner(IAC, team, minibatches=2, truncated="mask", beta=0.1)
    assert algorithm.update([replace(group, episodes=tuple(episodes))])["kl"] == pytest.approx(0.0, abs=1e-6)


def test_explained_variance_is_of_each_critic_and_0_where_targets_are_equal() -> None:
    team = separate_team(1)
    algorithm = learner(IAC, team, gae_lambda=1.0, learning_rate=0.0)
    assert algorithm.update([group_of(team, (0.3,), (0.3,))])["explained_variance"] == 0.0
    estimates = iter([1.0, 2.0, 4.0, 0.0, 0.0, 0.0])
    for updater in algorithm.updaters:
        updater.values = lambda readings: [next(estimates) for _ in readings]
    targets, values = np.array([1.0, 3.0, 5.0]), np.array([1.0, 2.0, 4.0])
    expected = (1 - (targets - values).var() / targets.var() + 0.0) / 2  # the other one said nothing
    found = algorithm.update([group_of(team, *((target,) for target in targets))])["explained_variance"]
    assert found == pytest.approx(expected)


def test_texts_after_the_same_history_are_compared_by_a_critic_of_texts() -> None:
    """The return less Q is 0 once Q is right; what Q says of a text, less what it says of its neighbours, is not."""
    team = separate_team(1)
    algorithm = learner(IAC, team, estimates="q", normalise=False)
    group = group_of(team, (1.0,), (2.0,), (6.0,))
    texts = [turn.actions[a] for a in AGENTS for e in group.episodes for turn in e.turns]
    read = [(a, c.prompt_ids + c.token_ids) for a, c in zip(np.repeat(AGENTS, 3).tolist(), texts, strict=True)]
    exact = dict(zip(read, (1.0, 2.0, 6.0) * 2, strict=True))
    for updater in algorithm.updaters:
        updater.values = lambda readings: [exact[reading] for reading in readings]
    sequences = algorithm.sequences(group, 0)
    algorithm._value(sequences)
    algorithm._credit(sequences)
    assert [float(t.advantages[0]) for t in sequences[::2]] == [1.0 - 4.0, 2.0 - 3.5, 6.0 - 1.5]
    assert [float(t.targets[0]) for t in sequences[::2]] == [1.0, 2.0, 6.0]
