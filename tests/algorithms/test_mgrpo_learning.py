"""M-GRPO's updates: the exact gradient by enumeration, plain environments, restarts, and agents that misbehave."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from models import Softmax, gradients, language_model, match, same, sampled, softmax_team, weights
from updates import SAMPLING

from llm_dec_pomdp.agents import Policy, Request, Sampling, Scripted, Team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.algorithms.mgrpo import MGRPO
from llm_dec_pomdp.algorithms.options import MGRPOConfig, UpdaterOptions
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.algorithms.updater import updaters_of
from llm_dec_pomdp.envs.hierarchy.keys.task import Keys
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.training import TrainerConfig, restore, train
from llm_dec_pomdp.training.checkpoint import Checkpoints
from llm_dec_pomdp.types import Completion, Episode, Group, TaskItem

MAIN_WORDS, SUB_WORDS = ("r0", "r1", "ANS"), ("k0", "k1")
ITEM = TaskItem("w", "Q e0 r0 r0", "train", fields={"facts": "0 1\n1 1"})  # r0 keeps an entity: one look-up answers
ONE_WORD = Sampling(max_new_tokens=1)


def keys(delegations: int = 1) -> Keys:
    return Keys([ITEM], relations=2, entities=2, delegations=delegations)


def tables(delegations: int = 1, main: Sequence[float] = (0.3, -0.4, 0.1), sub: Sequence[float] = (0.5, -0.2)) -> Team:
    policy = Softmax(SUB_WORDS, logits=sub)
    names = [f"agent_{number}" for number in range(1, delegations + 1)]
    return Team({"agent_0": Softmax(MAIN_WORDS, logits=main), **dict.fromkeys(names, policy)})


def learner(team: Team, **options: Any) -> MGRPO:
    return MGRPO(team, ONE_WORD, MGRPO.Config(**{"max_grad_norm": 1e9, "learning_rate": 0.0, **options}))


# --- the exact gradient -----------------------------------------------------------------------------------------------

OUTCOMES = [("ANS",), *itertools.product(MAIN_WORDS[:2], SUB_WORDS, MAIN_WORDS)]  # all rollouts with one delegation


class Dictated(Policy):
    """Says given words as tokens of the tables."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        return [[self._say(self.words.pop(0))] for _ in requests]

    def _say(self, word: str) -> Completion:
        vocabulary = MAIN_WORDS if word in MAIN_WORDS else SUB_WORDS
        return Completion(word, (0,), (vocabulary.index(word),), (0.0,))


def dictated(words: Sequence[str]) -> Episode:
    [group] = Trajectories().play(keys(), Dictated(words), ["w"], [0], ONE_WORD)
    return group.episodes[0]


def probability(words: Sequence[str], main: torch.Tensor, sub: torch.Tensor) -> torch.Tensor:
    """Of a rollout, differentiable in the logits."""
    p, q = main.softmax(-1), sub.softmax(-1)
    factors = [p[MAIN_WORDS.index(w)] if w in MAIN_WORDS else q[SUB_WORDS.index(w)] for w in words]
    return torch.stack(factors).prod()


@pytest.mark.every(2)
@pytest.mark.parametrize("alignment", ["none", "weight", "duplicate_drop"])
def test_the_mean_gradient_over_all_pairs_of_rollouts_is_the_exact_one(alignment: str) -> None:
    """K = 2, no std: (1 - 1/K) d E[R_M] for main, and for the sub-agent P(both call)(1 - 1/K) d E[R_S | called]."""
    team = tables()
    algorithm = learner(team, advantage="mean", ratio="trajectory", alignment=alignment, d=1)
    episodes = {words: dictated(words) for words in OUTCOMES}
    start = [p.state_dict()["logits"].clone() for p in team.trainable]
    found = [torch.zeros(3), torch.zeros(2)]
    for pair in itertools.product(OUTCOMES, repeat=2):
        for policy in team.trainable:
            for parameter in policy.parameters():
                parameter.grad = None
        algorithm.update([Group("w", tuple(episodes[words] for words in pair))])
        chance = probability(pair[0], *start) * probability(pair[1], *start)
        for total, policy in zip(found, team.trainable, strict=True):
            [logits] = policy.parameters()
            total += chance * (torch.zeros_like(total) if logits.grad is None else -logits.grad)
    main, sub = (logits.clone().requires_grad_() for logits in start)
    called = [words for words in OUTCOMES if len(words) > 1]
    value = sum(probability(w, main, sub) * episodes[w].turns[-1].rewards["agent_0"] for w in OUTCOMES)
    paid = sum(probability(w, main, sub) * episodes[w].turns[-1].rewards["agent_1"] for w in called)
    chance = sum(probability(w, *start) for w in called)
    assert isinstance(value, torch.Tensor)
    assert isinstance(paid, torch.Tensor)
    torch.testing.assert_close(found[0], 0.5 * torch.autograd.grad(value, main)[0])
    torch.testing.assert_close(found[1], chance**2 * 0.5 * torch.autograd.grad(paid, sub)[0] / chance)
    assert float(found[0].abs().max()) > 0.01
    assert float(found[1].abs().max()) > 0.01


