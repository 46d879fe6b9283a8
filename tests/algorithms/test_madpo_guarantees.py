"""What trainers of preferences are known to get wrong, each as something that holds here."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from models import (
    AGENTS,
    Softmax,
    copy_of,
    episode,
    gradients,
    match,
    said,
    same,
    separate_team,
    softmax_team,
    weights,
)

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.madpo import MADPO, MADPOConfig
from llm_dec_pomdp.types import Completion, Group

WORDS: dict[str, Any] = {"words": ["a", "b", "c"], "logits": [0.3, -0.2, 0.5]}


def learner(team: Team, temperature: float = 1.0, **options: Any) -> MADPO:
    given: dict[str, Any] = {"max_grad_norm": 1e9, "learning_rate": 0.0, "pairs": "all", **options}
    return MADPO(team, Sampling(temperature=temperature, max_new_tokens=6), MADPOConfig(**given))


def pair(chosen: dict[str, Completion], rejected: dict[str, Completion], *returns: float) -> Group:
    better, worse = returns or (1.0, 0.0)
    return Group("t", (episode([better], [chosen]), episode([worse], [rejected])))


def everybody(*ids: int) -> dict[str, Completion]:
    return dict.fromkeys(AGENTS, said(*ids))


def test_a_text_of_one_token_and_the_last_token_of_a_text_have_a_gradient() -> None:
    for chosen, rejected in (
        (everybody(0), everybody(1)),
        (everybody(2, 0), everybody(2, 1)),
    ):  # differ in the last one
        team = softmax_team(**WORDS)
        learner(team, beta=0.4).update([pair(chosen, rejected)])
        for own in gradients(team):  # at the reference: - beta / 2 (one-hot of the preferred - that of the other)
            torch.testing.assert_close(own, torch.tensor([-0.2, 0.2, 0.0]))


def test_padding_and_what_shares_a_forward_pass_change_nothing() -> None:
    team = separate_team(double=True)
    groups = learner(team).rollout.play(match(), team, ["t0", "t1", "t2"], [0, 1, 2], Sampling(max_new_tokens=6), 4)
    scored = [  # returns of our own, so that there are pairs
        Group(g.item_id, tuple(episode([float(k)], [e.turns[0].actions]) for k, e in enumerate(g.episodes)))
        for g in groups
    ]
    lengths = {len(c.token_ids) for g in scored for e in g.episodes for c in e.turns[0].actions.values()}
    assert len(lengths) > 2
    found: list[list[torch.Tensor]] = []
    for size in (1, 3, 64):
        own = copy_of(team)
        learner(own, micro_batch=size).update(scored)
        found.append(gradients(own))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


def test_log_ratios_are_at_the_temperature_of_the_sampling() -> None:
    team = softmax_team(**WORDS)
    one = learner(team, temperature=0.5)
    with torch.no_grad():
        for policy in team.policies:
            assert isinstance(policy, Softmax)
            policy.logits.add_(torch.tensor([0.4, 0.0, 0.0]))
    gap = one.update([pair(everybody(0), everybody(1))])["gap"]
    assert gap == pytest.approx(2 * 0.4 / 0.5, abs=1e-6)  # of two agents, at temperature 0.5; the normaliser cancels


def test_what_could_not_be_scored_or_earned_the_same_is_in_no_pair() -> None:
    for returns in ((math.nan, 0.0), (1.0, math.nan), (0.5, 0.5)):
        team = softmax_team(**WORDS)
        before = weights(team)
        metrics = learner(team, learning_rate=0.1).update([pair(everybody(0), everybody(1), *returns)])
        assert metrics["pairs"] == 0
        assert metrics["skipped"] == 1
        assert same(before, weights(team))


def test_pairs_are_of_one_task_whatever_else_was_played() -> None:
    team = softmax_team(**WORDS)
    alone = [Group("t", (episode([float(k)], [everybody(k)]),)) for k in range(3)]
    assert learner(team).update(alone)["pairs"] == 0


def test_the_tokens_that_were_sampled_are_learnt_from_and_not_the_text_again() -> None:
    team = separate_team()
    one = learner(team)
    odd = Completion("red", (3, 9), (9, 9, 2), (0.0,) * 3)  # its text would have other tokens
    [texts] = one.pairs([pair(dict.fromkeys(AGENTS, odd), everybody(2))])
    assert [t.completion.token_ids for t in texts if t.sign > 0] == [(9, 9, 2)] * 2


def test_the_reference_stays_where_it_began() -> None:
    team = softmax_team(**WORDS)
    one = learner(team, learning_rate=0.1)
    start = weights(team)
    for _ in range(3):
        one.update([pair(everybody(0), everybody(1))])
    assert same([u.reference.state_dict() for u in one.updaters], start)  # type: ignore[union-attr]
    assert not same(weights(team), start)


def test_an_agent_whose_texts_are_the_same_in_both_is_left_alone() -> None:
    team = softmax_team(**WORDS)
    one = learner(team)
    one.update([pair({"agent_0": said(0), "agent_1": said(2)}, {"agent_0": said(1), "agent_1": said(2)})])
    first, second = gradients(team)
    assert first.abs().max() > 0
    torch.testing.assert_close(second, torch.zeros(3))
