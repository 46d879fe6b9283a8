"""IAC and MAAC: values and advantages by enumeration, gradients against exact ones, and what the critic may read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from models import softmax_team

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.table import Table, number_of
from llm_dec_pomdp.algorithms.actor_critic import IAC, MAAC, ActorCritic
from llm_dec_pomdp.algorithms.critics import CriticUpdater, ValueTarget
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.config import ConfigError, build
from llm_dec_pomdp.types import Completion, Episode, Group, Message, Turn, conversation

AGENTS = ("agent_0", "agent_1")
MENU = ("a", "b")
ONE_WORD = Sampling(max_new_tokens=1)
KINDS = [IAC, MAAC]

# --- a game of two turns ----------------------------------------------------------------------------------------------
# Both are told "go" and then whether they said the same; the first turn pays FIRST, the second SECOND[same].

FIRST = np.array([[0.5, -1.0], [0.25, 2.0]])
SECOND = {"same": np.array([[1.0, 0.0], [-2.0, 3.0]]), "other": np.array([[0.0, 4.0], [1.0, -1.0]])}
SHARES = {"go": (0.75, 0.25), "same": (0.25, 0.75), "other": (0.25, 0.75)}  # of agent_0; agent_1 has them reversed
LOGITS = {seen: tuple(math.log(share) for share in shares) for seen, shares in SHARES.items()}


def history(answers: Sequence[str], seen: Sequence[str]) -> tuple[Message, ...]:
    texts = [text for pair in itertools.zip_longest(seen, answers) for text in pair if text is not None]
    return conversation(*texts)


def tables() -> Team:
    """Two tables with LOGITS after every history of the game."""
    team = Team({agent: Table(MENU, rows=64) for agent in AGENTS})
    for number, agent in enumerate(AGENTS):
        table: Any = team.members[agent]
        rows = {number_of(history((), ("go",))): LOGITS["go"]}
        rows |= {number_of(history((s,), ("go", seen))): LOGITS[seen] for s in MENU for seen in SECOND}
        logits = torch.tensor([row[::-1] if number else row for row in rows.values()])
        table.load_state_dict({"logits": logits, "histories": torch.tensor(list(rows))})
    return team


def probabilities(seen: str, number: int) -> np.ndarray:
    return np.array(SHARES[seen][::-1] if number else SHARES[seen])


def completion(team: Team, agent: str, answers: Sequence[str], seen: Sequence[str], action: int) -> Completion:
    number = number_of(history(answers, seen))
    table: Any = team.members[agent]
    given = Completion(MENU[action], (number,), (action,), (0.0,))
    with torch.no_grad():
        logprobs, _ = table.token_logprobs([(agent, given)], 1.0)
    return Completion(MENU[action], (number,), (action,), (float(logprobs),))


def every_episode(team: Team) -> list[tuple[float, Episode]]:
    """All 16 episodes of the game with their probabilities."""
    found: list[tuple[float, Episode]] = []
    for a, b, c, d in itertools.product(range(2), repeat=4):
        seen = "same" if a == b else "other"
        turns = [
            Turn(dict.fromkeys(AGENTS, "go"), _texts(team, (), ("go",), (a, b)), float(FIRST[a, b])),
            Turn(
                dict.fromkeys(AGENTS, seen),
                _texts(team, ((MENU[a],), (MENU[b],)), ("go", seen), (c, d)),
                float(SECOND[seen][c, d]),
            ),
        ]
        weight = probabilities("go", 0)[a] * probabilities("go", 1)[b]
        weight *= probabilities(seen, 0)[c] * probabilities(seen, 1)[d]
        found.append((weight, Episode("t", 0, tuple(turns), True)))
    return found


def _texts(team: Team, answers: Any, seen: Sequence[str], actions: tuple[int, int]) -> dict[str, Completion]:
    return {
        agent: completion(team, agent, answers[i] if answers else (), seen, actions[i])
        for i, agent in enumerate(AGENTS)
    }


def second_value(seen: str) -> float:
    return float(probabilities(seen, 0) @ SECOND[seen] @ probabilities(seen, 1))


def make(kind: type[ActorCritic], team: Team, **options: Any) -> Any:
    given: dict[str, Any] = {"max_grad_norm": 1e9, "normalise": False, "critic_epochs": 1, "learning_rate": 0.0}
    return kind(team, ONE_WORD, kind.Config(**given | options))


ROLES = dict(zip(AGENTS, ("first", "second"), strict=True))


def exact(team: Team, gamma: float) -> tuple[dict[int, float], dict[tuple[int, int, int], float]]:
    """V of the joint histories: at the start, and by (a, b) at the second turn; as enumerated."""
    later = {(a, b): second_value("same" if a == b else "other") for a in range(2) for b in range(2)}
    p, q = probabilities("go", 0), probabilities("go", 1)
    start = sum(p[a] * q[b] * (FIRST[a, b] + gamma * later[a, b]) for a in range(2) for b in range(2))
    return {0: float(start)}, {(a, b, 0): value for (a, b), value in later.items()}


# --- values -----------------------------------------------------------------------------------------------------------


def taught(kind: type[ActorCritic], **options: Any) -> list[Any]:
    """The decisions of the game, as the critic values them after 120 steps on every episode as often as it is drawn."""
    team = tables()
    algorithm = make(kind, team, gamma=0.9, critic_learning_rate=0.2, schedule="linear", horizon=120, **options)
    copies = [(round(256 * weight), episode) for weight, episode in every_episode(team)]
    assert sum(count for count, _ in copies) == 256
    episodes = [replace(episode) for count, episode in copies for _ in range(count)]
    sequences = algorithm.sequences(Group("t", tuple(episodes), roles=ROLES), 0)
    for _ in range(120):
        algorithm._value(sequences)
        algorithm._credit(sequences)
        for updater in algorithm.critics:
            updater.step(algorithm.value_targets(sequences))
    algorithm._value(sequences)
    return sequences


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "gae_lambda"), [(MAAC, 0.0), (MAAC, 1.0), (IAC, 1.0)])
def test_critics_converge_to_the_enumerated_values(kind: type[ActorCritic], gae_lambda: float) -> None:
    """What an agent said and heard tells what the other one said here, so that both kinds have the same values."""
    start, _ = exact(tables(), 0.9)
    for sequence in taught(kind, gae_lambda=gae_lambda):
        a, b = (MENU.index(sequence.episode.turns[0].actions[agent].text) for agent in AGENTS)
        later = second_value("same" if a == b else "other")
        assert sequence.values.tolist() == pytest.approx([start[0], later], abs=0.01)


@pytest.mark.slow
def test_a_critic_of_texts_converges_to_what_they_are_worth() -> None:
    for sequence in taught(MAAC, estimates="q", gae_lambda=0.0):
        (a, b), (c, d) = ([MENU.index(texts[agent].text) for agent in AGENTS] for texts in sequence.texts)
        seen = "same" if a == b else "other"
        worth = [FIRST[a, b] + 0.9 * second_value(seen), SECOND[seen][c, d]]
        assert sequence.values.tolist() == pytest.approx(worth, abs=0.03)


def valued(algorithm: Any, group: Group) -> list[Any]:
    sequences = algorithm.sequences(group, 0)
    algorithm._value(sequences)
    algorithm._credit(sequences)
    return sequences


# --- gradients --------------------------------------------------------------------------------------------------------


def exact_gradient(team: Team, gamma: float) -> list[torch.Tensor]:
    """Of the expected return, by autograd through all episodes."""
    policies: list[Any] = list(team.members.values())
    total = torch.zeros(())
    for _, episode in every_episode(team):
        logprob = sum(
            policy.token_logprobs([(agent, turn.actions[agent])], 1.0)[0].sum()
            for turn in episode.turns
            for agent, policy in zip(AGENTS, policies, strict=True)
        )
        earned = episode.turns[0].reward + gamma * episode.turns[1].reward
        total = total + logprob.exp() * earned
    return list(torch.autograd.grad(total, [policy.table for policy in policies]))


def mean_gradient(algorithm: Any, team: Team, critic: Mapping[str, Any]) -> list[torch.Tensor]:
    """The expectation of sum_k gamma^k A_k grad log pi(a_k), with values that `critic` gives."""
    policies: list[Any] = list(team.members.values())
    total = torch.zeros(())
    gamma = algorithm.config.gamma
    for weight, episode in every_episode(team):
        group = Group("t", (episode,), roles=ROLES)
        sequences = algorithm.sequences(group, 0)
        for sequence in sequences:
            sequence.readings = [("agent_0", (k,)) for k in range(2)]
            sequence.values = np.array([critic["value"](sequence, k) for k in range(2)])
        algorithm._credit(sequences)
        for sequence in sequences:
            for k, texts in enumerate(sequence.texts):
                for agent, text in texts.items():
                    policy = policies[AGENTS.index(agent)]
                    logprob = policy.token_logprobs([(agent, text)], 1.0)[0].sum()
                    total = total + weight * gamma**k * float(sequence.advantages[k]) * logprob
    return list(torch.autograd.grad(total, [policy.table for policy in policies]))


def exact_value(gamma: float) -> dict[str, Any]:
    def value(sequence: Any, k: int) -> float:
        start, later = exact(tables(), gamma)
        a, b = (MENU.index(sequence.episode.turns[0].actions[agent].text) for agent in AGENTS)
        return start[0] if k == 0 else later[a, b, 0]

    return {"value": value}


def any_value() -> dict[str, Any]:
    """Of the history alone, and as wrong as can be."""

    def value(sequence: Any, k: int) -> float:
        return 3.7 if k == 0 else {"same": -2.0, "other": 5.0}[sequence.episode.turns[1].observations["agent_0"]]

    return {"value": value}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("gae_lambda", "critic"),
    [(0.0, exact_value(0.8)), (0.5, exact_value(0.8)), (1.0, exact_value(0.8)), (1.0, any_value())],
    ids=["exact, lambda 0", "exact, lambda 0.5", "exact, lambda 1", "any critic, lambda 1"],
)
def test_the_mean_gradient_is_that_of_the_expected_return(
    kind: type[ActorCritic], gae_lambda: float, critic: dict[str, Any]
) -> None:
    team = tables()
    algorithm = make(kind, team, gamma=0.8, gae_lambda=gae_lambda)
    for mine, true in zip(mean_gradient(algorithm, team, critic), exact_gradient(team, 0.8), strict=True):
        torch.testing.assert_close(mine, true, rtol=1e-5, atol=1e-6)


def test_an_exact_critic_of_texts_has_the_gradient_of_the_expected_return() -> None:
    """Where the return less Q would be 0 on average, and teach nothing."""
    team = tables()
    algorithm = make(MAAC, team, gamma=0.8, estimates="q", gae_lambda=1.0)

    def value(sequence: Any, k: int) -> float:
        (a, b), (c, d) = ([MENU.index(texts[agent].text) for agent in AGENTS] for texts in sequence.texts)
        seen = "same" if a == b else "other"
        return FIRST[a, b] + 0.8 * second_value(seen) if k == 0 else SECOND[seen][c, d]

    true = exact_gradient(team, 0.8)
    for mine, expected in zip(mean_gradient(algorithm, team, {"value": value}), true, strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-5, atol=1e-6)
    assert min(float(gradient.abs().max()) for gradient in true) > 0.05


# --- what is credited and learnt --------------------------------------------------------------------------------------


def by_hand(**options: Any) -> tuple[Any, list[Any]]:
    """A learner whose critic says 1 and 2; rewards 3 and 5."""
    team = tables()
    algorithm = make(IAC, team, gamma=0.5, gae_lambda=0.25, **options)
    _, episode = every_episode(team)[0]
    rewards = (3.0, 5.0)
    turns = tuple(Turn(t.observations, t.actions, r) for t, r in zip(episode.turns, rewards, strict=True))
    group = Group("t", (Episode("t", 0, turns, True),))
    turn_of = {turns[k].actions["agent_0"].prompt_ids[0]: k for k in range(2)}
    for updater in algorithm.updaters:
        updater.values = lambda readings: [(1.0, 2.0)[turn_of[ids[0]]] for _, ids in readings]
    return algorithm, valued(algorithm, group)


def test_advantages_and_targets_by_hand() -> None:
    _, sequences = by_hand()
    second = 5.0 - 2.0
    first = 3.0 + 0.5 * 2.0 - 1.0 + 0.25 * 0.5 * second
    for sequence in sequences:
        assert sequence.advantages.tolist() == [first, second]
        assert sequence.targets.tolist() == [first + 1.0, second + 2.0]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_follows_the_last_turn_whatever_the_critic_would_say_of_it(kind: type[ActorCritic]) -> None:
    """Dec-Tiger tells what was heard after the last turn too."""
    env = llm_dec_pomdp.make("dectiger-v0", max_turns=1)
    algorithm = make(kind, Team({agent: Table(env.choices(agent), rows=8) for agent in AGENTS}))
    groups = algorithm.rollout.play(env, algorithm.policy, [env.items[0].id] * 3, range(3), ONE_WORD, 1)
    for updater in algorithm.critics:
        updater.values = lambda readings: [70.0] * len(readings)
    for group in groups:
        for sequence in valued(algorithm, group):
            assert sequence.targets.tolist() == [group.episodes[0].total]


@pytest.mark.parametrize(
    "options", [{"estimates": "s"}, {"body": "none"}, {"gae_lambda": 1.1}, {"ratio": "trajectory"}, {"value_clip": -1}]
)
@pytest.mark.parametrize("kind", KINDS)
def test_options_that_do_not_exist_are_refused(kind: type[ActorCritic], options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        build(kind.Config, options, source="options")


def test_a_policy_without_a_critic_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="Softmax has no critic"):
        IAC(softmax_team(), ONE_WORD)


def test_value_targets_train_only_the_critic() -> None:
    team = tables()
    algorithm = make(IAC, team, critic_learning_rate=0.1)
    updater: CriticUpdater = algorithm.updaters[0]
    reading = ("agent_0", (5,))
    target = ValueTarget("agent_0", Completion("", (5,)), 0.0, target=1.0)
    text = completion(team, "agent_0", (), ("go",), 0)
    metrics = updater.step([Sample("agent_0", text, 0.0), target])
    assert metrics["value_loss"] == 1.0
    assert updater.values([reading]) == pytest.approx([0.1])