def test_the_ratio_of_a_whole_trajectory_in_the_second_pass_is_the_printed_one() -> None:
    """Two trajectories of two texts each, of which one is clipped by what its other text did."""
    texts = [(sampled(0), sampled(0, 1)), (sampled(2), sampled(1, 2))]
    rows = list(zip(texts, (1.0, -2.0), (1.0, 3.0), strict=True))
    samples = [Sample("a", c, a, w, trajectory=k) for k, (completions, a, w) in enumerate(rows) for c in completions]

    def run(epochs: int, start: Sequence[float]) -> Softmax:
        policy = Softmax(("a", "b", "c"), logits=start)
        options = MGRPOConfig(
            ratio="trajectory", epochs=epochs, learning_rate=0.15, max_grad_norm=1e9, clip_low=0.1, clip_high=0.1
        )
        [updater] = updaters_of(Team({"a": policy}), 1.0, options)
        updater.step(samples)
        return policy

    start = (0.3, -1.0, 0.8)
    once = run(1, start)
    old = torch.tensor(start).log_softmax(-1)
    logits = once.logits.detach().clone().requires_grad_()
    objective = torch.tensor(0.0)
    clipped: list[bool] = []
    for completions, advantage, weight in rows:
        ids = [i for c in completions for i in c.token_ids]
        rho = (logits.log_softmax(-1)[ids] - old[ids]).sum().exp()
        clipped.append(not 0.9 < float(rho.detach()) < 1.1)
        objective = objective + weight / 4 * torch.minimum(rho * advantage, rho.clamp(0.9, 1.1) * advantage)
    (-objective).backward()
    [found] = run(2, start).parameters()
    assert found.grad is not None
    torch.testing.assert_close(found.grad, logits.grad)
    assert any(clipped)


def test_with_one_text_each_a_trajectory_s_ratio_is_that_of_the_text() -> None:
    samples = [Sample("a", sampled(k, 1), a, trajectory=k) for k, a in enumerate((1.0, -0.5, 0.2))]
    found: list[torch.Tensor] = []
    given = {"epochs": 3, "learning_rate": 0.1}
    for options in (UpdaterOptions(ratio="sequence", **given), MGRPOConfig(ratio="trajectory", **given)):
        policy = Softmax(("a", "b", "c"))
        [updater] = updaters_of(Team({"a": policy}), 1.0, options)
        updater.step(samples)
        found.append(policy.logits.detach())
    assert torch.equal(*found)


# --- plain environments -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("advantage", ["std", "mean"])
def test_without_invocations_it_is_magrpo(advantage: str) -> None:
    found: list[list[Mapping[str, torch.Tensor]]] = []
    losses: list[list[float]] = []
    for kind in (MAGRPO, MGRPO):
        team = softmax_team()
        options = kind.Config(learning_rate=0.1, advantage=advantage, epochs=2)  # type: ignore[arg-type]
        steps: list[Any] = []
        algorithm = kind(team, SAMPLING, options)  # type: ignore[arg-type]
        train(algorithm, match(), SAMPLING, TrainerConfig(steps=5, prompts_per_step=3, group_size=4), 7, steps.append)
        found.append(weights(team))
        losses.append([step.metrics["loss"] for step in steps])
    assert any(losses[0])
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)
    for first, second in zip(*found, strict=True):
        torch.testing.assert_close(first["logits"], second["logits"])


# --- runs -------------------------------------------------------------------------------------------------------------


def run(algorithm: MGRPO, env: Any, steps: int, folder: Path, seed: int = 3) -> list[Any]:
    """Train, or go on from the newest checkpoint."""
    places = Checkpoints(folder, {"learner": "mgrpo"})
    done = restore(algorithm, env, places)
    config = TrainerConfig(steps=steps, prompts_per_step=2, group_size=4, save_every=1)
    seen: list[Any] = []
    train(algorithm, env, ONE_WORD, config, seed, seen.append, checkpoints=places, done=done)
    return seen


