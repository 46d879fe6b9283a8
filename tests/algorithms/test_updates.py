"""Which weights an update moves, and what happens to it when something is not as it should be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from models import (
    AGENTS,
    Softmax,
    group,
    language_model,
    match,
    network,
    same,
    sampled,
    save_model,
    separate_team,
    softmax_team,
    tokenizer,
    weights,
)
from peft import LoraConfig, get_peft_model
from updates import SAMPLING, THREE, TWO_WORDS, both, make, moved, play, texts

from llm_dec_pomdp.agents import Sampling, Scripted, Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.training import TrainerConfig, train
from llm_dec_pomdp.types import Completion, Group

FIXED = Scripted(lambda agent, history: "fixed")

# --- which parameters move --------------------------------------------------------------------------------------------


def test_every_parameter_of_every_agent_changes() -> None:
    """A group without any score beside the others does not stop them."""
    team = separate_team(seed=1)
    before = weights(team)
    metrics = make(team, learning_rate=0.1).update(play(team, [[math.nan, math.nan], [1.0, 0.0, 0.5]]))
    assert moved(before, team) == [set(state) for state in before]
    assert all(math.isfinite(value) for value in metrics.values())


def test_every_adapter_parameter_changes_and_the_base_does_not(tmp_path: Any) -> None:
    team = load_team(AGENTS, save_model(tmp_path, seed=3), sharing="lora", device="cpu")
    [policy] = team.policies
    assert isinstance(policy, LanguageModel)
    for parameter in policy.parameters():
        with torch.no_grad():
            parameter.add_(0.05)  # a new adapter has one factor at zero, which keeps the other in its place
    base = {n: p.clone() for n, p in policy.model.named_parameters() if not p.requires_grad}
    before = weights(team)
    make(team, learning_rate=0.1).update(play(team))
    assert moved(before, team) == [set(state) for state in before]
    assert same([base], [{n: p for n, p in policy.model.named_parameters() if not p.requires_grad}])


@pytest.mark.parametrize(
    "rewards",
    [[[1.0, 1.0, 1.0], [0.0, 0.0]], [[2.0], [0.0]], [[math.nan, math.nan]], [[math.nan, 1.0]], []],
    ids=["equal returns", "groups of one", "unscored", "one scored", "no groups"],
)
def test_nothing_changes_without_an_advantage(rewards: list[list[float]]) -> None:
    team = separate_team(seed=1)
    before = weights(team)
    metrics = make(team, learning_rate=0.1, weight_decay=0.1).update(play(team, rewards))
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


def without(groups: Sequence[Group], agent: str) -> list[Group]:
    """The same groups, in which an agent said nothing."""
    silent: list[Group] = []
    for g in groups:
        spoken = [{a: c for a, c in e.turns[0].actions.items() if a != agent} for e in g.episodes]
        silent.append(group([e.total for e in g.episodes], spoken))
    return silent


@adapts
@pytest.mark.parametrize("build", [lambda: separate_team(seed=1), adapted_team], ids=["separate", "lora"])
def test_who_has_nothing_to_learn_stays_as_it_is(build: Callable[[], Team]) -> None:
    """Neither momentum nor weight decay moves it, whatever the others learn."""
    team = build()
    mine = make(team, learning_rate=0.1, weight_decay=0.1)
    mine.update(play(team))
    before = weights(team)
    mine.update(play(team, [[1.0, 1.0]]))
    assert not any(moved(before, team))
    mine.update(without(play(team), "agent_1"))
    first, *others = moved(before, team)
    assert first
    assert not any(".agent_1." in name for name in first)
    assert others in ([], [set()])


@adapts
def test_the_gradient_of_an_adapter_is_scaled_down_without_regard_to_the_others() -> None:
    found: list[list[torch.Tensor]] = []
    norms: list[float] = []
    for together in (True, False):
        team = adapted_team()
        groups = play(team)
        mine = make(team, learning_rate=0.0, max_grad_norm=0.01)
        norms.append(mine.update(groups if together else without(groups, "agent_1"))["grad_norm"])
        [policy] = team.policies
        assert isinstance(policy, LanguageModel)
        found.append([p.grad for p in policy.parameters_of("agent_0") if p.grad is not None])
    assert float(torch.cat([g.flatten() for g in found[0]]).norm()) == pytest.approx(0.01, rel=1e-3)
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-7)
    assert norms[0] > norms[1] > 0.01  # of all that is trained, before


@pytest.mark.parametrize("member", [FIXED, Softmax(**THREE)], ids=["scripted", "trainable"])
def test_a_member_whose_texts_have_no_tokens_is_left_alone(member: Any) -> None:
    team = Team({"agent_0": Softmax(**THREE), "agent_1": member})
    before, fixed = weights(team), Completion("fixed")
    metrics = make(team, learning_rate=0.1).update(
        [group([1.0, 0.0], [both(sampled(0), fixed), both(sampled(1), fixed)])]
    )
    assert moved(before, team) == [{"logits"}, set()][: len(before)]
    assert metrics["tokens"] == 2 / len(before)


def test_members_with_different_tokenizers_learn_together() -> None:
    """Ids never leave their policy: the same words have other numbers, and vocabularies of other sizes."""
    words = ("blue", "then", "red", "green", "black", "say", "please")
    other = LanguageModel(network(2, vocab_size=5 + len(words)), tokenizer(words=words, chat=False))
    team = Team({"agent_0": language_model(seed=1), "agent_1": other})
    before, groups = weights(team), play(team)
    drawn = [e.turns[0].actions["agent_1"].token_ids for g in groups for e in g.episodes]
    assert max(max(ids) for ids in drawn) < 5 + len(words)
    metrics = make(team, learning_rate=0.1).update(groups)
    assert moved(before, team) == [set(state) for state in before]
    assert all(math.isfinite(value) for value in metrics.values())


def test_an_empty_text_is_trained_on_its_end_token() -> None:
    """An agent that stops at once has said something: the end of its turn."""
    policy = language_model(seed=1)
    [stop] = policy.stop_ids
    empty, word = Completion("", (5, 6), (stop,), (0.0,)), Completion("red", (5, 6), (5,), (0.0,))
    team = Team({"agent_0": policy})
    before, _ = (x.detach() for x in policy.token_logprobs([("agent_0", empty)], 1.0))
    metrics = make(team, learning_rate=0.01).update([group([0.0, 1.0], [{"agent_0": empty}, {"agent_0": word}])])
    assert metrics["tokens"] == 2
    after, _ = (x.detach() for x in policy.token_logprobs([("agent_0", empty)], 1.0))
    assert float(after) < float(before)


def test_a_whole_run_of_empty_texts_learns_nothing_and_goes_on() -> None:
    class Mute(Softmax):
        def _say(self, seed: int, sampling: Sampling) -> Completion:
            return Completion("", (0,), (), ())

    team = Team({agent: Mute() for agent in AGENTS})
    before = weights(team)
    train(make(team), match(), SAMPLING, TrainerConfig(steps=2, prompts_per_step=2, group_size=3), 0)
    assert same(before, weights(team))


# --- who cannot be trained --------------------------------------------------------------------------------------------


@adapts
def test_two_policies_on_one_network_are_refused() -> None:
    [policy] = adapted_team().policies
    assert isinstance(policy, LanguageModel)
    team = Team({a: LanguageModel(policy.model, tokenizer(), adapters=policy.adapters) for a in AGENTS})
    with pytest.raises(ValueError, match="'agent_0' and 'agent_1' have two policies on the same network"):
        make(team)


def test_bfloat16_weights_are_trained_with_a_warning_and_float16_ones_are_not() -> None:
    advice = "load the model with dtype 'float32', or train adapters"
    brain, half = (
        Team({a: LanguageModel(network().to(dtype), tokenizer()) for a in AGENTS})
        for dtype in (torch.bfloat16, torch.float16)
    )
    with pytest.warns(UserWarning, match=f"are bfloat16, .* {advice}"):
        make(brain)
    with pytest.raises(ValueError, match=f"are float16, .* {advice}"):
        make(half)


def test_somebody_must_be_trainable() -> None:
    with pytest.raises(ValueError, match="no policy of the team can be trained"):
        MAGRPO(Team({"agent_0": FIXED}), SAMPLING)


# --- accidents --------------------------------------------------------------------------------------------------------


class Broken(Softmax):
    """Its loss or only its gradient is not finite while `broken` says so."""

    broken: str = "loss"

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logprobs, mask = super().token_logprobs(samples, temperature)
        if self.broken == "loss":
            logprobs = logprobs * math.nan
        if self.broken == "gradient":
            logprobs = logprobs + (self.logits[0] - self.logits[0].detach()).abs().sqrt()
        return logprobs, mask


@pytest.mark.parametrize("broken", ["loss", "gradient"])
def test_a_step_that_is_not_finite_is_skipped_and_leaves_no_trace_in_the_optimizer(broken: str) -> None:
    fresh, policy = Softmax(**THREE), Broken(**THREE)
    mine = make(Team({"agent_0": policy}), learning_rate=0.1)
    policy.broken = broken
    metrics = mine.update([TWO_WORDS])
    assert torch.equal(fresh.logits, policy.logits)
    assert metrics["skipped"] == 1
    assert not math.isfinite(metrics["grad_norm"])
    policy.broken = ""
    mine.update([TWO_WORDS])
    make(Team({"agent_0": fresh}), learning_rate=0.1).update([TWO_WORDS])
    assert torch.equal(fresh.logits, policy.logits)


def test_one_members_accident_does_not_stop_the_other() -> None:
    team = Team({"agent_0": Broken(**THREE), "agent_1": Softmax(**THREE)})
    before = weights(team)
    metrics = make(team, learning_rate=0.1).update([group([1.0, 0.0], [both(sampled(0)), both(sampled(1))])])
    assert moved(before, team) == [set(), {"logits"}]
    assert math.isnan(metrics["loss"])
    assert metrics["skipped"] == 0.5


@pytest.mark.parametrize("reward", [math.inf, -math.inf])
def test_an_infinite_reward_is_named_and_nothing_moves(reward: float) -> None:
    team = softmax_team(**THREE)
    before = weights(team)
    with pytest.raises(ValueError, match=rf"task 't' rewards the team with {reward}"):
        make(team).update([group([reward, 0.0], texts([0], [1]))])
    assert same(before, weights(team))


def test_greedy_samples_teach_nothing_and_are_refused() -> None:
    with pytest.raises(ValueError, match="the temperature is 0"):
        make(softmax_team(**THREE), sampling=Sampling(temperature=0)).update([TWO_WORDS])
