"""The recipes of docs/extend.md: each file of examples/recipes does what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from models import AGENTS, Softmax, episode, gradients, language_model, match, sampled, softmax_team

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.engines import ENGINES
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.algorithms.critics import ValueTarget
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.algorithms.samples import Sample
from llm_dec_pomdp.envs import check_env, make
from llm_dec_pomdp.envs.wrappers import PROTOCOLS, with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Completion, Group

Example = Callable[[str], dict[str, Any]]
ONE_WORD = Sampling(max_new_tokens=1)


def play(team: Team, step: int = 0) -> list[Group]:
    return Trajectories().play(match(), team, ["t0", "t1"], [2 * step, 2 * step + 1], ONE_WORD, 4)


def test_a_credit_gives_long_texts_less(example: Example) -> None:
    team = softmax_team()
    groups = play(team)
    plain, brief = (kind(team, ONE_WORD).samples(groups) for kind in (MAGRPO, example("credit")["Brief"]))
    assert any(sample.advantage for sample in plain)
    for sample, other in zip(plain, brief, strict=True):
        assert other.advantage == pytest.approx(sample.advantage / (1 + len(sample.completion.token_ids) / 100))


def test_later_tokens_count_more(example: Example) -> None:
    learner = example("token_advantages")["Discounted"](softmax_team(length=3), ONE_WORD)
    [first, *_] = learner.samples(play(learner.team))
    assert first.tokens == pytest.approx((0.99**2, 0.99, 1.0))


def text(words: str) -> Completion:
    return Completion(words, (0,), tuple(range(len(words.split()))), (0.0,) * len(words.split()))


def test_pairs_are_those_that_a_learner_says(example: Example) -> None:
    learner = example("pairs")["ShortestOfTheBest"](softmax_team(), ONE_WORD)
    played = [(1.0, "a b c"), (1.0, "a"), (0.0, "b"), (1.0, "a b")]
    group = Group("t", tuple(episode([reward], [{"agent_0": text(words)}]) for reward, words in played))
    assert [(t.completion.text, t.sign) for pair in learner.pairs([group]) for t in pair] == [("a", 1), ("a b c", -1)]


def test_an_objective_of_pairs_has_its_own_gradient(example: Example) -> None:
    kind = example("pair_objective")["IPO"]
    team = softmax_team(words=["a", "b", "c"])
    learner = kind(team, ONE_WORD, kind.Config(beta=0.5, max_grad_norm=1e9, learning_rate=0.0))
    played = [episode([reward], [dict.fromkeys(AGENTS, sampled(k))]) for reward, k in ((1.0, 0), (0.0, 1))]
    metrics = learner.update([Group("t", tuple(played))])
    assert metrics["preference_loss"] == pytest.approx(1.0)  # (0 - 1)^2 at the reference
    for gradient in gradients(team):
        torch.testing.assert_close(gradient, torch.tensor([-2.0, 2.0, 0.0]))


def test_an_objective_of_texts_keeps_the_gradient_of_what_is_clipped(example: Example) -> None:
    last: list[float] = []
    for kind in (MAGRPO, example("text_objective")["CISPO"]):
        team = Team({"agent_0": Softmax()})
        [updater] = kind(team, ONE_WORD, MAGRPOConfig(learning_rate=0.5, epochs=2)).updaters
        updater.step([Sample("agent_0", sampled(0), 1.0)])  # in the second pass its ratio is above 1.2
        last.append(float(gradients(team)[0].abs().max()))
    assert last[0] == 0
    assert last[1] > 0.1


def test_texts_from_elsewhere_are_learnt_from_and_read(example: Example) -> None:
    module, policy = example("given_texts"), language_model()
    rows = [(f"say {word}", word, worth) for word, worth in (("red", 1.0), ("green", -1.0), ("blue", 0.5))]
    likelihoods = module["learn"](Team({"agent_0": policy}), "agent_0", rows[:1], 6)
    assert likelihoods == sorted(likelihoods)
    assert likelihoods[-1] > likelihoods[0]
    assert module["readable"](policy, "agent_0", rows) == pytest.approx(1.0, abs=1e-3)  # three points, 16 dimensions


def test_an_updater_with_another_loss_moves_weights_otherwise(example: Example) -> None:
    sizes: list[float] = []
    for kind in (MAGRPO, example("updater")["Shrinking"]):
        team = softmax_team(logits=[1.0, 2.0, -1.0, 0.5])
        learner = kind(team, ONE_WORD)
        for step in range(20):
            learner.update(play(team, step))
        sizes.append(sum(float(p.detach().square().sum()) for policy in team.trainable for p in policy.parameters()))
    assert sizes[1] < sizes[0]
    assert torch.tensor(sizes).isfinite().all()


def test_a_critic_learns_what_a_history_is_worth(example: Example) -> None:
    team = softmax_team()
    learner = example("critic")["BagIAC"](team, ONE_WORD)
    learner.update(play(team))
    updater: Any = learner.updaters[0]
    readings = [("agent_0", (0,)), ("agent_0", (1, 2, 3))]
    worth = (10.0, 30.0)
    pairs = zip(readings, worth, strict=True)
    targets = [ValueTarget(agent, Completion("", ids), 0.0, target=value) for (agent, ids), value in pairs]
    for _ in range(40):
        updater.observe(worth)
        updater.step(targets)
    low, high = updater.values(readings)
    assert high > low + 5.0
    again = example("critic")["BagIAC"](softmax_team(), ONE_WORD)
    again.load_state_dict(learner.state_dict())
    assert again.updaters[0].values(readings) == [low, high]


@pytest.mark.slow
def test_an_engine_draws_with_the_weights_of_now(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENGINES, "_specs", dict(ENGINES))  # the name is for this test
    example("engine")
    env = make("tldr-v0")
    team = load_team(env.possible_agents, engine={"kind": "generate"})
    learner = MAGRPO(team, Sampling(max_new_tokens=8), MAGRPOConfig(learning_rate=0.01))
    for step in (0, 1):
        groups = Trajectories().play(env, team, [env.items[0].id], [step], learner.sampling, 4)
        for agent, policy in zip(env.possible_agents, team.trainable, strict=True):
            texts = [turn.actions[agent] for episode in groups[0].episodes for turn in episode.turns]
            logprobs, mask = policy.token_logprobs([(agent, text) for text in texts], 1.0)
            recorded = [p for text in texts for p in text.logprobs]
            assert logprobs[mask.bool()].tolist() == pytest.approx(recorded, abs=1e-3)
        learner.update(groups)


def test_an_integration_tells_and_scores_what_the_environment_does(example: Example) -> None:
    module, env = example("integration"), make("tldr-v0")
    rows = list(module["rows"](env))
    assert [(row["task"], row["agent"]) for row in rows[:2]] == [
        (env.items[0].id, agent) for agent in env.possible_agents
    ]
    first = env.items[0]
    assert rows[1]["prompt"] == env.reset(options={"index": 0})[0]["agent_1"]
    gold = dict(zip(env.possible_agents, first.reference, strict=True))
    assert module["score"](env, first.id, gold) == env.facts.max_return
    assert module["score"](env, first.id, dict.fromkeys(gold, "")) == 0.0


@pytest.mark.slow
def test_a_protocol_keeps_the_laws_and_is_learnt_under(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROTOCOLS, "_specs", dict(PROTOCOLS))  # the name is for this test
    learner = example("protocol")["NotedMAGRPO"]
    env = with_protocol(make("telegrams-v0"), learner.protocol)
    assert "forks" in check_env(env)
    observations, _ = env.reset(seed=1, options={"index": 0})
    assert [agent for agent in env.agents if env.asked(agent)] == ["agent_0"]
    assert observations["agent_0"].endswith("First write a note to the others.")
    observations, *_ = env.step(dict.fromkeys(env.agents, "meet at noon"))
    assert all(text.endswith("Note: meet at noon") for text in observations.values())
