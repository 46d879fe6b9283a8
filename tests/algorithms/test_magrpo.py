from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from models import (
    AGENTS,
    Softmax,
    copy_of,
    episode,
    gradients,
    group,
    language_model,
    match,
    network,
    said,
    same,
    save_model,
    separate_team,
    softmax_team,
    tokenizer,
    weights,
)
from peft import LoraConfig, get_peft_model

from llm_dec_pomdp.agents import Request, Sampling, Scripted, Team
from llm_dec_pomdp.agents.language_model import LanguageModel
from llm_dec_pomdp.agents.loading import load_team
from llm_dec_pomdp.algorithms.base import Learner
from llm_dec_pomdp.algorithms.magrpo import GRPO, MAGRPO, MAGRPOConfig
from llm_dec_pomdp.config import ConfigError, build
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.training import TrainerConfig, train
from llm_dec_pomdp.types import Completion, Episode, Group

SAMPLING = Sampling(max_new_tokens=8)
REWARDS = [[1.0, 0.0, 2.0, 0.5], [0.0, 1.0, 1.0], [3.0, 0.0]]
THREE = {"words": ("a", "b", "c"), "logits": (0.3, -1.0, 0.8)}


def learner(team: Team, kind: type[MAGRPO] = MAGRPO, sampling: Sampling = SAMPLING, **options: Any) -> MAGRPO:
    """Gradients are left unscaled unless asked otherwise, so that they can be compared."""
    return kind(team, sampling, MAGRPOConfig(**{"max_grad_norm": 1e9, **options}))


def play(team: Team, rewards: Sequence[Sequence[float]] = REWARDS, sampling: Sampling = SAMPLING) -> list[Group]:
    """Groups of texts that the team draws itself, with given rewards."""
    groups: list[Group] = []
    for number, values in enumerate(rewards):
        seeds = tuple(range(10 * number, 10 * number + len(values)))
        history = ("say " + "red " * number + "please",)
        answers = team.generate([Request(agent, history, seeds) for agent in team.members], sampling)
        texts = [dict(zip(team.members, joint, strict=True)) for joint in zip(*answers, strict=True)]
        groups.append(group(values, texts))
    return groups


def both(first: Completion, second: Completion | None = None) -> dict[str, Completion]:
    return {"agent_0": first, "agent_1": second or first}


def close(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor], rtol: float = 1e-6) -> bool:
    """Equal up to `rtol` of the largest entry."""
    pairs = zip(first, second, strict=True)
    return all(float((a - b).abs().max()) <= rtol * float(a.abs().max()) for a, b in pairs)


def updated(team: Team, groups: Sequence[Group], **options: Any) -> tuple[dict[str, float], list[torch.Tensor]]:
    """Metrics and gradients of one update of a copy."""
    mine = copy_of(team)
    metrics = learner(mine, **options).update(groups)
    return metrics, gradients(mine)


def score_function(ids: Sequence[int], temperature: float = 1.0) -> torch.Tensor:
    """d log pi(ids) / d logits of the policy with the logits of THREE, by hand."""
    p = (torch.tensor(THREE["logits"]) / temperature).softmax(-1)
    counts = torch.tensor([float(list(ids).count(k)) for k in range(3)])
    return (counts - len(ids) * p) / temperature


# --- what must not matter ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def team() -> Team:
    return separate_team(seed=1, double=True)


@pytest.fixture(scope="module")
def groups(team: Team) -> list[Group]:
    return play(team)


def test_texts_of_this_batch_have_different_lengths(groups: list[Group]) -> None:
    lengths = {len(c.token_ids) for g in groups for e in g.episodes for c in e.turns[0].actions.values()}
    assert min(lengths) < 4
    assert len(lengths) > 3


@pytest.mark.parametrize("micro_batch", [1, 2, 8])
@pytest.mark.parametrize(
    "options", [{}, {"average": "sequences"}, {"ratio": "sequence"}, {"entropy": 0.1}], ids=["t", "s", "r", "e"]
)
def test_the_size_of_a_forward_pass_does_not_matter(
    team: Team, groups: list[Group], micro_batch: int, options: dict[str, Any]
) -> None:
    """With one sequence per pass there is no padding at all, so the amount of padding does not matter either."""
    metrics, found = updated(team, groups, micro_batch=micro_batch, **options)
    wanted_metrics, wanted = updated(team, groups, micro_batch=16, **options)
    assert close(wanted, found)
    assert metrics["loss"] == pytest.approx(wanted_metrics["loss"], rel=1e-6, abs=1e-7)
    assert metrics["grad_norm"] == pytest.approx(wanted_metrics["grad_norm"], rel=1e-6)


