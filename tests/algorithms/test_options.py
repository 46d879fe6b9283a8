"""Every option of the learners does something, and what cannot work together is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from models import AGENTS, Softmax, copy_of, gradients, group, match, same, save_model, weights
from updates import SAMPLING, THREE, TWO_WORDS, P, make, play, table_team, texts

from llm_dec_pomdp.agents import Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.algorithms.credit import CREDITS, CrossedCredit
from llm_dec_pomdp.algorithms.options import MAGRPOConfig, UpdaterOptions
from llm_dec_pomdp.algorithms.registration import algorithms, build_algorithm, find_algorithm
from llm_dec_pomdp.config import ConfigError, build
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Counterfactual, Messages, Rollout, Tree
from llm_dec_pomdp.types import Completion, Group

FAMILY = ["magrpo", "mareinforce", "marloo", "maremax", "grpo"]


def after(team: Team, groups: Sequence[Group], updates: int = 1, **options: Any) -> Any:
    """Weights after some updates of a copy."""
    mine = copy_of(team)
    learner = make(mine, **options)
    for _ in range(updates):
        learner.update(groups)
    return weights(mine)


# --- the family -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("magrpo", [-(2**-0.5), 2**0.5, -(2**-0.5)]),
        ("mareinforce", [1.0, 4.0, 1.0]),
        ("marloo", [-1.5, 3.0, -1.5]),
        ("maremax", [-3.0, 0.0, -3.0]),
    ],
)
def test_relatives_on_paper(name: str, wanted: list[float]) -> None:
    found = build_algorithm(name, {}, table_team(), SAMPLING).samples([group([1.0, 4.0, 1.0], texts([0], [0], [0]))])
    assert [s.advantage for s in found] == pytest.approx(wanted)


@pytest.mark.parametrize("name", FAMILY)
def test_relatives_learn_what_is_rewarded(name: str) -> None:
    assert find_algorithm(name).protocol == ("centralized" if name == "grpo" else "parallel")
    team = table_team()
    learner = build_algorithm(name, {"learning_rate": 0.1, "max_grad_norm": 1e9}, team, SAMPLING)
    assert learner.learns()
    for _ in range(20):
        learner.update([TWO_WORDS])
    found = weights(team)[0]["logits"].softmax(-1)
    assert found[0] > P[0] + 0.01
    assert found[1] < P[1] - 0.05


@pytest.mark.parametrize("name", ["mareinforce", "marloo", "maremax"])
@pytest.mark.parametrize("options", [{"advantage": "std"}, {"credit": "counterfactual"}])
def test_a_relative_has_the_baseline_of_its_name(name: str, options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="advantage"):
        find_algorithm(name).config(options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("magrpo", {}),
        (
            "magrpo",
            {"learning_rate": 0.1, "credit": "message", "alternatives": 2, "objective": "cispo", "clip_high": 3.0},
        ),
        ("mgrpo", {"objective": "clipped", "ratio": "trajectory", "train": ["main"]}),
        ("marloo", {"advantage": "leave_one_out", "credit": "joint"}),
    ],
)
def test_a_configuration_comes_back_from_the_options_that_were_given(name: str, options: dict[str, Any]) -> None:
    config = find_algorithm(name).config(options)
    assert config.given() == options
    assert find_algorithm(name).config(json.loads(json.dumps(config.given()))) == config


def test_a_registered_learner_names_the_class_of_its_own_options() -> None:
    for name in algorithms:
        spec = find_algorithm(name)
        options = {"source": "pairs.jsonl"} if name == "reward_model" else {}
        assert type(spec.config(options)) is spec.load().Config


def test_a_learner_refuses_a_configuration_of_another_class() -> None:
    with pytest.raises(TypeError, match=r"MAGRPOConfig.*UpdaterOptions"):
        find_algorithm("magrpo").build(table_team(), SAMPLING, UpdaterOptions())


def test_a_relative_crosses_texts_with_its_own_baseline() -> None:
    config: Any = find_algorithm("marloo").config({"credit": "crossed"})
    assert config.credit == CrossedCredit(advantage="leave_one_out")


# --- a term of its own ------------------------------------------------------------------------------------------------


def test_the_gradient_of_the_kl_term_by_hand() -> None:
    """Away from the reference, with equal returns: mean over texts k of (1 - q_k / p_k) (1[k] - p)."""
    policy = Softmax(**THREE)
    learner = make(Team({"agent_0": policy}), beta=0.5)
    q = P.clone()
    with torch.no_grad():
        policy.logits.add_(torch.tensor([0.5, 0.0, -0.5]))
    p = policy.logits.detach().softmax(-1)
    metrics = learner.update([group([1.0, 1.0], texts([0], [1]))])
    wanted = sum((1 - q[k] / p[k]) * (torch.eye(3)[k] - p) for k in (0, 1)) / 2
    torch.testing.assert_close(gradients(learner.team)[0], 0.5 * wanted)
    k3 = [float(q[k] / p[k] - 1 - (q[k] / p[k]).log()) for k in (0, 1)]
    assert metrics["kl"] == pytest.approx(sum(k3) / 2, rel=1e-5)
    assert metrics["loss"] == pytest.approx(0.5 * sum(k3) / 2, rel=1e-5)


def test_the_gradient_of_the_entropy_bonus_by_hand() -> None:
    team = table_team()
    metrics = make(team, entropy=0.25).update([group([1.0, 1.0], texts([0], [1]))])
    entropy = float(-(P * P.log()).sum())
    assert metrics["entropy"] == pytest.approx(entropy, rel=1e-5)
    torch.testing.assert_close(gradients(team)[0], 0.25 * P * (P.log() + entropy))  # - 0.25 dH / d logits


class Silent(Softmax):
    """A trainable policy that does not know its entropy."""

    knows_entropy = False


def test_a_policy_without_entropy_is_named() -> None:
    make(Team({"agent_0": Silent(**THREE)})).update([TWO_WORDS])
    with pytest.raises(ValueError, match=r"entropy is 0\.1.*Silent"):
        make(Team({"agent_0": Silent(**THREE)}), entropy=0.1)


# --- the reference ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("model"), seed=3)


def test_under_adapters_the_reference_shares_their_base_and_they_learn_beside_it(folder: str) -> None:
    team = load_team(AGENTS, folder, sharing="lora", device="cpu")
    learner, before = make(team, beta=0.1, learning_rate=0.01), weights(team)
    [updater], [policy] = learner.updaters, team.trainable
    ours, theirs = (set(map(id, each.model.parameters())) for each in (policy, updater.reference))  # type: ignore[union-attr]
    assert ours - theirs == set(map(id, policy.parameters()))
    kl = [learner.update(play(team))["kl"] for _ in range(3)]
    assert kl[0] == pytest.approx(0.0, abs=1e-6)
    assert kl[2] > kl[0]
    assert not same(before, weights(team))


def test_under_adapters_the_reference_is_the_base_for_every_agent(folder: str) -> None:
    team = load_team(AGENTS, folder, sharing="lora", device="cpu")
    base = load_team(AGENTS, folder, sharing="shared", device="cpu")
    learner = make(team, beta=0.1)
    pairs = [(a, c) for g in play(base) for e in g.episodes for a, c in e.turns[0].actions.items()]
    for i, parameter in enumerate(team.trainable[0].parameters()):
        with torch.no_grad():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i)))
    wanted, mask = base.trainable[0].token_logprobs(pairs, 1.0)
    [updater] = learner.updaters
    found, _ = updater.reference.token_logprobs(pairs, 1.0)  # type: ignore[union-attr]
    logprobs, _ = team.trainable[0].token_logprobs(pairs, 1.0)
    torch.testing.assert_close(found * mask, wanted * mask)
    assert float(((logprobs - wanted) * mask).detach().abs().max()) > 0.01


def test_of_a_whole_model_the_reference_is_a_copy_that_stays(team: Team, groups: list[Group]) -> None:
    assert [u.reference for u in make(copy_of(team)).updaters] == [None, None]
    mine = copy_of(team)
    learner = make(mine, beta=0.1, learning_rate=0.05)
    before = weights(mine)
    learner.update(groups)
    assert same([u.reference.state_dict() for u in learner.updaters], before)  # type: ignore[union-attr]
    assert not same(weights(mine), before)


# --- optimizer steps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_after_the_horizon_nothing_moves(schedule: str, team: Team, groups: list[Group]) -> None:
    options = {"schedule": schedule, "horizon": 2, "learning_rate": 0.01}
    assert same(after(team, groups, 2, **options), after(team, groups, 4, **options))


def test_a_learning_rate_of_zero_is_a_control(team: Team, groups: list[Group]) -> None:
    assert same(after(team, groups, 3, learning_rate=0.0, weight_decay=0.1), weights(team))


def test_weight_decay_draws_weights_to_zero(team: Team, groups: list[Group]) -> None:
    def size(decay: float) -> float:
        found = after(team, groups, 5, weight_decay=decay, learning_rate=0.01)
        return sum(float(t.square().sum()) for state in found for t in state.values())

    assert size(5.0) < 0.8 * size(0.0)


def passes(texts: int = 4, **options: Any) -> list[list[int]]:
    """Which words every forward pass with a gradient was about."""

    class Counting(Softmax):
        def token_logprobs(self, samples: Any, temperature: float) -> Any:
            if torch.is_grad_enabled():
                seen.append([c.token_ids[0] for _, c in samples])
            return super().token_logprobs(samples, temperature)

    seen: list[list[int]] = []
    completions = [Completion("x", (number,), (number % 3,), (0.0,)) for number in range(texts)]
    rounds = [group([1.0, 0.0], [{"agent_0": c}, {"agent_0": c}]) for c in completions]
    make(Team({"agent_0": Counting(**THREE)}), **options).update(rounds)
    return seen


def test_every_sample_is_in_one_minibatch_of_every_epoch() -> None:
    seen = passes(8, minibatches=2, epochs=3)
    assert [len(words) for words in seen] == [8] * 6
    for epoch in range(3):
        assert sorted(seen[2 * epoch] + seen[2 * epoch + 1]) == sorted([n % 3 for n in range(8)] * 2)
    assert len({tuple(words) for words in seen}) > 2


def test_there_are_no_more_minibatches_than_prompts() -> None:
    assert len(passes(2, minibatches=9)) == 2


def test_the_micro_batch_is_the_size_of_a_forward_pass() -> None:
    assert [len(words) for words in passes(micro_batch=3)] == [3, 3, 2]


def test_a_later_minibatch_refers_to_the_policy_that_sampled() -> None:
    """Two prompts, one step each, by hand: the second gradient is weighted by rho, and not by 1."""
    pairs = [[Completion("x", (n,), (k,), (0.0,)) for k in (0, 1)] for n in range(2)]
    rounds = [group([1.0, 0.0], [{"agent_0": c} for c in pair]) for pair in pairs]
    twice, once = table_team(), table_team()
    options = {"learning_rate": 0.05, "clip_low": 1.0, "clip_high": 100.0}
    make(twice, minibatches=2, **options).update(rounds)
    make(once, **options).update(rounds[:1])
    logits = weights(once)[0]["logits"].requires_grad_()
    rho = logits.softmax(-1) / P
    (-(rho[0] - rho[1]) / 2).backward()
    torch.testing.assert_close(gradients(twice)[0], logits.grad)


# --- what is played ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "rollout"),
    [
        ({"tree": True, "credit": "crossed"}, Tree("cross")),
        ({"credit": "counterfactual", "continuation": "resampled"}, Counterfactual("resampled")),
        (
            {"credit": "message", "continuation": "frozen", "alternatives": 0, "silence": True, "budget": 9},
            Messages("frozen", 0, True, 9),
        ),
    ],
)
def test_the_rollout_follows_from_the_options(options: dict[str, Any], rollout: Rollout) -> None:
    assert make(table_team(), **options).rollout == rollout


def test_groups_without_the_decisions_that_credit_needs_are_refused() -> None:
    with pytest.raises(ValueError, match="task 't'"):
        make(table_team(), credit="crossed").update([TWO_WORDS])


@pytest.mark.parametrize("kind", ["std", "mean", "raw"])
def test_one_turn_of_a_tree_is_trajectories_side_by_side(kind: str) -> None:
    team = Team({agent: Softmax() for agent in AGENTS})
    found: list[Any] = []
    for tree in (False, True):
        learner = make(team, advantage=kind, tree=tree)
        groups = learner.rollout.play(match(), team, ["t1", "t2"], [1, 2], SAMPLING, 5)
        found.append(sorted([(s.agent, s.completion, s.advantage) for s in learner.samples(groups)], key=repr))
    assert found[0] == found[1]


def test_crossing_one_agent_changes_nothing() -> None:
    env = with_protocol(match(), "centralized")
    results: list[Any] = []
    for credit in ("joint", "crossed"):
        team = Team({"agent_0": Softmax(words=("[left]\nred\n[right]\nred", "red", "no"))})
        learner = make(team, credit=credit, learning_rate=0.1)
        learner.update(learner.rollout.play(env, team, ["t1", "t2"], [1, 2], SAMPLING, 4))
        results.append(weights(team))
    assert same(results[0], results[1])


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"credit": "counterfactual", "advantage": "std"}, "advantage: "),
        ({"credit": "counterfactual", "advantage": "batch"}, "advantage: "),
        ({"credit": "counterfactual", "tree": True}, "tree: "),
        ({"continuation": "resampled"}, "continuation: "),
        ({"credit": "crossed", "continuation": "frozen"}, "continuation: "),
        ({"credit": "message", "alternatives": 0}, "alternatives is 0"),
        ({"alternatives": 2}, "alternatives: "),
        ({"credit": "cross"}, "'cross'.*crossed"),
        ({"credit": ["crossed"]}, "'crossed'"),
        ({"advantage": "role", "tree": True}, "role"),
        ({"advantage": "role", "credit": "crossed"}, "role"),
        ({"advantage": "role", "replacements": 1}, "replacements is 1"),
        ({"advantage": "mean", "baseline_decay": 0.9}, "'mean'"),
        ({"replacements": 2, "advantage": "batch"}, "replacements"),
        ({"replacements": 2, "advantage": "agent"}, "replacements"),
        ({"ratio": "sequence", "average": "sequences"}, "ratio='sequence'"),
        ({"ratio": "sequence_mean", "average": "sequences"}, "ratio='sequence_mean'"),
        ({"ratio": "sequence", "importance": "token"}, "importance='token'"),
        ({"average": "constant"}, "normaliser"),
        ({"normaliser": 5}, "normaliser"),
        ({"objective": "cispo", "dual_clip": 3.0}, "dual_clip"),
        ({"objective": "clip"}, "'clip'"),
        ({"dual_clip": 1.0}, "dual_clip"),
        ({"schedule": "cosine", "warmup": 5, "horizon": 5}, "update 5"),
        ({"horizon": 5}, "horizon=5"),
        ({"gamma": 1.5}, r"gamma = 1\.5"),
        ({"epochs": 0}, "epochs = 0"),
        ({"learning_rate": "high"}, "'high'"),
        ({"max_grad_norm": 0}, "max_grad_norm = 0"),
        ({"learning_rat": 0.1}, "learning_rat: .*learning_rate"),
        ({"clip_hihg": 0.3}, "clip_hihg.*clip_high"),
    ],
    ids=str,
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(MAGRPOConfig, options, source="options of magrpo")


def test_every_option_is_explained() -> None:
    for kind in (MAGRPOConfig, *CREDITS.values()):
        assert [name for name, field in kind.model_fields.items() if not field.description] == []


def test_numbers_stay_finite_with_everything_switched_on(team: Team, groups: list[Group]) -> None:
    options = {"beta": 0.1, "entropy": 0.01, "epochs": 2, "minibatches": 2, "weight_decay": 0.1, "warmup": 2}
    metrics = make(copy_of(team), **options, schedule="cosine", horizon=9, ratio="sequence").update(groups)
    assert all(math.isfinite(value) for value in metrics.values())
    of_the_texts = {"truncated", "length", "length_max", "groups_without_signal", "advantage_spread"}
    of_the_texts |= {"surprisal", "distinct_2"}
    of_the_sampler = {"sampler_gap", "sampler_gap_max", "sampler_gap_share"}
    of_the_steps = {"loss", "grad_norm", "skipped", "clipped", "tokens", "kl", "entropy", "kl_estimate"}
    of_the_rollout = {"generations", "joint_rewards"}
    assert set(metrics) == of_the_steps | of_the_texts | of_the_sampler | of_the_rollout
