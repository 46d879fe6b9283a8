"""Defects that were measured in the released trainer of the paper (comlrl 1.4.3) and traps of other trainers, each as a
guarantee of ours. Numbers are those of the list of defects; finer tests of each stand beside the code they are about.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from models import (
    AGENTS,
    ITEMS,
    Match,
    Recorder,
    Softmax,
    episode,
    gradients,
    group,
    language_model,
    match,
    network,
    said,
    softmax_team,
    tokenizer,
    weights,
)
from tasks import references
from updates import SAMPLING, TWO_WORDS, make, table_team, texts, updated

import llm_dec_pomdp
from llm_dec_pomdp.agents import Request, Sampling, Scripted, Team
from llm_dec_pomdp.agents.assembly import MemberConfig
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.benchmarks.cell import evaluate
from llm_dec_pomdp.benchmarks.setup import build_cell
from llm_dec_pomdp.benchmarks.suite import Cell, EnvironmentConfig, MethodConfig, ModelConfig
from llm_dec_pomdp.options import EvaluationConfig
from llm_dec_pomdp.progress import Silent
from llm_dec_pomdp.rollout import Rollout, Trajectories, Tree
from llm_dec_pomdp.training.loop import TrainerConfig, tasks_of_step
from llm_dec_pomdp.types import Completion, Group, Score, TaskItem, conversation

# --- the trainer of the paper -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chat", [True, False])
def test_1_the_last_token_and_a_one_token_action_are_trained(chat: bool) -> None:
    policy = language_model(1, chat=chat)
    first, second = (Completion("x", (5, 6), ids, (0.0,) * len(ids)) for ids in ((7, 8, 9), (7, 8, 10)))
    short = [replace(c, token_ids=c.token_ids[-1:], logprobs=(0.0,)) for c in (first, second)]
    for pair in ((first, second), short):
        team = Team({"agent_0": policy})
        metrics = make(team, learning_rate=0.0).update([group([1.0, 0.0], [{"agent_0": c} for c in pair])])
        assert metrics["tokens"] == sum(len(c.token_ids) for c in pair)
        assert metrics["grad_norm"] > 1e-3


def test_2_padding_is_never_trained_on() -> None:
    """Texts of 5 and 12 tokens in one batch: 17 targets, and the gradient is the sum of those of each alone."""
    policy = language_model(1, double=True)
    mine = [Completion("x", (5, 6), ids, (0.0,) * len(ids)) for ids in ((7, 8, 9, 10, 2), tuple(range(6, 18)))]
    team = Team({"agent_0": policy})
    metrics = make(team, learning_rate=0.0).update([group([1.0, 0.0], [{"agent_0": c} for c in mine])])
    assert metrics["tokens"] == 17
    found, wanted = gradients(team)[0], torch.zeros_like(gradients(team)[0])
    for c, advantage in zip(mine, (1.0, -1.0), strict=True):
        policy.model.zero_grad()
        logits = policy.model(torch.tensor([[*c.prompt_ids, *c.token_ids]])).logits[0, 1:-1]
        logp = logits.log_softmax(-1).gather(1, torch.tensor(c.token_ids)[:, None])
        (-advantage * logp.sum() / 17).backward()
        wanted += gradients(team)[0]
    assert float((found - wanted).abs().max()) < 1e-6 * float(wanted.abs().max())


def test_3_variants_are_different_estimators() -> None:
    groups = [group([1.0, 0.0, 0.0], texts([0], [1], [2])), group([5.0, 1.0], texts([2], [1]))]
    found: list[torch.Tensor] = []
    for advantage in ("std", "raw", "leave_one_out", "max"):
        team = table_team()
        make(team, advantage=advantage).update(groups)
        [gradient] = gradients(team)
        found.append(gradient / gradient.norm())
    assert all(float((a - b).norm()) > 0.05 for i, a in enumerate(found) for b in found[:i])


@pytest.mark.parametrize(
    ("gamma", "wanted"),
    [(0.0, [0.0, 0.5, 0.0, -0.5]), (0.5, [0.25, 0.5, -0.25, -0.5]), (1.0, [0.5, 0.5, -0.5, -0.5])],
)
def test_4_the_discount_has_an_effect(gamma: float, wanted: list[float]) -> None:
    """Two episodes of two turns that earn 1, 1 and 1, 0."""
    episodes = tuple(episode(rewards, texts([0], [1])) for rewards in ([1.0, 1.0], [1.0, 0.0]))
    found = make(table_team(), gamma=gamma, advantage="mean").samples([Group("t", episodes)])
    turns = {(s.completion.token_ids, s.advantage) for s in found}
    assert turns == {((turn,), advantage) for turn, advantage in zip((0, 1, 0, 1), wanted, strict=True)}


@pytest.mark.parametrize("rollout", [Trajectories(), Tree(), Tree("cross")])
@pytest.mark.parametrize("reward", [0.0, 0.5])
def test_5_rewards_do_not_switch_later_turns_off(rollout: Rollout, reward: float) -> None:
    class Paid(Match):
        def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
            return Score(reward, {"match": reward})

    team = Team({a: Scripted(lambda agent, history: "x") for a in AGENTS})
    [played] = rollout.play(Paid(ITEMS, max_turns=3), team, ["t1"], [0], SAMPLING, 2)
    assert {len(e.turns) for e in played.episodes} == {3}


def test_6_crossed_texts_are_credited_with_their_own_marginals() -> None:
    """agent_0 decides: its own texts differ in worth, those of agent_1 do not, in every combination."""

    class First(Match):
        def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
            value = float(actions["agent_0"] == "red")
            return Score(value, {"match": value})

    team = softmax_team()
    learner = make(team, credit="crossed", advantage="mean")
    groups = learner.rollout.play(First(ITEMS), team, ["t1", "t2", "t3"], [1, 2, 3], SAMPLING, 4)
    for one_group in groups:
        found = learner.samples([one_group])
        red = [float(s.completion.text == "red") for s in found if s.agent == "agent_0"]
        assert [s.advantage for s in found] == pytest.approx([*(r - sum(red) / 4 for r in red), 0, 0, 0, 0])


def test_7_no_token_is_cut_off_unless_asked() -> None:
    """A flat distribution over 90 words: more than 50 of them are drawn, whatever the model's own settings say."""
    words = [f"w{i}" for i in range(90)]
    model = network(0, spread=1e-4, vocab_size=95)
    model.generation_config.top_k = 50
    policy = LanguageModel(model, tokenizer(words=words))
    [drawn] = policy.generate([Request("a", conversation("w1"), tuple(range(400)))], Sampling(max_new_tokens=1))
    assert Sampling().top_k == 0
    assert len({c.token_ids for c in drawn}) > 80