def test_the_order_of_groups_and_episodes_does_not_matter(team: Team, groups: list[Group]) -> None:
    turned = [Group(g.item_id, g.episodes[::-1]) for g in groups[::-1]]
    metrics, found = updated(team, turned)
    wanted_metrics, wanted = updated(team, groups)
    assert close(wanted, found)
    assert metrics["loss"] == pytest.approx(wanted_metrics["loss"], rel=1e-6, abs=1e-7)


def test_what_padding_contains_does_not_matter(team: Team, groups: list[Group]) -> None:
    other = copy_of(team)
    for policy in other.policies:
        assert isinstance(policy, LanguageModel)
        policy.pad_id = 17
    assert close(updated(team, groups)[1], updated(other, groups)[1])


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
    plain, padded = Softmax(**THREE), Padded(**THREE)
    padded.side, padded.amount = side, amount
    groups = [group([1.0, 0.0, 0.0], [{"agent_0": said(0, 1)}, {"agent_0": said(2)}, {"agent_0": said(1, 1, 2)}])]
    wanted = updated(Team({"agent_0": plain}), groups, **options)
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
    options = [both(said(0, 1), said(2)), both(said(2), said(1))]
    other = [both(said(0, 1), said(0, 0, 0, 0)), both(said(2), said(2, 2))]
    team = softmax_team(**THREE)
    first, second = (updated(team, [group([1.0, 0.0], texts)])[1] for texts in (options, other))
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])


# --- the gradient, by hand --------------------------------------------------------------------------------------------


def test_gradient_with_a_mean_over_tokens() -> None:
    texts = [{"agent_0": said(0, 1)}, {"agent_0": said(2)}]
    _, [found] = updated(Team({"agent_0": Softmax(**THREE)}), [group([1.0, 0.0], texts)])
    torch.testing.assert_close(found, -(score_function([0, 1]) - score_function([2])) / 3)


def test_gradient_with_a_mean_over_sequences() -> None:
    texts = [{"agent_0": said(0, 1)}, {"agent_0": said(2)}]
    _, [found] = updated(Team({"agent_0": Softmax(**THREE)}), [group([1.0, 0.0], texts)], average="sequences")
    torch.testing.assert_close(found, -(score_function([0, 1]) / 2 - score_function([2])) / 2)


def test_gradient_with_the_ratio_of_whole_texts() -> None:
    texts = [{"agent_0": said(0, 1)}, {"agent_0": said(2)}]
    _, [found] = updated(Team({"agent_0": Softmax(**THREE)}), [group([1.0, 0.0], texts)], ratio="sequence")
    torch.testing.assert_close(found, -(score_function([0, 1]) - score_function([2])) / 2)


def test_the_temperature_is_part_of_the_policy() -> None:
    texts = [{"agent_0": said(0, 1)}, {"agent_0": said(2)}]
    team = Team({"agent_0": Softmax(**THREE)})
    learner(team, sampling=Sampling(temperature=0.5)).update([group([1.0, 0.0], texts)])
    wanted = -(score_function([0, 1], 0.5) - score_function([2], 0.5)) / 3
    torch.testing.assert_close(gradients(team)[0], wanted)


def test_texts_without_advantage_take_part_in_the_mean() -> None:
    texts = [{"agent_0": said(0, 1)}, {"agent_0": said(2)}]
    equal = group([1.0, 1.0], [{"agent_0": said(1)}, {"agent_0": said(1, 1)}])
    _, [found] = updated(Team({"agent_0": Softmax(**THREE)}), [group([1.0, 0.0], texts), equal])
    torch.testing.assert_close(found, -(score_function([0, 1]) - score_function([2])) / 6)


def test_a_shared_policy_ascends_the_sum_of_its_agents_objectives() -> None:
    shared = Softmax(**THREE)
    texts = [both(said(0, 1), said(1)), both(said(2), said(2))]
    _, [found] = updated(Team(dict.fromkeys(AGENTS, shared)), [group([1.0, 0.0], texts)])
    first = (score_function([0, 1]) - score_function([2])) / 3
    second = (score_function([1]) - score_function([2])) / 2
    torch.testing.assert_close(found, -(first + second))


def test_the_first_loss_is_minus_the_mean_advantage() -> None:
    texts = [{"agent_0": said(0, 1, 1)}, {"agent_0": said(2)}]
    metrics, _ = updated(Team({"agent_0": Softmax(**THREE)}), [group([1.0, 0.0], texts)])
    assert metrics["loss"] == pytest.approx(-(3 - 1) / 4)
    assert metrics["clipped"] == 0


