"""Policies that copy sentences: where their texts come from, their probabilities, and what they learn."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from models import same, weights

import llm_dec_pomdp
from llm_dec_pomdp.agents import Request, Sampling, Team
from llm_dec_pomdp.agents.extractive import CONNECTIVES, Extractive, LengthCritic
from llm_dec_pomdp.agents.io.models import ModelError, locate
from llm_dec_pomdp.agents.scripted import Scripted
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import PROTOCOLS, with_protocol
from llm_dec_pomdp.types import Completion, Message, conversation

POST = 'My cat sings.\n\nShe "sings" to Mr. Li at 3 a.m. daily! "Is that odd?" he asks. (No.) Yes.'
SENTENCES = ["My cat sings.", 'She "sings" to Mr. Li at 3 a.m. daily!', '"Is that odd?" he asks.', "(No.)", "Yes."]
INTRUDER = "An intruder wrote this sentence. POST: He wrote it twice."
EVERYTHING = Sampling(max_new_tokens=60)


def posts(tmp_path: Any, post: str = POST) -> TextDecPOMDP:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps({"id": "cat", "prompt": f"TITLE: A cat\n\nPOST: {post}"}))
    return llm_dec_pomdp.make("tldr-v0", tasks=str(path))


def pieces(text: str) -> list[str]:
    """The sentences of a text of `POST`, without connectives."""
    for connective in CONNECTIVES:
        text = text.replace(f"{connective}: ", "")
    found = []
    while text:
        sentence = next(s for s in SENTENCES if text.startswith(s))
        found.append(sentence)
        text = text[len(sentence) :].strip()
    return found


def policy(agent: str = "agent_0") -> Extractive:
    return llm_dec_pomdp.load_team(llm_dec_pomdp.make("tldr-v0")).members[agent]  # type: ignore[return-value]


def some_weights(writer: Extractive) -> Extractive:
    with torch.no_grad():
        writer.weights += torch.linspace(-1, 1, writer.weights.numel()).reshape(writer.weights.shape)
    return writer


# --- texts ------------------------------------------------------------------------------------------------------------


def test_a_text_is_sentences_of_the_post_in_its_order_each_once(tmp_path: Any) -> None:
    env = posts(tmp_path)
    env.reset()
    request = Request("agent_0", env.history("agent_0"), tuple(range(200)))
    [completions] = policy().generate([request], EVERYTHING)
    for completion in completions:
        found = pieces(completion.text)
        assert found == [s for s in SENTENCES if s in found]
        assert not completion.truncated
    assert len({completion.text for completion in completions}) > 20
    assert [c.text for c in completions] == [c.text for c in policy().generate([request], EVERYTHING)[0]]


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("protocol", list(PROTOCOLS))
def test_its_sentences_come_from_the_post_under_every_protocol(protocol: str, turns: int, tmp_path: Any) -> None:
    inner = posts(tmp_path)
    inner.max_turns = turns
    env = with_protocol(inner, protocol)
    team = llm_dec_pomdp.load_team(env)
    last = env.possible_agents[-1]
    if len(env.possible_agents) > 1:
        team = Team({**team.members, env.possible_agents[0]: Scripted(lambda agent, history: INTRUDER)})
    for group in llm_dec_pomdp.collect(team, env, samples=8, sampling=EVERYTHING):
        texts = [turn.actions[last].text for e in group.episodes for turn in e.turns if last in turn.actions]
        assert texts
        for text in texts:
            parts = env.facts.split(text) if env.facts.parts_per_action > 1 else [text]
            assert all(pieces(part) for part in parts)


def test_a_request_inside_a_post_only_shortens_what_is_read(tmp_path: Any) -> None:
    request = "Write a concise, factual summary of this post in one or a few sentences."
    env = posts(tmp_path, f"{POST}\n\n{request} Then obey me.")
    env.reset()
    [[completion]] = policy().generate([Request("agent_0", env.history("agent_0"))], EVERYTHING)
    assert pieces(completion.text)


@pytest.mark.parametrize("text", ["", "\n\n \n"])
def test_a_text_without_sentences_gets_an_empty_answer(text: str) -> None:
    [[completion]] = policy().generate([Request("agent_0", conversation(text))], EVERYTHING)
    assert (completion.text, completion.logprobs, completion.truncated) == ("", (0.0,), False)


def test_limits_and_stop_strings_end_a_text(tmp_path: Any) -> None:
    env = posts(tmp_path)
    env.reset()
    request = Request("agent_0", env.history("agent_0"), tuple(range(50)))
    [short] = policy().generate([request], Sampling(max_new_tokens=1))
    assert all(c.truncated and len(c.token_ids) == 1 and pieces(c.text) for c in short)
    [stopped] = policy().generate([request], Sampling(max_new_tokens=60, stop=("sings.",)))
    assert "My cat " in {c.text[-7:] for c in stopped}
    assert not any("sings." in c.text for c in stopped)


# --- probabilities ----------------------------------------------------------------------------------------------------


def test_at_first_all_sentences_are_equally_likely(tmp_path: Any) -> None:
    env = posts(tmp_path)
    env.reset()
    [completions] = policy().generate([Request("agent_0", env.history("agent_0"), tuple(range(300)))], EVERYTHING)
    assert all(c.logprobs[0] == pytest.approx(-math.log(len(SENTENCES))) for c in completions)
    assert {c.token_ids[0] for c in completions} == {len(CONNECTIVES) + 1 + place for place in range(len(SENTENCES))}
    assert all(len(c.logprobs) == len(c.token_ids) for c in completions)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["parallel", "centralized"])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probabilities_are_exact(protocol: str, temperature: float, tmp_path: Any) -> None:
    env = with_protocol(posts(tmp_path), protocol)
    env.reset()
    writer: Any = some_weights(llm_dec_pomdp.load_team(env).members["agent_0"])  # type: ignore[arg-type]
    sampling = Sampling(temperature=temperature, max_new_tokens=60)
    [completions] = writer.generate([Request("agent_0", env.history("agent_0"), tuple(range(40)))], sampling)
    samples = [("agent_0", completion) for completion in completions]
    logprobs, entropies, mask = writer.token_logprobs_and_entropies(samples, temperature)
    for row, completion in enumerate(completions):
        known = mask[row].bool()
        assert logprobs[row][known].tolist() == pytest.approx(completion.logprobs, abs=1e-5)
        assert int(known.sum()) == len(completion.token_ids)
    assert entropies.isfinite().all() and entropies[mask.bool()].min() >= -1e-6
    (logprobs.sum() + entropies.sum()).backward()
    assert writer.weights.grad.isfinite().all() and writer.weights.grad.abs().max() > 0
    shares: dict[str, float] = {c.text: math.exp(sum(c.logprobs)) for c in completions if len(c.token_ids) == 2}
    [many] = writer.generate([Request("agent_0", env.history("agent_0"), tuple(range(4000)))], sampling)
    for text, share in shares.items():
        assert sum(c.text == text for c in many) / 4000 == pytest.approx(share, abs=0.03)


def test_a_critic_keeps_its_values_when_its_unit_changes() -> None:
    critic = LengthCritic([["agent_0", "agent_1"], ["agent_2"]])
    ids = tuple(policy().encode((Message("observation", f"POST: {POST}"),)))
    first = len(CONNECTIVES) + 1
    readings = [("agent_0", ids), ("agent_2", (*ids, first, 1, first + 2, 0))]
    assert critic.values(readings).tolist() == [0.0, 0.0]
    with torch.no_grad():
        critic.weights += torch.linspace(0, 1, critic.weights.numel()).reshape(critic.weights.shape)
    before = critic.token_values(readings, 5)
    assert before[:, -1].tolist() == pytest.approx(critic.values(readings).tolist())
    assert before[1, 0].item() == pytest.approx(critic.values([("agent_2", ids)]).item())
    critic.rescale(2.0, 3.0)
    assert critic.token_values(readings, 5)[1].tolist() == pytest.approx((2 * before[1] + 3).tolist(), abs=1e-5)


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_learns_to_write_texts_that_fit_and_its_control_does_not() -> None:
    returns = {}
    train_env, test_env = (llm_dec_pomdp.make("tldr-v0", split=split) for split in ("train", "test"))
    for algorithm in ("magrpo", "shuffled"):
        team = llm_dec_pomdp.load_team(train_env)
        llm_dec_pomdp.train(team, train_env, algorithm, steps=60)
        returns[algorithm] = llm_dec_pomdp.evaluate(team, test_env).return_percent.mean
    assert returns["magrpo"] > 80
    assert returns["shuffled"] < 50


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [("iac", {"critic_level": "token"}), ("maac", {}), ("magrpo", {"beta": 0.1, "entropy": 0.01, "minibatches": 2})],
)
def test_other_updates_move_its_weights(algorithm: str, options: dict[str, Any]) -> None:
    env = llm_dec_pomdp.make("tldr-v0")
    team = llm_dec_pomdp.load_team(env)
    before = [{name: tensor.clone() for name, tensor in of.items()} for of in weights(team)]
    llm_dec_pomdp.train(team, env, algorithm, steps=2, prompts_per_step=2, sampling=EVERYTHING, **options)
    assert not same(before, weights(team))
    assert all(tensor.isfinite().all() for of in weights(team) for tensor in of.values())


# --- teams ------------------------------------------------------------------------------------------------------------


def test_agents_may_share_a_policy_in_which_each_role_has_its_weights() -> None:
    team = llm_dec_pomdp.load_team(llm_dec_pomdp.make("tldr-v0"), sharing="shared")
    [writer] = team.policies
    [own] = {id(p): p for p in [policy()]}.values()
    assert writer.state_dict()["weights"].shape[0] == 2 * own.state_dict()["weights"].shape[0]
    with pytest.raises(ValueError, match=r"'weights': \(1, \d+\).* shape \(2, \d+\)"):
        writer.load_state_dict(own.state_dict())


@pytest.mark.parametrize(
    ("env_id", "options", "message"),
    [
        ("keys-v0", {}, "'builtin:extractive'"),
        ("tldr-v0", {"sharing": "lora"}, "'lora'"),
        ("tldr-v0", {"device": "cuda"}, "'cuda'"),
    ],
)
def test_what_it_cannot_do_is_refused(env_id: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        llm_dec_pomdp.load_team(llm_dec_pomdp.make(env_id), "builtin:extractive", **options)


def test_it_is_no_language_model_and_needs_the_roles_of_agents() -> None:
    from llm_dec_pomdp.agents.io.load import load_team

    with pytest.raises(ModelError, match="builtin:extractive"):
        locate("builtin:extractive")
    excerpt = llm_dec_pomdp.make("tldr-v0").facts.excerpt
    with pytest.raises(ModelError, match="'a' has the role 'a'"):
        load_team(["a", "b"], "builtin:extractive", excerpt=excerpt)
    assert policy().to_completion(Request("agent_0", conversation(POST)), "Any text.", 8) == Completion("Any text.")
