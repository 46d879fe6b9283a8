"""The gradient of an update: what it is, derived by hand, and what it does not depend on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from models import AGENTS, Softmax, episode, gradients, group, language_model, match, sampled, softmax_team
from updates import (
    SAMPLING,
    THREE,
    TWO_WORDS,
    P,
    both,
    gradient,
    make,
    score_function,
    table_team,
    texts,
    updated,
)

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.advantages import Kind, group_advantages
from llm_dec_pomdp.algorithms.registration import build_algorithm, find_algorithm
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.training import TrainerConfig, train
from llm_dec_pomdp.types import Completion, Episode, Group


def close(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor], rtol: float = 1e-6) -> bool:
    """Equal up to `rtol` of the largest entry."""
    pairs = zip(first, second, strict=True)
    return all(float((a - b).abs().max()) <= rtol * float(a.abs().max()) for a, b in pairs)


# --- what must not matter ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"entropy": 0.1},
        *(pytest.param(o, marks=pytest.mark.slow) for o in ({}, {"average": "sequences"}, {"ratio": "sequence"})),
    ],
    ids=["e", "t", "s", "r"],
)
def test_the_size_of_a_forward_pass_does_not_matter(team: Team, groups: list[Group], options: dict[str, Any]) -> None:
    """With one sequence per pass there is no padding at all, so the amount of padding does not matter either."""
    wanted_metrics, wanted = updated(team, groups, micro_batch=16, **options)
    for micro_batch in (1, 3, 8):
        metrics, found = updated(team, groups, micro_batch=micro_batch, **options)
        assert close(wanted, found)
        assert metrics["loss"] == pytest.approx(wanted_metrics["loss"], rel=1e-6, abs=1e-7)
        assert metrics["grad_norm"] == pytest.approx(wanted_metrics["grad_norm"], rel=1e-6)


def test_the_order_of_groups_and_episodes_does_not_matter(team: Team, groups: list[Group]) -> None:
    turned = [Group(g.item_id, g.episodes[::-1]) for g in groups[::-1]]
    metrics, found = updated(team, turned)
    wanted_metrics, wanted = updated(team, groups)
    assert close(wanted, found)
    assert metrics["loss"] == pytest.approx(wanted_metrics["loss"], rel=1e-6, abs=1e-7)


class Padded(Softmax):
    """Puts `amount` columns of garbage to one side of every batch."""

    side: str
    amount: int

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logprobs, mask = super().token_logprobs(samples, temperature)
        garbage = -7.0 * self.logits.sum().expand(len(samples), self.amount)
        ends = [[garbage, logprobs], [torch.zeros_like(garbage), mask]]
        first, second = (torch.cat(x if self.side == "left" else x[::-1], dim=1) for x in ends)
        return first, second


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("amount", [1, 9])
@pytest.mark.parametrize("options", [{}, {"average": "sequences"}, {"ratio": "sequence"}], ids=["t", "s", "r"])
def test_the_side_and_amount_of_padding_do_not_matter(side: str, amount: int, options: dict[str, Any]) -> None:
    padded = Padded(**THREE)
    padded.side, padded.amount = side, amount
    groups = [group([1.0, 0.0, 0.0], texts([0, 1], [2], [1, 1, 2]))]
    wanted = updated(table_team(), groups, **options)
    found = updated(Team({"agent_0": padded}), groups, **options)
    assert close(wanted[1], found[1])
    assert found[0] == pytest.approx(wanted[0])


def test_recorded_logprobs_do_not_matter(team: Team, groups: list[Group]) -> None:
    """The first pass is its own reference."""

    def forget(e: Episode) -> Episode:
        [turn] = e.turns
        actions = {a: replace(c, logprobs=(-50.0,) * len(c.token_ids)) for a, c in turn.actions.items()}
        return replace(e, turns=(replace(turn, actions=actions),))

    forgotten = [Group(g.item_id, tuple(forget(e) for e in g.episodes)) for g in groups]
    assert close(updated(team, groups)[1], updated(team, forgotten)[1], rtol=0)


def test_what_another_agent_says_does_not_matter_to_ones_own_gradient() -> None:
    played = [both(sampled(0, 1), sampled(2)), both(sampled(2), sampled(1))]
    other = [both(sampled(0, 1), sampled(0, 0, 0, 0)), both(sampled(2), sampled(2, 2))]
    team = softmax_team(**THREE)
    first, second = (updated(team, [group([1.0, 0.0], actions)])[1] for actions in (played, other))
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])


# --- the gradient, by hand --------------------------------------------------------------------------------------------

BETTER, WORSE = score_function(0, 1), score_function(2)


@pytest.mark.parametrize("ids", [((7, 2, 9, 0, 10), tuple(range(6, 18))), ((7,), (8,))], ids=["many", "one token"])
def test_the_gradient_of_a_language_model_is_that_of_the_tokens_it_drew(ids: tuple[tuple[int, ...], ...]) -> None:
    """Of all of them, also the last, an end in the middle and ids that no text would be read as; of padding none."""
    policy = language_model(1, double=True)
    mine = [Completion("x", (5, 6), token_ids, (0.0,) * len(token_ids)) for token_ids in ids]
    team = Team({"agent_0": policy})
    count = sum(map(len, ids))
    metrics = make(team, learning_rate=0.0).update([group([1.0, 0.0], [{"agent_0": c} for c in mine])])
    assert metrics["tokens"] == count
    found, wanted = gradients(team)[0], torch.zeros_like(gradients(team)[0])
    for c, advantage in zip(mine, (1.0, -1.0), strict=True):
        policy.model.zero_grad()
        logits = policy.model(torch.tensor([[*c.prompt_ids, *c.token_ids]])).logits[0, 1:-1]
        logp = logits.log_softmax(-1).gather(1, torch.tensor(c.token_ids)[:, None])
        (-advantage * logp.sum() / count).backward()
        wanted += gradients(team)[0]
    assert float(wanted.abs().max()) > 1e-3
    assert close([found], [wanted])


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_gradient_is_at_the_temperature_of_the_sampling(temperature: float) -> None:
    team = table_team()
    make(team, sampling=Sampling(temperature=temperature)).update([TWO_WORDS])
    wanted = torch.tensor([-0.5, 0.5, 0.0]) / temperature  # the softmax itself cancels between the two texts
    torch.testing.assert_close(gradients(team)[0], wanted)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, (BETTER - WORSE) / 3),
        ({"average": "sequences"}, (BETTER / 2 - WORSE) / 2),
        ({"ratio": "sequence"}, (BETTER - WORSE) / 2),
    ],
    ids=str,
)
def test_the_gradient_is_a_mean_over_what_the_options_say(options: dict[str, Any], wanted: torch.Tensor) -> None:
    torch.testing.assert_close(gradient(group([1.0, 0.0], texts([0, 1], [2])), **options), -wanted)


def test_texts_without_advantage_take_part_in_the_mean() -> None:
    equal = group([1.0, 1.0], texts([1], [1, 1]))
    found = gradient(group([1.0, 0.0], texts([0, 1], [2])), equal)
    torch.testing.assert_close(found, -(BETTER - WORSE) / 6)


def test_a_shared_policy_ascends_the_sum_of_its_agents_objectives() -> None:
    shared = Team(dict.fromkeys(AGENTS, Softmax(**THREE)))
    _, [found] = updated(shared, [group([1.0, 0.0], [both(sampled(0, 1), sampled(1)), both(sampled(2))])])
    torch.testing.assert_close(found, -((BETTER - WORSE) / 3 + (score_function(1) - WORSE) / 2))


def test_large_gradients_are_scaled_down(team: Team, groups: list[Group]) -> None:
    metrics, found = updated(team, groups, max_grad_norm=0.001)
    assert [float(g.norm()) for g in found] == pytest.approx([0.001, 0.001], rel=1e-3)
    assert metrics["grad_norm"] > 0.01


# --- after the first step ---------------------------------------------------------------------------------------------

WIDE = {"clip_low": 1.0, "clip_high": 100.0}


@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_the_second_epoch_refers_to_the_policy_before_the_first_and_steps_too(ratio: str) -> None:
    """By hand: the second gradient is weighted by rho, of each token or of the whole text."""
    play = [group([1.0, 0.0], texts([0, 1], [2]))]
    twice, once = table_team(), table_team()
    make(twice, epochs=2, learning_rate=0.05, ratio=ratio, **WIDE).update(play)
    make(once, learning_rate=0.05, ratio=ratio).update(play)
    logits = once.trainable[0].state_dict()["logits"].clone().requires_grad_()
    rho = logits.softmax(-1) / P
    (-(rho[0] + rho[1] - rho[2]) / 3 if ratio == "token" else -(rho[0] * rho[1] - rho[2]) / 2).backward()
    torch.testing.assert_close(gradients(twice)[0], logits.grad)
    assert not torch.allclose(twice.trainable[0].state_dict()["logits"], logits)


@pytest.mark.parametrize(
    ("option", "clipped"), [({"clip_low": 5.0}, 0.5), ({"clip_high": 1e9}, 0.5), ({}, 1.0), (WIDE, 0.0)]
)
def test_the_clip_may_differ_above_and_below(option: dict[str, float], clipped: float) -> None:
    """After one large step the rewarded word is far above and the other far below, where the clip ends the gradient."""
    team = table_team()
    metrics = make(team, epochs=2, learning_rate=1.0, **option).update([TWO_WORDS])
    assert metrics["clipped"] == clipped
    assert bool(gradients(team)[0].any()) == (clipped < 1)


@pytest.mark.parametrize("micro_batch", [1, 2])
def test_the_clipped_share_is_of_all_tokens_however_they_are_batched(micro_batch: int) -> None:
    """Three tokens went up too far, one went down, where there is no clip."""
    learner = make(table_team(), epochs=2, learning_rate=1.0, clip_low=5.0, micro_batch=micro_batch)
    assert learner.update([group([1.0, 0.0], texts([0, 0, 0], [2]))])["clipped"] == 0.75


# --- groups and turns -------------------------------------------------------------------------------------------------


def credited(*rewards: Sequence[float]) -> list[tuple[int, float]]:
    """Turn and advantage of every text of a group of episodes of one agent."""
    episodes = tuple(episode(r, texts(*([t] for t in range(len(r))))) for r in rewards)
    found = make(table_team(), advantage="mean").samples([Group("t", episodes)])
    return sorted((s.completion.token_ids[0], s.advantage) for s in found)


def test_episodes_that_ended_are_compared_in_later_turns_with_return_zero() -> None:
    first = [(0, pytest.approx(total - 11 / 3)) for total in (2, 4, 5)]
    later = [(1, pytest.approx(rest - 4 / 3)) for rest in (1, 3)]
    assert credited([5.0], [1.0, 1.0], [1.0, 3.0]) == [*first, *later]


@pytest.mark.parametrize(
    ("gamma", "wanted"),
    [(0.0, [0.0, 0.5, 0.0, -0.5]), (0.5, [0.25, 0.5, -0.25, -0.5]), (1.0, [0.5, 0.5, -0.5, -0.5])],
)
def test_the_discount_has_an_effect(gamma: float, wanted: list[float]) -> None:
    """Two episodes of two turns that earn 1, 1 and 1, 0."""
    episodes = tuple(episode(rewards, texts([0], [1])) for rewards in ([1.0, 1.0], [1.0, 0.0]))
    found = make(table_team(), gamma=gamma, advantage="mean").samples([Group("t", episodes)])
    turns = {(s.completion.token_ids, s.advantage) for s in found}
    assert turns == {((turn,), advantage) for turn, advantage in zip((0, 1, 0, 1), wanted, strict=True)}


@pytest.mark.parametrize("advantage", get_args(Kind))
def test_every_group_has_the_baseline_of_its_own(advantage: Kind) -> None:
    """Groups of other sizes and means are not normalised together."""
    rewards = [[1.0, 0.0, 0.0, 1.0], [0.7, 0.7, 0.7], [3.0, 1.0, 1.0, 4.0], [3.0]]
    groups = [group(r, texts(*([0],) * len(r))) for r in rewards]
    found = make(table_team(), advantage=advantage).samples(groups)
    assert [s.advantage for s in found] == [a for r in rewards for a in group_advantages(r, advantage)]


def test_a_rollout_of_many_texts_counts_once() -> None:
    many = {f"agent_{i}": sampled(i) for i in range(3)}
    team = Team({agent: Softmax() for agent in many})
    found = make(team, advantage="mean").samples([group([1.0, 0.0], [many, {"agent_0": sampled(1)}])])
    assert [s.advantage for s in found] == [0.5, 0.5, 0.5, -0.5]


def test_what_has_no_score_is_left_out_of_baseline_and_loss() -> None:
    with_it = updated(table_team(), [group([1.0, 0.0, math.nan], texts([0, 1], [2], [1, 1, 1]))])
    without = updated(table_team(), [group([1.0, 0.0], texts([0, 1], [2]))])
    assert with_it[0] == without[0] | {"generations": 3.0}  # it was drawn all the same
    assert torch.equal(with_it[1][0], without[1][0])


# --- one agent --------------------------------------------------------------------------------------------------------


def test_grpo_trains_one_agent_through_the_centralized_protocol() -> None:
    """One agent that has to name both parts; it starts with some chance to."""
    env = with_protocol(match(), find_algorithm("grpo").protocol)
    policy = Softmax(words=("[left]\nred\n[right]\nred", "[left]\nred\n[right]\nblue", "red"))
    grpo = build_algorithm("grpo", {"learning_rate": 0.2}, Team({"agent_0": policy}), SAMPLING)
    train(grpo, env, SAMPLING, TrainerConfig(steps=20, prompts_per_step=4, group_size=4), seed=0)
    assert float(policy.logits.detach().softmax(-1)[0]) > 0.9