def test_a_run_goes_on_bit_for_bit_in_the_middle_of_uneven_groups(tmp_path: Path) -> None:
    env = Keys(relations=2, entities=4, delegations=3)

    def fresh() -> MGRPO:
        return learner(tables(3), learning_rate=0.05)

    whole, first, second = fresh(), fresh(), fresh()
    seen = run(whole, env, 6, tmp_path / "whole")
    assert {step.metrics["d_mean"] % 1 for step in seen} != {0.0}
    run(first, env, 3, tmp_path / "parts")
    again = run(second, env, 6, tmp_path / "parts")
    assert [step.texts for step in again] == [step.texts for step in seen[3:]]
    assert same(weights(whole.team), weights(second.team))
    assert whole.running.seen == second.running.seen
    assert sum(whole.running.seen["sub"]) == 6 * 2 * 4


@pytest.mark.parametrize(
    ("main", "invocations"),
    [((-30.0, -30.0, 30.0), 0.0), ((30.0, -30.0, -30.0), 16.0)],
    ids=["never delegates", "delegates until the end, and beyond D"],
)
def test_a_main_agent_that_always_does_the_same(main: Sequence[float], invocations: float) -> None:
    team = tables(2, main=main)
    algorithm = learner(team, learning_rate=0.1)
    groups = Trajectories().play(keys(2), team, ["w", "w"], [0, 1], ONE_WORD, 4)
    before = weights(team)
    metrics = algorithm.update(groups)
    assert metrics["invocations"] == invocations
    assert torch.equal(before[0]["logits"], weights(team)[0]["logits"])  # nothing to tell apart
    assert torch.equal(before[1]["logits"], weights(team)[1]["logits"]) == (invocations == 0)
    assert {e.total for g in groups for e in g.episodes} == ({0.1} if invocations == 0 else {0.0})


@pytest.mark.parametrize("text", ["", "k0 " * 300_000, "k9", "\ud800"], ids=["nothing", "a flood", "no key", "no text"])
def test_a_sub_agent_that_is_of_no_use_lets_main_learn(text: str) -> None:
    scripted = Scripted(lambda agent, history: text)
    team = Team({"agent_0": Softmax(MAIN_WORDS), "agent_1": scripted, "agent_2": scripted})
    groups = Trajectories().play(keys(2), team, ["w"], [5], ONE_WORD, 8)
    assert all(
        message in {"Q e0 r0 r0", "R none"}
        for e in groups[0].episodes
        for t in e.turns
        for a, message in t.observations.items()
        if a == "agent_0"
    )
    metrics = learner(team, learning_rate=0.1).update(groups)
    assert metrics["invocations"] > 0
    assert metrics["sub_reward_mean"] == 0.0
    assert gradients(team)[0].abs().max() > 0


def test_tokens_of_reports_and_tools_are_in_no_loss() -> None:
    """A language model over several turns: what counts is what it said, and not what it was told in between."""
    model = language_model(3)
    team = Team(dict.fromkeys(["agent_0", "agent_1", "agent_2"], model))
    groups = Trajectories().play(keys(2), team, ["w"], [0], Sampling(max_new_tokens=3), 6)
    sampled_tokens = sum(len(c.token_ids) for e in groups[0].episodes for t in e.turns for c in t.actions.values())
    metrics = MGRPO(team, Sampling(max_new_tokens=3), MGRPO.Config(alignment="none")).update(groups)
    assert metrics["tokens"] == sampled_tokens


def test_an_entropy_of_main_and_of_its_sub_agents_is_reported_apart() -> None:
    team = tables(2, main=(0.0, 0.0, 0.0), sub=(20.0, 0.0))
    groups = Trajectories().play(keys(2), team, ["w"], [0], ONE_WORD, 32)
    metrics = learner(team).update(groups)
    assert metrics["surprisal_main"] == pytest.approx(1.0986, abs=1e-3)
    assert metrics["surprisal_sub"] == pytest.approx(0.0, abs=1e-3)


def test_the_ratio_of_trajectories_has_no_mean_over_tokens() -> None:
    with pytest.raises(ValueError, match="ratio='trajectory'"):
        MGRPO.Config(ratio="trajectory", average="sequences")