def test_8_what_has_no_score_is_left_out_and_errors_of_a_reward_are_raised_once() -> None:
    with_it = updated(table_team(), [group([1.0, 0.0, math.nan], texts([0, 1], [2], [1, 1, 1]))])
    without = updated(table_team(), [group([1.0, 0.0], texts([0, 1], [2]))])
    assert with_it[0] == without[0] | {"generations": 3.0}  # it was drawn all the same
    assert torch.equal(with_it[1][0], without[1][0])

    class Mistaken(Match):
        calls = 0

        def score(self, item: TaskItem, actions: Mapping[str, str]) -> Score:
            Mistaken.calls += 1
            raise TypeError("the user's own mistake")

    with pytest.raises(TypeError, match="the user's own mistake"):
        Trajectories().play(Mistaken(ITEMS), Team(dict.fromkeys(AGENTS, Recorder())), ["t1"], [0], SAMPLING)
    assert Mistaken.calls == 1


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_9_log_probabilities_are_those_of_the_sampling_temperature(temperature: float) -> None:
    team = table_team()
    make(team, sampling=Sampling(temperature=temperature)).update([TWO_WORDS])
    wanted = torch.tensor([-0.5, 0.5, 0.0]) / temperature  # the softmax itself cancels between the two texts
    torch.testing.assert_close(gradients(team)[0], wanted)
    policy = language_model(1)
    sampling = Sampling(temperature=temperature, max_new_tokens=6)
    [[drawn]] = policy.generate([Request("a", conversation("say red"), (3,))], sampling)
    found, _ = policy.token_logprobs([("a", drawn)], temperature)
    assert found[0].tolist() == pytest.approx(drawn.logprobs, abs=1e-5)