def test_a_one_token_text_has_a_gradient() -> None:
    _, [found] = updated(Team({"agent_0": Softmax(**THREE)}), [group([1.0, 0.0], [{"agent_0": said(0)}] * 2)])
    assert found.tolist() == pytest.approx([0, 0, 0])
    texts = [{"agent_0": said(0)}, {"agent_0": said(1)}]
    _, [found] = updated(Team({"agent_0": Softmax(**THREE)}), [group([1.0, 0.0], texts)])
    torch.testing.assert_close(found, torch.tensor([-0.5, 0.5, 0.0]))


def test_a_one_token_text_of_a_language_model_has_a_gradient() -> None:
    team = separate_team()
    metrics = learner(team).update(play(team, [[1.0, 0.0, 0.0]], Sampling(max_new_tokens=1)))
    assert metrics["tokens"] == 3
    assert metrics["grad_norm"] > 0


def test_the_last_token_counts() -> None:
    """Two texts that differ in their last token only."""
    texts = [{"agent_0": said(0, 0, 1)}, {"agent_0": said(0, 0, 2)}]
    _, [found] = updated(Team({"agent_0": Softmax(**THREE)}), [group([1.0, 0.0], texts)])
    torch.testing.assert_close(found, torch.tensor([0.0, -1 / 6, 1 / 6]))


def test_probability_moves_towards_what_was_rewarded() -> None:
    team = Team({"agent_0": Softmax(**THREE)})
    before = team.trainable[0].state_dict()["logits"].softmax(-1)
    learner(team, learning_rate=0.1).update([group([1.0, 0.0], [{"agent_0": said(1)}, {"agent_0": said(2)}])])
    after = team.trainable[0].state_dict()["logits"].softmax(-1)
    assert after[1] > before[1]
    assert after[2] < before[2]


# --- options ----------------------------------------------------------------------------------------------------------


def apart(first: torch.Tensor, second: torch.Tensor) -> float:
    """Distance of two directions."""
    return float((first / first.norm() - second / second.norm()).norm())


def test_a_mean_over_sequences_is_another_direction(team: Team, groups: list[Group]) -> None:
    assert apart(updated(team, groups)[1][0], updated(team, groups, average="sequences")[1][0]) > 0.01


def test_the_ratio_of_whole_texts_scales_the_first_step_alike(team: Team, groups: list[Group]) -> None:
    """At the sampling policy both ratios are 1: what differs is the number of terms in the mean."""
    token, whole = (updated(team, groups, ratio=ratio)[1][0] for ratio in ("token", "sequence"))
    mine = [s for s in learner(copy_of(team)).samples(groups) if s.agent == "agent_0"]
    assert close([whole], [token * sum(len(s.completion.token_ids) for s in mine) / len(mine)])


def test_the_ratio_of_whole_texts_is_another_direction_from_the_second_step_on(team: Team, groups: list[Group]) -> None:
    options = {"epochs": 2, "learning_rate": 0.003, "clip_low": 1.0, "clip_high": 100.0}
    token, whole = (updated(team, groups, ratio=ratio, **options)[1][0] for ratio in ("token", "sequence"))
    assert apart(token, whole) > 0.01


@pytest.mark.parametrize("kind", ["mean", "leave_one_out", "max", "raw"])
def test_advantage_kinds_differ(team: Team, groups: list[Group], kind: str) -> None:
    """The released trainer's four variants give the same update under its default."""
    usual, other = updated(team, groups)[1][0], updated(team, groups, advantage=kind)[1][0]
    assert apart(usual, other) > 0.001


def test_large_gradients_are_scaled_down(team: Team, groups: list[Group]) -> None:
    metrics, found = updated(team, groups, max_grad_norm=0.001)
    assert [float(g.norm()) for g in found] == pytest.approx([0.001, 0.001], rel=1e-3)
    assert metrics["grad_norm"] > 0.01


def test_a_second_epoch_moves_further() -> None:
    results: list[torch.Tensor] = []
    for epochs in (1, 2):
        team = Team({"agent_0": Softmax(**THREE)})
        texts = [{"agent_0": said(0)}, {"agent_0": said(1)}]
        learner(team, epochs=epochs, learning_rate=0.01).update([group([1.0, 0.0], texts)])
        results.append(team.trainable[0].state_dict()["logits"] - torch.tensor(THREE["logits"]))
    assert float(results[1].abs().max()) > 1.5 * float(results[0].abs().max())


def test_a_second_epoch_meets_the_clip() -> None:
    """After one large step every ratio is outside, on the side where the clip ends the gradient."""
    team = Team({"agent_0": Softmax(**THREE)})
    texts = [{"agent_0": said(0)}, {"agent_0": said(1)}]
    metrics = learner(team, epochs=2, learning_rate=1.0).update([group([1.0, 0.0], texts)])
    assert metrics["clipped"] == 1
    assert gradients(team)[0].tolist() == [0.0, 0.0, 0.0]


