"""Objectives, penalties and samplings that are options, each against its equation computed text by text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from models import AGENTS, Softmax, episode, group, match, sampled, softmax_team, weights
from updates import THREE, TWO_WORDS, gradient, make, table_team, texts

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.diagnostics import spent
from llm_dec_pomdp.algorithms.losses import importance_weights, kl_k3, log_ratio
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.algorithms.objectives import Objective, OfTrajectories
from llm_dec_pomdp.algorithms.options import MAGRPOConfig
from llm_dec_pomdp.algorithms.overlong import punished
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.config import build
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.rollout.replaced import Replaced
from llm_dec_pomdp.training import TrainerConfig, TrainingStep, train
from llm_dec_pomdp.types import Branch, Decision, Group, all_played

TEXTS = [([1], 1.5), ([0, 2], -0.5), ([2, 2, 1, 0], 2.0), ([0, 0, 0], -1.0), ([1, 1], 0.7)]
Term = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]  # of log pi and log pi_old of a text, and A
OLD = torch.tensor([0.4, 0.1, -0.2], dtype=torch.float64).log_softmax(-1)


def loss_text_by_text(term: Term, logits: torch.Tensor) -> Any:
    """Minus the mean over texts of what a term makes of log pi and log pi_old of a text's tokens."""
    logprobs = logits.log_softmax(-1)
    return -sum(term(logprobs[ids], OLD[ids], advantage) for ids, advantage in TEXTS) / len(TEXTS)


def loss_of_objective(objective: Objective, logits: torch.Tensor) -> torch.Tensor:
    """The same by an objective, on padded tensors."""
    width = max(len(ids) for ids, _ in TEXTS)
    ids = torch.tensor([text + [0] * (width - len(text)) for text, _ in TEXTS])
    mask = torch.tensor([[1.0] * len(text) + [0.0] * (width - len(text)) for text, _ in TEXTS], dtype=torch.float64)
    advantages = torch.tensor([advantage for _, advantage in TEXTS], dtype=torch.float64)
    samples = [Sample("a", sampled(*text), advantage) for text, advantage in TEXTS]
    logprobs = logits.log_softmax(-1)[ids]
    log_rho, counted = log_ratio(logprobs, OLD[ids], mask, objective.ratio)
    shares = torch.tensor(objective.weights(samples), dtype=torch.float64)
    return -(objective.of(log_rho, counted, advantages, 1.0, logprobs * mask) * shares).sum()


def clipped(rho: torch.Tensor, advantage: float, low: float = 0.8, high: float = 1.2) -> torch.Tensor:
    return torch.minimum(rho * advantage, rho.clamp(low, high) * advantage)


def by_tokens(term: Callable[[torch.Tensor, float], torch.Tensor]) -> Term:
    """The mean over the tokens of a text of a term of each ratio."""
    return lambda new, old, advantage: term((new - old).exp(), advantage).mean()


CASES: list[tuple[dict[str, Any], Term]] = [
    ({"average": "sequences"}, by_tokens(clipped)),
    (
        {"average": "sequences", "dual_clip": 1.3},
        by_tokens(lambda rho, a: clipped(rho, a).clamp(min=1.3 * a) if a < 0 else clipped(rho, a)),
    ),
    ({"average": "constant", "normaliser": 7}, lambda new, old, a: clipped((new - old).exp(), a).sum() / 7),
    (
        {"ratio": "sequence_mean", "clip_low": 0.03, "clip_high": 0.04},
        lambda new, old, a: clipped((new - old).mean().exp(), a, 0.97, 1.04),
    ),
    ({"ratio": "sequence"}, lambda new, old, a: clipped((new - old).sum().exp(), a)),
    (
        {"objective": "cispo", "average": "sequences", "clip_high": 0.1},
        lambda new, old, a: ((new - old).detach().exp().clamp(max=1.1) * a * new).mean(),
    ),
]


@pytest.mark.parametrize(("options", "term"), CASES, ids=[str(options) for options, _ in CASES])
def test_value_and_gradient_are_those_of_the_equation(options: dict[str, Any], term: Term) -> None:
    objective = build(MAGRPOConfig, options, source="test").objective
    logits = torch.tensor([2.0, 0.6, -0.5], dtype=torch.float64, requires_grad=True)
    value, wanted = loss_of_objective(objective, logits), loss_text_by_text(term, logits)
    torch.testing.assert_close(value, wanted)
    torch.testing.assert_close(*(torch.autograd.grad(loss, logits)[0] for loss in (value, wanted)))
    plain = loss_of_objective(build(MAGRPOConfig, {"average": "sequences"}, source="test").objective, logits)
    assert options == {"average": "sequences"} or not torch.allclose(value, plain)  # the option does something


