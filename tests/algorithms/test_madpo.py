"""MADPO: pairs of joint texts, by hand, against autograd, and on a task that it learns."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from models import (
    AGENTS,
    ITEMS,
    Softmax,
    copy_of,
    episode,
    gradients,
    match,
    same,
    sampled,
    separate_team,
    softmax_team,
    weights,
)
from updates import agreement

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.madpo import MADPO, MADPOConfig
from llm_dec_pomdp.config import ConfigError, build
from llm_dec_pomdp.types import Completion, Group

SAMPLING = Sampling(max_new_tokens=2)
START: dict[str, Any] = {"words": ["a", "b", "c"], "logits": [0.3, -0.2, 0.5]}


def pair_group(chosen: Sequence[Sequence[int]], rejected: Sequence[Sequence[int]], gap: float = 1.0) -> Group:
    """A group of two episodes; in each every agent says the given ids."""
    played = [
        episode([reward], [{agent: sampled(*ids) for agent, ids in zip(AGENTS, texts, strict=True)}])
        for reward, texts in ((0.0, rejected), (gap, chosen))
    ]
    return Group("t", tuple(played))


def learner(team: Team, sampling: Sampling = SAMPLING, **options: Any) -> MADPO:
    given: dict[str, Any] = {"max_grad_norm": 1e9, "learning_rate": 0.1, **options}
    return MADPO(team, sampling, MADPOConfig(**given))


def move(team: Team, *shifts: Sequence[float]) -> None:
    """Away from the reference."""
    with torch.no_grad():
        for policy, shift in zip(team.policies, shifts, strict=True):
            assert isinstance(policy, Softmax)
            policy.logits.add_(torch.tensor(shift))


def log_ratio(policy: Any, start: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
    return (policy.logits.log_softmax(-1) - start.log_softmax(-1))[list(ids)].sum()


@pytest.mark.parametrize(
    ("options", "loss"),
    [
        ({}, lambda gap: -torch.nn.functional.logsigmoid(0.7 * gap)),
        ({"loss": "ipo"}, lambda gap: (gap - 1 / 1.4) ** 2),
        ({"likelihood": 0.3}, lambda gap: -torch.nn.functional.logsigmoid(0.7 * gap)),
    ],
    ids=["dpo", "ipo", "likelihood"],
)
def test_the_gradient_of_each_agent_is_that_of_the_loss_with_the_others_held(
    options: dict[str, Any], loss: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    """Of texts of one token too, of texts that differ in the last one, and of an agent that says the same in both."""
    team = softmax_team(**START)
    start = torch.tensor(START["logits"])
    algorithm = learner(team, beta=0.7, pairs="all", **options)
    move(team, [0.4, 0.0, -0.3], [-0.2, 0.6, 0.0])
    given = [(((0, 1), (2,)), ((2,), (1, 1))), (((1,), (0, 2)), ((0, 0), (0, 1))), (((0,), (2,)), ((1,), (2,)))]
    twin = softmax_team(**START)
    move(twin, [0.4, 0.0, -0.3], [-0.2, 0.6, 0.0])
    losses: list[torch.Tensor] = []
    kept: list[torch.Tensor] = []
    for chosen, rejected in given:
        deltas = [
            log_ratio(policy, start, better) - log_ratio(policy, start, worse)
            for policy, better, worse in zip(twin.policies, chosen, rejected, strict=True)
        ]
        losses.append(loss(torch.stack(deltas).sum()))
        kept += [
            -options.get("likelihood", 0.0) * policy.logits.log_softmax(-1)[list(better)].mean()
            for policy, better in zip(twin.policies, chosen, strict=True)
        ]
    expected = torch.stack(losses).mean()
    whole = expected + torch.stack(kept).sum() / len(given)
    whole.backward()  # the product policy's: each agent's part of it holds the others as they are
    metrics = algorithm.update([pair_group(chosen, rejected) for chosen, rejected in given])
    assert metrics["preference_loss"] == pytest.approx(expected.item(), abs=1e-6)
    for gradient, exact in zip(gradients(team), gradients(twin), strict=True):
        torch.testing.assert_close(gradient, exact)


def test_with_one_agent_it_is_dpo() -> None:
    policy = Softmax(**START)
    algorithm = learner(Team({"agent_0": policy}), beta=0.3)
    move(algorithm.team, [0.1, -0.5, 0.2])
    now, start = policy.logits.detach().log_softmax(-1), torch.tensor(START["logits"]).log_softmax(-1)
    played = [episode([reward], [{"agent_0": sampled(*ids)}]) for reward, ids in ((0.0, (1,)), (2.0, (0, 2)))]
    metrics = algorithm.update([Group("t", tuple(played))])
    # as libraries compute it: chosen and rejected log-ratios of policy and of reference
    logits = (now[[0, 2]].sum() - now[1]) - (start[[0, 2]].sum() - start[1])
    assert metrics["preference_loss"] == pytest.approx(-math.log(1 / (1 + math.exp(-0.3 * logits.item()))), abs=1e-6)
    assert metrics["gap"] == pytest.approx(logits.item(), abs=1e-6)


@pytest.mark.parametrize(
    ("pairs", "margin", "expected"),
    [
        ("extremes", 0.0, [(3.0, 0.0)]),
        ("all", 0.0, [(1.0, 0.0), (3.0, 0.0), (3.0, 1.0), (3.0, 1.0), (1.0, 0.0)]),
        ("all", 1.5, [(3.0, 0.0), (3.0, 1.0), (3.0, 1.0)]),
        ("extremes", 3.0, []),
        ("random", 2.5, [(3.0, 0.0)]),
    ],
)
def test_which_episodes_make_pairs(pairs: str, margin: float, expected: list[tuple[float, float]]) -> None:
    rewards = (1.0, 0.0, 3.0, 1.0, math.nan)
    played = [episode([r], [{agent: sampled(k) for agent in AGENTS}]) for k, r in enumerate(rewards)]
    algorithm = learner(softmax_team(words=[*"abcde"]), pairs=pairs, margin=margin)
    found = algorithm.pairs([Group("t", tuple(played))])
    values = [tuple(rewards[t.completion.token_ids[0]] for t in pair if t.agent == "agent_0") for pair in found]
    assert sorted(values) == sorted(expected)


@pytest.mark.parametrize("pairs", ["extremes", "all", "random"])
def test_returns_that_differ_by_rounding_are_ties(pairs: str) -> None:
    def pairs_of(*rewards: Sequence[float]) -> list[tuple[int, ...]]:
        played = [episode(r, [{agent: sampled(k) for agent in AGENTS}] * len(r)) for k, r in enumerate(rewards)]
        algorithm = learner(softmax_team(words=[*"abcde"]), pairs=pairs)
        found = algorithm.pairs([Group("t", tuple(played))])
        return [tuple(dict.fromkeys(t.completion.token_ids[0] for t in pair)) for pair in found]

    third = (0.1, 0.2)  # 0.30000000000000004 in all
    assert pairs_of((0.3, 0.0), third) == []
    assert pairs_of((1e6 + 0.3, 0.0), (1e6, 0.3)) == []
    if pairs == "extremes":  # of equal ones the first
        assert pairs_of((0.3, 0.0), third, (0.0, 0.0)) == [(0, 2)]


def test_a_cut_text_drops_its_pair_where_cut_texts_are_masked() -> None:
    cut = Completion("x", (0,), (1,), (0.0,), truncated=True)
    whole = pair_group(((0,), (1,)), ((1,), (2,)))
    played = [
        episode([1.0], [{"agent_0": cut, "agent_1": sampled(0)}]),
        episode([0.0], [dict.fromkeys(AGENTS, sampled(2))]),
    ]
    given = [whole, Group("t", tuple(played))]
    team, twin = softmax_team(**START), softmax_team(**START)
    masked = learner(team, truncated="mask").update(given)
    alone = learner(twin).update([whole])
    assert masked["pairs"] == alone["pairs"] == 1
    assert same(weights(team), weights(twin))
    assert learner(softmax_team(**START)).update(given)["pairs"] == 2


def test_padding_and_what_shares_a_forward_pass_change_nothing() -> None:
    team, sampling = separate_team(double=True), Sampling(max_new_tokens=6)
    groups = learner(team).rollout.play(match(), team, ["t0", "t1", "t2"], [0, 1, 2], sampling, 4)
    scored = [  # returns of our own, so that there are pairs
        Group(g.item_id, tuple(episode([float(k // 2)], [e.turns[0].actions]) for k, e in enumerate(g.episodes)))
        for g in groups
    ]
    lengths = {len(c.token_ids) for g in scored for e in g.episodes for c in e.turns[0].actions.values()}
    assert len(lengths) > 2
    found: list[list[torch.Tensor]] = []
    for size in (1, 5, 64):
        mine = copy_of(team)
        learner(mine, sampling, micro_batch=size, learning_rate=0.0, pairs="all").update(scored)
        found.append(gradients(mine))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


def test_log_ratios_are_at_the_temperature_of_the_sampling() -> None:
    team = softmax_team(**START)
    algorithm = learner(team, Sampling(temperature=0.5, max_new_tokens=6))
    move(team, [0.4, 0.0, 0.0], [0.4, 0.0, 0.0])
    gap = algorithm.update([pair_group(((0,), (0,)), ((1,), (1,)))])["gap"]
    assert gap == pytest.approx(2 * 0.4 / 0.5, abs=1e-6)  # of two agents, at temperature 0.5; the normaliser cancels


def alone(number: int, reward: float) -> Group:
    return Group("t", (episode([reward], [dict.fromkeys(AGENTS, sampled(number))]),))


@pytest.mark.parametrize(
    "groups",
    [
        [pair_group(((0,), (0,)), ((1,), (1,)), gap=math.nan)],
        [pair_group(((0,), (0,)), ((1,), (1,)), gap=0.0)],
        [alone(0, 0.0), alone(1, 1.0)],
    ],
    ids=["one was not scored", "both earned the same", "of two groups"],
)
def test_without_a_pair_nothing_moves(groups: list[Group]) -> None:
    team = softmax_team(**START)
    before = weights(team)
    metrics = learner(team).update(groups)
    assert (metrics["pairs"], metrics["skipped"]) == (0, 1)
    assert same(before, weights(team))


def test_the_reference_stays_where_it_began() -> None:
    team = softmax_team(**START)
    algorithm, start = learner(team), weights(team)
    for _ in range(3):
        algorithm.update([pair_group(((0,), (0,)), ((1,), (1,)))])
    assert same([u.reference.state_dict() for u in algorithm.updaters], start)  # type: ignore[union-attr]
    assert not same(weights(team), start)


def test_the_reference_is_renewed_where_that_is_due() -> None:
    team = softmax_team(**START)
    algorithm, after = learner(team, refresh=2), list[Any]()
    for _ in range(3):
        algorithm.update([pair_group(((0,), (0,)), ((1,), (1,)))])
        after.append(weights(team))
    assert same([u.reference.state_dict() for u in algorithm.updaters], after[1])  # type: ignore[union-attr]


def test_a_team_learns_to_say_the_same() -> None:
    team = softmax_team()
    algorithm = learner(team, learning_rate=0.1, beta=0.02)
    env = match()
    for step in range(80):
        algorithm.update(algorithm.rollout.play(env, team, ["t0"], [step], SAMPLING, 8))
    assert agreement(team) > 0.9


def test_old_pairs_are_learnt_from_again_and_survive_a_restart() -> None:
    given = [pair_group(((0,), (1,)), ((1,), (2,))), pair_group(((2,), (1,)), ((0,), (0,)))]
    whole, parted = softmax_team(**START), softmax_team(**START)
    algorithm, first = learner(whole, replay=1), learner(parted, replay=1)
    algorithm.update(given[:1])
    assert algorithm.update(given[1:])["pairs"] == 2
    first.update(given[:1])
    state = json.loads(json.dumps(first.state_dict()["rounds"]))
    saved = {**first.state_dict(), "rounds": state}
    again = softmax_team(**START)
    second = learner(again, replay=1)
    for policy, old in zip(again.trainable, parted.trainable, strict=True):
        policy.load_state_dict(old.state_dict())
    second.load_state_dict(saved)
    second.update(given[1:])
    assert same(weights(whole), weights(again))


def test_pairs_of_a_file_are_learnt_from(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    row = {"task": "t0", "chosen": dict.fromkeys(AGENTS, "red"), "rejected": dict.fromkeys(AGENTS, "left")}
    path.write_text(json.dumps(row) + "\n")
    team = separate_team()
    algorithm = learner(team, source=str(path), learning_rate=0.01)
    env = match()
    results = [algorithm.update(algorithm.rollout.play(env, team, ["t0"], [step], SAMPLING)) for step in range(8)]
    assert results[0]["gap"] == 0
    assert {r["generations"] for r in results} == {0}  # what is recorded is not drawn
    assert {r["joint_rewards"] for r in results} == {2}
    assert results[0]["preference_loss"] == pytest.approx(math.log(2))
    assert results[-1]["preferred"] == 1
    assert results[-1]["preference_loss"] < results[0]["preference_loss"]
    with pytest.raises(ValueError, match=f"has no pair of task '{ITEMS[1].id}'"):
        algorithm.rollout.play(env, team, ["t1"], [0], SAMPLING)


@pytest.mark.parametrize("options", [{"beta": 0.0}, {"ratio": "token"}, {"epochs": 2}, {"pairs": "best"}])
def test_options_without_effect_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        build(MADPOConfig, options, source="options")