def test_a_wide_clip_is_not_met() -> None:
    team = Team({"agent_0": Softmax(**THREE)})
    texts = [{"agent_0": said(0)}, {"agent_0": said(1)}]
    options = {"epochs": 2, "learning_rate": 1.0, "clip_low": 1.0, "clip_high": 100.0}
    metrics = learner(team, **options).update([group([1.0, 0.0], texts)])
    assert metrics["clipped"] == 0
    assert float(gradients(team)[0].abs().sum()) > 0


def test_the_second_epoch_refers_to_the_policy_before_the_first() -> None:
    team = Team({"agent_0": Softmax(**THREE)})
    texts = [{"agent_0": said(0)}, {"agent_0": said(1)}]
    options = {"epochs": 2, "learning_rate": 0.05, "clip_low": 1.0, "clip_high": 100.0}
    learner(team, **options).update([group([1.0, 0.0], texts)])

    once = Team({"agent_0": Softmax(**THREE)})
    learner(once, learning_rate=0.05).update([group([1.0, 0.0], texts)])
    logits = once.trainable[0].state_dict()["logits"].clone().requires_grad_()
    rho = logits.softmax(-1) / torch.tensor(THREE["logits"]).softmax(-1)
    (-(rho[0] - rho[1]) / 2).backward()
    torch.testing.assert_close(gradients(team)[0], logits.grad)


@pytest.mark.parametrize("wrong", [{"gama": 1.0}, {"advantage": "stdev"}, {"ratio": "text"}, {"learning_rate": "high"}])
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        build(MAGRPOConfig, wrong, source="test")


# --- which parameters move --------------------------------------------------------------------------------------------


def moved(before: Sequence[Mapping[str, torch.Tensor]], team: Team) -> list[set[str]]:
    """Names of the tensors that changed, per policy."""
    after = weights(team)
    return [{name for name in a if not torch.equal(a[name], b[name])} for a, b in zip(before, after, strict=True)]


def test_every_parameter_of_every_agent_changes() -> None:
    team = separate_team(seed=1)
    before = weights(team)
    learner(team, learning_rate=0.1).update(play(team))
    assert moved(before, team) == [set(state) for state in before]


def test_every_adapter_parameter_changes_and_the_base_does_not(tmp_path: Any) -> None:
    team = load_team(AGENTS, save_model(tmp_path, seed=3), sharing="lora", device="cpu")
    [policy] = team.policies
    assert isinstance(policy, LanguageModel)
    for parameter in policy.parameters():
        with torch.no_grad():
            parameter.add_(0.05)  # a new adapter has one factor at zero, which keeps the other in its place
    base = {n: p.clone() for n, p in policy.model.named_parameters() if not p.requires_grad}
    before = weights(team)
    learner(team, learning_rate=0.1).update(play(team))
    assert moved(before, team) == [set(state) for state in before]
    assert same([base], [{n: p for n, p in policy.model.named_parameters() if not p.requires_grad}])


@pytest.mark.parametrize(
    "rewards",
    [[[1.0, 1.0, 1.0], [0.0, 0.0]], [[2.0], [0.0]], [[math.nan, math.nan]], [[math.nan, 1.0]]],
    ids=["equal returns", "groups of one", "unscored", "one scored"],
)
def test_nothing_changes_without_an_advantage(rewards: list[list[float]]) -> None:
    team = separate_team(seed=1)
    before = weights(team)
    metrics = learner(team, learning_rate=0.1, weight_decay=0.1).update(play(team, rewards))
    assert moved(before, team) == [set(), set()]
    assert metrics["skipped"] == 1
    assert math.isfinite(metrics["loss"])