@pytest.mark.parametrize("options", [{"objective": "cispo"}, {"dual_clip": 3.0}, {"weigh_kl": True}], ids=str)
def test_the_first_step_is_that_of_the_clipped_objective(options: dict[str, Any]) -> None:
    torch.testing.assert_close(gradient(TWO_WORDS, **options), gradient(TWO_WORDS))


@pytest.mark.parametrize("options", [{"objective": "cispo"}, {"ratio": "sequence_mean", "clip_high": 1e-4}], ids=str)
def test_a_second_pass_follows_the_option(options: dict[str, Any]) -> None:
    plain, other = table_team(), table_team()
    played = group([1.0, 0.0], texts([0, 1], [1, 1]))
    make(plain, epochs=3, learning_rate=0.2).update([played])
    make(other, epochs=3, learning_rate=0.2, **options).update([played])
    assert not torch.allclose(weights(plain)[0]["logits"], weights(other)[0]["logits"])


def test_weighed_kl_is_unbiased_for_samples_of_older_weights_and_so_is_its_gradient() -> None:
    """Summed over all tokens by their old probability, it is KL(pi || pi_ref), with its gradient."""
    logits = torch.tensor([0.5, -0.3, 0.9], dtype=torch.float64, requires_grad=True)
    old, reference = (torch.tensor(x, dtype=torch.float64).log_softmax(-1) for x in ([0.0, 0.4, 0.1], [1.0, 0.2, 0.3]))
    new = logits.log_softmax(-1)
    estimates = kl_k3(new[:, None], reference[:, None], torch.ones(3, 1), (new - old)[:, None])
    estimate, wanted = (old.exp() * estimates).sum(), (new.exp() * (new - reference)).sum()
    torch.testing.assert_close(estimate, wanted)
    torch.testing.assert_close(*(torch.autograd.grad(x, logits, retain_graph=True)[0] for x in (estimate, wanted)))


def test_weights_beyond_the_bound_are_dropped_where_that_is_asked() -> None:
    ratios = torch.tensor([0.1, 0.3, 0.9, 3.5, 5.0])
    found = importance_weights(ratios.log(), 4.0, "drop")
    torch.testing.assert_close(found, torch.tensor([0.0, 0.3, 0.9, 3.5, 0.0]))
    torch.testing.assert_close(importance_weights(ratios.log(), 4.0), torch.tensor([0.1, 0.3, 0.9, 3.5, 4.0]))


def test_trajectories_of_any_length_weigh_the_same() -> None:
    lengths = [(1, 2), (1, 4), (2, 3)]  # trajectory, tokens
    samples = [Sample("a", sampled(*range(length)), 1.0, trajectory=number) for number, length in lengths]
    found = OfTrajectories(average="trajectories").weights(samples)
    assert found == pytest.approx([1 / (2 * 6), 1 / (2 * 6), 1 / (2 * 3)])


# --- groups without signal --------------------------------------------------------------------------------------------


def silent_and_heard() -> list[Group]:
    return [group([1.0, 1.0], texts([0], [1])), TWO_WORDS]


def test_groups_without_signal_leave_the_denominator_where_that_is_asked() -> None:
    torch.testing.assert_close(gradient(*silent_and_heard(), without_signal="drop"), gradient(TWO_WORDS))
    torch.testing.assert_close(gradient(*silent_and_heard()), gradient(TWO_WORDS) / 2)


def test_a_group_without_signal_is_replaced_and_what_was_played_is_kept() -> None:
    learner = MAGRPO(softmax_team(), Sampling(max_new_tokens=1), MAGRPO.Config(replacements=20))
    env = match()
    [found] = learner.rollout.play(env, learner.policy, ["t0"], [3], learner.sampling, 2)
    assert len({e.total for e in found.episodes}) > 1
    assert all(len({e.total for e in silent.episodes}) == 1 for silent in found.replaced)
    never = Replaced(Trajectories(), lambda _: True, 2)
    played = all_played(never.play(env, learner.policy, ["t0"], [3], learner.sampling, 2))
    assert [len(g.episodes) for g in played] == [2, 2, 2]
    assert spent(played)["generations"] == 3 * 2 * len(AGENTS)