def test_10_evaluation_takes_every_test_row_and_training_shuffles() -> None:
    cell = Cell(
        EnvironmentConfig(id="tldr-v0"),
        MethodConfig(name="concat"),
        ModelConfig(members=[MemberConfig(agents=["summary", "elaboration"], model="script:random")]),
        0,
        Sampling(max_new_tokens=1),
        TrainerConfig(),
        EvaluationConfig(),
    )
    groups: list[Group] = []
    evaluate(cell, build_cell(cell), Silent(), "", groups.extend)
    rows = [item.id for item in llm_dec_pomdp.make("tldr-v0", split="test").items]
    assert [g.item_id for g in groups] == rows
    assert len(rows) > 4
    env = match()
    size = len(env.items)
    epochs = [tasks_of_step(env, size, number, 0) for number in (1, 2)]
    assert epochs[0] != epochs[1]
    assert [item.id for item in env.items] not in epochs


# --- traps of others --------------------------------------------------------------------------------------------------


def test_uneven_groups_are_not_normalised_together() -> None:
    rewards = [[1.0, 0.0, 0.0, 1.0], [0.7, 0.7, 0.7], [3.0, 1.0, 1.0, 3.0]]
    found = make(table_team()).samples([group(r, texts(*([0],) * len(r))) for r in rewards])
    assert [s.advantage for s in found] == [1, -1, -1, 1, 0, 0, 0, 1, -1, -1, 1]


def test_a_rollout_of_many_texts_counts_once() -> None:
    many = {f"agent_{i}": said(i) for i in range(3)}
    team = Team({agent: Softmax() for agent in many})
    found = make(team, advantage="mean").samples([group([1.0, 0.0], [many, {"agent_0": said(1)}])])
    assert [s.advantage for s in found] == [0.5, 0.5, 0.5, -0.5]


def test_a_single_episode_is_not_given_its_raw_reward() -> None:
    team = table_team()
    before = weights(team)
    for advantage in ("std", "leave_one_out", "max"):
        make(team, advantage=advantage, learning_rate=0.1).update([group([3.0], texts([0]))])
    assert torch.equal(before[0]["logits"], weights(team)[0]["logits"])


def test_what_was_sampled_is_trained_and_not_its_text() -> None:
    """Ids whose text would be read as other tokens, or as none: "<unk>" and special tokens in the middle."""
    policy = language_model(1)
    odd = Completion(policy.decode((0, 2, 7, 1, 8)), (5, 6), (0, 2, 7, 1, 8), (0.0,) * 5)
    assert policy.tokenizer(odd.text, add_special_tokens=False)["input_ids"] != list(odd.token_ids)
    asked: list[tuple[int, ...]] = []

    class Watched(LanguageModel):
        def token_logprobs(self, samples: Any, temperature: float) -> Any:
            asked.extend(c.token_ids for _, c in samples)
            found = super().token_logprobs(samples, temperature)
            assert found[1].sum() == sum(len(c.token_ids) for _, c in samples)
            return found

    watched = Watched(policy.model, policy.tokenizer)
    make(Team({"agent_0": watched})).update([group([1.0, 0.0], [{"agent_0": odd}, {"agent_0": said(7, 8)}])])
    assert (0, 2, 7, 1, 8) in asked


@pytest.mark.parametrize("env_id", ["tldr-v0", "arxiv-v0", "coophumaneval-v0"])
def test_an_unusable_last_action_pays_no_part_of_what_came_before(env_id: str) -> None:
    """The partner's text is perfect; an empty one beside it ends the episode and takes all that depends on both."""
    env: Any = llm_dec_pomdp.make(env_id, max_turns=1)
    env.reset(options={"index": 0})
    gold = references(env, env.item)
    last = env.possible_agents[-1]
    _, rewards, terminations, _, _ = env.step({**gold, last: ""})
    assert all(terminations.values())
    assert rewards[last] < 0.15 * env.facts.reward_range[1]