def adapted_team() -> Team:
    """An adapter for each agent on one base, none of them 0."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
        model = get_peft_model(network(1), config, adapter_name=AGENTS[0])
        model.add_adapter(AGENTS[1], config)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)
    return Team(dict.fromkeys(AGENTS, LanguageModel(model, tokenizer(), adapters={agent: agent for agent in AGENTS})))


adapts = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")


@adapts
@pytest.mark.parametrize("make", [lambda: separate_team(seed=1), adapted_team], ids=["separate", "lora"])
def test_nothing_changes_without_an_advantage_after_earlier_updates(make: Callable[[], Team]) -> None:
    """Momentum must not move the weights either."""
    team = make()
    mine = learner(team, learning_rate=0.1)
    mine.update(play(team))
    before = weights(team)
    mine.update(play(team, [[1.0, 1.0]]))
    assert not any(moved(before, team))


def without(groups: Sequence[Group], agent: str) -> list[Group]:
    """The same groups, in which an agent said nothing."""
    silent: list[Group] = []
    for g in groups:
        texts = [{a: c for a, c in e.turns[0].actions.items() if a != agent} for e in g.episodes]
        silent.append(group([e.total for e in g.episodes], texts))
    return silent


@adapts
@pytest.mark.parametrize("make", [lambda: separate_team(seed=1), adapted_team], ids=["separate", "lora"])
def test_an_agent_that_has_nothing_to_learn_stays_as_it_is(make: Callable[[], Team]) -> None:
    """Neither momentum nor weight decay moves it, whatever the others learn."""
    team = make()
    mine = learner(team, learning_rate=0.1, weight_decay=0.1)
    mine.update(play(team))
    before = weights(team)
    mine.update(without(play(team), "agent_1"))
    names = set[str]().union(*moved(before, team)) if len(before) == 1 else moved(before, team)[0]
    assert names
    assert not any(".agent_1." in name for name in names)
    if len(before) > 1:
        assert not moved(before, team)[1]


@adapts
def test_the_gradient_of_an_adapter_is_scaled_down_without_regard_to_the_others() -> None:
    found: list[list[torch.Tensor]] = []
    norms: list[float] = []
    for together in (True, False):
        team = adapted_team()
        groups = play(team)
        mine = learner(team, learning_rate=0.0, max_grad_norm=0.01)
        norms.append(mine.update(groups if together else without(groups, "agent_1"))["grad_norm"])
        [policy] = team.policies
        assert isinstance(policy, LanguageModel)
        found.append([p.grad for p in policy.parameters_of("agent_0") if p.grad is not None])
    assert float(torch.cat([g.flatten() for g in found[0]]).norm()) == pytest.approx(0.01, rel=1e-3)
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-7)
    assert norms[0] > norms[1] > 0.01  # of all that is trained, before


@adapts
def test_two_policies_on_one_network_are_refused() -> None:
    [policy] = adapted_team().policies
    assert isinstance(policy, LanguageModel)
    team = Team({a: LanguageModel(policy.model, tokenizer(), adapters=policy.adapters) for a in AGENTS})
    with pytest.raises(ValueError, match="'agent_0' and 'agent_1' have policies of their own on the same network"):
        learner(team)


def in_16_bits(dtype: torch.dtype) -> Team:
    return Team({a: LanguageModel(network().to(dtype), tokenizer()) for a in AGENTS})


def test_bfloat16_weights_are_trained_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"are bfloat16, .* load the model with dtype 'float32', or train adapters"):
        learner(in_16_bits(torch.bfloat16))


def test_float16_weights_are_not_trained() -> None:
    with pytest.raises(ValueError, match=r"are float16, .* load the model with dtype 'float32', or train adapters"):
        learner(in_16_bits(torch.float16))


def test_a_policy_that_is_not_finite_does_not_step_and_the_others_do() -> None:
    team = Team({"agent_0": Softmax(**THREE), "agent_1": Infinite(**THREE)})
    before = weights(team)
    metrics = learner(team, learning_rate=0.1).update(
        [group([1.0, 0.0], [both(said(0), said(0)), both(said(1), said(1))])]
    )
    assert moved(before, team) == [{"logits"}, set()]
    assert math.isnan(metrics["loss"])
    assert metrics["skipped"] == 0.5


class Infinite(Softmax):
    def token_logprobs(self, samples: Any, temperature: float) -> Any:
        logprobs, mask = super().token_logprobs(samples, temperature)
        return logprobs * math.nan, mask


def test_members_without_tokens_are_left_alone() -> None:
    team = Team({"agent_0": Softmax(**THREE), "agent_1": Scripted(lambda agent, history: "fixed")})
    metrics = learner(team).update(
        [group([1.0, 0.0], [both(said(0), Completion("fixed")), both(said(1), Completion("fixed"))])]
    )
    assert metrics["tokens"] == 2
    assert float(gradients(team)[0].abs().sum()) > 0


def test_a_trainable_member_whose_texts_have_no_tokens_is_not_trained() -> None:
    team = softmax_team(**THREE)
    before = weights(team)
    learner(team, learning_rate=0.1).update(
        [group([1.0, 0.0], [both(said(0), Completion("fixed")), both(said(1), Completion("fixed"))])]
    )
    assert moved(before, team) == [{"logits"}, set()]


def test_a_frozen_language_model_stays_as_it_is_and_the_others_learn() -> None:
    frozen = language_model(seed=2)
    frozen.model.requires_grad_(False)
    team = Team({"agent_0": language_model(seed=1), "agent_1": frozen})
    before = copy.deepcopy(frozen.model.state_dict())
    metrics = learner(team, learning_rate=0.1).update(play(team))
    assert same([before], [frozen.model.state_dict()])
    assert metrics["skipped"] < 1


def test_somebody_must_be_trainable() -> None:
    team = Team({"agent_0": Scripted(lambda agent, history: "fixed")})
    with pytest.raises(ValueError, match="no member of the team can be trained"):
        MAGRPO(team, SAMPLING)


# --- groups -----------------------------------------------------------------------------------------------------------


def advantages(groups: Sequence[Group], **options: Any) -> list[float]:
    return [s.advantage for s in learner(softmax_team(), **options).samples(groups)]


def test_both_agents_share_the_advantage_of_their_trajectory() -> None:
    groups = [group([1.0, 0.0], [both(said(0)), both(said(1))])]
    assert [(s.agent, s.advantage) for s in learner(softmax_team()).samples(groups)] == [
        ("agent_0", 1.0),
        ("agent_1", 1.0),
        ("agent_0", -1.0),
        ("agent_1", -1.0),
    ]


def test_groups_of_different_sizes_do_not_mix() -> None:
    """Groups of 4, 3 and 4, the second with equal rewards: exactly 0 for that one."""
    rewards = [[1.0, 0.0, 0.0, 1.0], [0.7, 0.7, 0.7], [3.0, 1.0, 1.0, 3.0]]
    groups = [group(values, [{"agent_0": said(0)}] * len(values)) for values in rewards]
    assert advantages(groups) == [1, -1, -1, 1, 0, 0, 0, 1, -1, -1, 1]


def test_a_rollout_of_many_texts_counts_once_in_the_baseline() -> None:
    team = {f"agent_{i}": said(i % 3) for i in range(3)}
    groups = [group([1.0, 0.0], [team, {"agent_0": said(1)}])]
    assert advantages(groups, advantage="mean") == [0.5, 0.5, 0.5, -0.5]


def test_a_text_without_score_is_as_if_it_were_not_there() -> None:
    team = softmax_team(**THREE)
    texts = [both(said(0, 1)), both(said(2)), both(said(1, 1, 1))]
    with_it = updated(team, [group([1.0, 0.0, math.nan], texts)])
    without = updated(team, [group([1.0, 0.0], texts[:2])])
    assert with_it[0] == without[0]
    assert all(torch.equal(a, b) for a, b in zip(with_it[1], without[1], strict=True))


def test_a_group_without_any_score_does_not_stop_the_others() -> None:
    team = separate_team(seed=1)
    before = weights(team)
    metrics = learner(team, learning_rate=0.1).update(play(team, [[math.nan, math.nan], [1.0, 0.0, 0.5]]))
    assert moved(before, team) == [set(state) for state in before]
    assert all(math.isfinite(value) for value in metrics.values())


def test_no_groups_change_nothing() -> None:
    team = softmax_team(**THREE)
    before = weights(team)
    assert learner(team).update([])["skipped"] == 1
    assert moved(before, team) == [set(), set()]


# --- turns ------------------------------------------------------------------------------------------------------------


def two_turns(*rewards: Sequence[float]) -> list[Group]:
    episodes = tuple(episode(r, [{"agent_0": said(t)} for t in range(len(r))]) for r in rewards)
    return [Group("t", episodes)]


@pytest.mark.parametrize(
    ("gamma", "wanted"),
    [(0.0, [0.0, 0.5, 0.0, -0.5]), (0.5, [0.25, 0.5, -0.25, -0.5]), (1.0, [0.5, 0.5, -0.5, -0.5])],
)
def test_the_discount_has_an_effect(gamma: float, wanted: list[float]) -> None:
    groups = two_turns([1.0, 1.0], [1.0, 0.0])
    found = {
        (s.completion.token_ids, s.advantage)
        for s in learner(softmax_team(), gamma=gamma, advantage="mean").samples(groups)
    }
    first, second, third, fourth = wanted
    assert found == {((0,), first), ((1,), second), ((0,), third), ((1,), fourth)}


def test_the_discount_reaches_the_gradient() -> None:
    episodes = (
        episode([0.0, 1.0], [{"agent_0": said(0)}, {"agent_0": said(1)}]),
        episode([0.5, 0.0], [{"agent_0": said(2)}, {"agent_0": said(1)}]),
    )
    team = Team({"agent_0": Softmax(**THREE)})
    for gamma, better, worse in ((1.0, 0, 2), (0.1, 2, 0)):
        _, [found] = updated(team, [Group("t", episodes)], gamma=gamma)
        torch.testing.assert_close(found, -(score_function([better]) - score_function([worse])) / 4)


def test_episodes_that_ended_are_compared_in_later_turns_with_return_zero() -> None:
    groups = two_turns([5.0], [1.0, 1.0], [1.0, 3.0])
    found = sorted(
        (s.completion.token_ids[0], s.advantage) for s in learner(softmax_team(), advantage="mean").samples(groups)
    )
    assert found == [
        (0, pytest.approx(2 - 11 / 3)),
        (0, pytest.approx(4 - 11 / 3)),
        (0, pytest.approx(5 - 11 / 3)),
        (1, pytest.approx(1 - 4 / 3)),
        (1, pytest.approx(3 - 4 / 3)),
    ]


def test_a_turn_without_score_spoils_what_came_before_it_only() -> None:
    groups = two_turns([1.0, 1.0], [0.0, 0.0], [math.nan, 2.0])
    found = [
        (s.completion.token_ids[0], s.advantage) for s in learner(softmax_team(), advantage="mean").samples(groups)
    ]
    assert sorted(found) == [(0, -1.0), (0, 1.0), (1, -1.0), (1, 0.0), (1, 1.0)]


# --- accidents --------------------------------------------------------------------------------------------------------


class Broken(Softmax):
    """Its loss or only its gradient is not finite while `broken` says so."""

    broken: str = ""

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logprobs, mask = super().token_logprobs(samples, temperature)
        if self.broken == "loss":
            logprobs = logprobs * math.nan
        if self.broken == "gradient":
            logprobs = logprobs + (self.logits[0] - self.logits[0].detach()).abs().sqrt()
        return logprobs, mask


TEXTS = [both(said(0)), both(said(1))]
ALONE = [{"agent_0": said(0)}, {"agent_0": said(1)}]


@pytest.mark.parametrize("broken", ["loss", "gradient"])
def test_a_step_that_is_not_finite_is_skipped_and_reported(broken: str) -> None:
    policy = Broken(**THREE)
    policy.broken = broken
    team = Team({"agent_0": policy})
    before = weights(team)
    metrics = learner(team, learning_rate=0.1).update([group([1.0, 0.0], ALONE)])
    assert same(before, weights(team))
    assert metrics["skipped"] == 1
    assert not math.isfinite(metrics["grad_norm"])


def test_a_skipped_step_leaves_no_trace_in_the_optimizer() -> None:
    fresh, policy = Softmax(**THREE), Broken(**THREE)
    learner(Team({"agent_0": fresh}), learning_rate=0.1).update([group([1.0, 0.0], ALONE)])
    mine = learner(Team({"agent_0": policy}), learning_rate=0.1)
    policy.broken = "loss"
    mine.update([group([1.0, 0.0], ALONE)])
    policy.broken = ""
    mine.update([group([1.0, 0.0], ALONE)])
    assert torch.equal(fresh.logits, policy.logits)


def test_one_members_accident_does_not_stop_the_other() -> None:
    broken = Broken(**THREE)
    broken.broken = "loss"
    team = Team({"agent_0": broken, "agent_1": Softmax(**THREE)})
    before = weights(team)
    metrics = learner(team, learning_rate=0.1).update([group([1.0, 0.0], TEXTS)])
    assert moved(before, team) == [set(), {"logits"}]
    assert metrics["skipped"] == 0.5


@pytest.mark.parametrize("reward", [math.inf, -math.inf])
def test_an_infinite_reward_is_named_and_nothing_moves(reward: float) -> None:
    team = softmax_team(**THREE)
    before = weights(team)
    with pytest.raises(ValueError, match=rf"task 't' was paid {reward}; a reward is finite, or NaN"):
        learner(team).update([group([reward, 0.0], TEXTS)])
    assert same(before, weights(team))


def test_greedy_samples_teach_nothing_and_are_refused() -> None:
    with pytest.raises(ValueError, match="the temperature is 0, so all texts of a group are alike"):
        learner(softmax_team(**THREE), sampling=Sampling(temperature=0)).update([group([1.0, 0.0], TEXTS)])


def test_an_empty_text_is_trained_on_its_end_token() -> None:
    """An agent that stops at once has said something: the end of its turn."""
    policy = language_model(seed=1)
    [stop] = policy.stop_ids
    empty, word = Completion("", (5, 6), (stop,), (0.0,)), Completion("red", (5, 6), (5,), (0.0,))
    team = Team({"agent_0": policy})
    before, _ = (x.detach() for x in policy.token_logprobs([("agent_0", empty)], 1.0))
    metrics = learner(team, learning_rate=0.01).update([group([0.0, 1.0], [{"agent_0": empty}, {"agent_0": word}])])
    assert metrics["tokens"] == 2
    after, _ = (x.detach() for x in policy.token_logprobs([("agent_0", empty)], 1.0))
    assert float(after) < float(before)


def test_a_whole_run_of_empty_texts_learns_nothing_and_goes_on() -> None:
    class Mute(Softmax):
        def _say(self, seed: int, sampling: Sampling) -> Completion:
            return Completion("", (0,), (), ())

    team = Team({agent: Mute() for agent in AGENTS})
    before = weights(team)
    train(learner(team), match(), SAMPLING, TrainerConfig(steps=2, prompts_per_step=2, group_size=3), 0)
    assert same(before, weights(team))


def test_members_with_different_tokenizers_learn_together() -> None:
    """Ids never leave their policy: the same words have other numbers, and vocabularies of other sizes."""
    words = ("blue", "then", "red", "green", "black", "say", "please")
    other = LanguageModel(network(2, vocab_size=5 + len(words)), tokenizer(words=words, chat=False))
    team = Team({"agent_0": language_model(seed=1), "agent_1": other})
    before = weights(team)
    groups = play(team, REWARDS)
    vocabulary = [c.token_ids for g in groups for e in g.episodes for c in [e.turns[0].actions["agent_1"]]]
    assert max(max(ids) for ids in vocabulary) < 5 + len(words)
    metrics = learner(team, learning_rate=0.1).update(groups)
    assert moved(before, team) == [set(state) for state in before]
    assert all(math.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize("chat", [True, False])
def test_a_model_without_pad_token_or_chat_template_learns_the_same(chat: bool) -> None:
    results: list[Any] = []
    for pad in (True, False):
        words = tokenizer(chat=chat)
        if not pad:
            words.pad_token = None
        team = Team({agent: LanguageModel(network(i, double=True), words) for i, agent in enumerate(AGENTS)})
        groups = play(team)
        learner(team, learning_rate=0.01).update(groups)
        texts = [c.token_ids for g in groups for e in g.episodes for c in e.turns[0].actions.values()]
        results.append((texts, gradients(team)))
    assert results[0][0] == results[1][0]
    assert close(results[0][1], results[1][1])


# --- restarts ---------------------------------------------------------------------------------------------------------


def test_a_restored_learner_continues_identically() -> None:
    first = separate_team(seed=1)
    mine = learner(first, learning_rate=0.01)
    mine.update(play(first))
    second = copy_of(first)
    restored = learner(second, learning_rate=0.01)
    restored.load_state_dict(copy.deepcopy(mine.state_dict()))
    for _ in range(2):
        mine.update(play(first))
        restored.update(play(second))
    assert same(weights(first), weights(second))


def test_a_learner_that_is_not_restored_continues_differently() -> None:
    first = separate_team(seed=1)
    mine = learner(first, learning_rate=0.01)
    mine.update(play(first))
    second = copy_of(first)
    mine.update(play(first))
    learner(second, learning_rate=0.01).update(play(second))
    assert not same(weights(first), weights(second))


def test_two_updates_are_reproducible_bit_for_bit() -> None:
    results: list[Any] = []
    for _ in range(2):
        team = separate_team(seed=1)
        mine = learner(team, learning_rate=0.01)
        metrics = [mine.update(play(team)) for _ in range(2)]
        results.append((metrics, weights(team)))
    assert results[0][0] == results[1][0]
    assert same(results[0][1], results[1][1])


# --- one agent --------------------------------------------------------------------------------------------------------


def test_magrpo_is_parallel_and_grpo_centralized() -> None:
    assert (MAGRPO.protocol, GRPO.protocol) == ("parallel", "centralized")


@pytest.mark.parametrize("kind", [MAGRPO, GRPO])
def test_both_are_learners(kind: type[MAGRPO]) -> None:
    assert isinstance(kind(softmax_team(), SAMPLING), Learner)


def test_grpo_trains_one_agent_through_the_centralized_protocol() -> None:
    """One agent that has to name both parts; it starts with some chance to."""
    env = with_protocol(match(), GRPO.protocol)
    policy = Softmax(words=("[left]\nred\n[right]\nred", "[left]\nred\n[right]\nblue", "red"))
    grpo = GRPO(Team({"agent_0": policy}), SAMPLING, MAGRPOConfig(learning_rate=0.2))
    train(grpo, env, SAMPLING, TrainerConfig(steps=20, prompts_per_step=4, group_size=4), seed=0)
    assert float(policy.logits.detach().softmax(-1)[0]) > 0.9