def test_a_training_reports_replaced_groups_too() -> None:
    """The mean over the groups with a signal alone would be 1/2 for groups of two, whatever the policies are."""

    class Kept(MAGRPO):
        def update(self, groups: Sequence[Group]) -> dict[str, float]:
            self.played = all_played(groups)
            return super().update(groups)

    steps: list[TrainingStep] = []
    learner = Kept(softmax_team(), Sampling(max_new_tokens=1), MAGRPO.Config(replacements=3, learning_rate=0.0))
    config = TrainerConfig(steps=1, prompts_per_step=8, group_size=2)
    train(learner, match(), learner.sampling, config, 0, steps.append)
    [step] = steps
    totals = [e.total for g in learner.played for e in g.episodes]
    assert (step.episodes, step.mean_return) == (len(totals), pytest.approx(sum(totals) / len(totals)))
    silent = sum(len({e.total for e in g.episodes}) == 1 for g in learner.played)
    assert step.metrics["groups_without_signal"] == pytest.approx(silent / len(learner.played))
    assert step.metrics["groups_replaced"] == pytest.approx(1 - 8 / len(learner.played)) != 0
    assert step.metrics["generations"] == len(AGENTS) * len(totals)


def test_replacements_learn_from_the_groups_that_stay() -> None:
    """Groups that were replaced have no part in the mean of the objective."""
    silent, heard = silent_and_heard()
    kept = replace(heard, replaced=(silent,))
    torch.testing.assert_close(gradient(kept, replacements=1), gradient(heard))


# --- lengths and agents -----------------------------------------------------------------------------------------------


def test_a_long_text_costs_its_agent_alone() -> None:
    turns = [
        {"agent_0": sampled(*range(7)), "agent_1": sampled(0)},
        {"agent_0": sampled(*range(10)), "agent_1": sampled(0, 1)},
    ]
    limits = {"agent_0": 10, "agent_1": 10}
    found = punished(Group("t", (episode([1.0, 2.0], turns),)), limits, buffer=4, penalty=2.0)
    assert found.episodes[0].rewards_of("agent_0") == (1.0 - 2.0 * 0.25, 2.0 - 2.0)
    assert found.episodes[0].rewards_of("agent_1") == (1.0, 2.0)


def test_joint_actions_of_a_decision_are_punished_too() -> None:
    actions = {"agent_0": (sampled(0), sampled(*range(10))), "agent_1": (sampled(0),)}
    decision = Decision(0, actions, 1, (Branch((1, 0), (3.0, 1.0)), Branch((0, 0), (3.0,))))
    found = punished(Group("t", (), (decision,)), {"agent_0": 10, "agent_1": 10}, buffer=5, penalty=1.0)
    assert [b.rewards_of("agent_0") for b in found.decisions[0].branches] == [(2.0, 1.0), (3.0,)]
    assert [b.rewards_of("agent_1") for b in found.decisions[0].branches] == [(3.0, 1.0), (3.0,)]


def test_a_penalty_is_a_signal() -> None:
    played = group([1.0, 1.0], texts([0] * 7, [1]))
    assert make(table_team(), overlong=2).silent(played) is False
    assert make(table_team()).silent(played) is True


@pytest.mark.parametrize("own", [None, 100])
def test_the_limit_of_a_penalty_is_that_of_the_agent(own: int | None) -> None:
    """A text of 7 of 8 tokens loses half of the penalty at a buffer of 2; the same of 100 tokens loses none."""
    played = group([1.0, 1.5], texts([0] * 7, [1]))
    team = Team({"agent_0": Softmax(**THREE)}, samplings={"agent_0": Sampling(max_new_tokens=own)} if own else None)
    [long, short] = make(team, overlong=2, advantage="raw").samples([played])
    assert (long.advantage, short.advantage) == (1.0 if own else 0.5, 1.5)


def test_the_limit_of_a_penalty_is_that_of_all_parts_of_a_text() -> None:
    learner = make(table_team(), overlong=2, advantage="raw")
    env = with_protocol(match(), "centralized")
    sampling = Sampling(max_new_tokens=8)
    [played] = learner.rollout.play(env, Softmax(**THREE), ["t0"], [0], sampling, 2)
    of_seven = replace(played, episodes=group([1.0], texts([0] * 7)).episodes)
    assert [s.advantage for s in learner.samples([of_seven])] == [1.0]  # of 16, for both agents' parts


def test_the_returns_of_an_agent_are_compared_with_its_alone() -> None:
    learner = MAGRPO(softmax_team(), Sampling(max_new_tokens=1), MAGRPO.Config(advantage="agent"))
    played = [
        Group(
            "t",
            (replace(played, turns=(replace(played.turns[0], rewards={AGENTS[0]: earned, AGENTS[1]: 10 * earned}),)),),
        )
        for earned in (1.0, 2.0, 6.0)
        for played in [episode([earned], [{agent: sampled(0) for agent in AGENTS}])]
    ]
    by_agent = {agent: [s.advantage for s in learner.samples(played) if s.agent == agent] for agent in AGENTS}
    wanted = [(r - 3) / math.sqrt(14 / 3) for r in (1, 2, 6)]
    assert by_agent == {agent: pytest.approx(wanted) for agent in AGENTS}
