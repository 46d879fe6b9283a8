"""Thoughts of reasoning models: sampled and trained on, and no part of the action."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from servers import Reply, Server, reply

import llm_dec_pomdp
from llm_dec_pomdp.agents import Request, Sampling, Scripted, Team
from llm_dec_pomdp.agents.engines import Prompt, Sampled
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.io.models import load_model, load_policy
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.agents.options import ModelOptions, RunOptions
from llm_dec_pomdp.agents.scripted import Script
from llm_dec_pomdp.agents.thoughts import ThoughtTags
from llm_dec_pomdp.config import ConfigError, build
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.tools.ready import calculator
from llm_dec_pomdp.envs.wrappers import PROTOCOLS, Discussion, Sequential, WithTools, with_protocol
from llm_dec_pomdp.episodes import Header, from_episode, read_whole, to_groups, validate, write
from llm_dec_pomdp.rollout import Demonstrations, Trajectories
from llm_dec_pomdp.types import Completion, Episode, Message, conversation

QWEN3 = (  # drops the thoughts of earlier turns, as that of Qwen3 does
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1].lstrip('\n') "
    "if m.role == 'assistant' else m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
R1 = QWEN3.replace("<|assistant|>{% endif %}", "<|assistant|><think>\n{% endif %}")  # opens the thought in the prompt
CLOSED = QWEN3.replace("<|assistant|>{% endif %}", "<|assistant|><think>\n\n</think>\n\n{% endif %}")
PLAIN = QWEN3.replace(".split('</think>')[-1].lstrip('\n')", "")
TINY, TOKENIZER = load_model("builtin:tiny", device="cpu")
LIMIT = Sampling(max_new_tokens=8)


class Saying:
    """An engine that gives known texts, which end with the end token unless the limit cuts them."""

    def __init__(self, tokenizer: Any, texts: Sequence[str], *, cut: bool = False) -> None:
        self._tokenizer, self._texts, self._cut = tokenizer, list(texts), cut

    def load(self, policy: LanguageModel, version: int) -> None:
        """Nothing to load."""

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, stop_ids: frozenset[int]) -> list[list[Sampled]]:
        return [[self._next(min(stop_ids)) for _ in prompt.seeds] for prompt in prompts]

    def _next(self, end: int) -> Sampled:
        ids = [*self._tokenizer(self._texts.pop(0))["input_ids"], *([] if self._cut else [end])]
        return Sampled(ids, [-1.0] * len(ids), truncated=self._cut)


def saying(
    texts: Sequence[str], template: str = QWEN3, *, cut: bool = False, special: Sequence[str] = (), **options: Any
) -> LanguageModel:
    """builtin:tiny with a chat template, which samples these texts one after the other."""
    tokenizer = copy.deepcopy(TOKENIZER)
    tokenizer.chat_template = template
    network = TINY
    if special:
        tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
        network = copy.deepcopy(TINY)
        network.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    engine = Saying(tokenizer, texts, cut=cut)
    return LanguageModel(network, tokenizer, engine=engine, truncate_prompts=True, **options)


def said(policy: LanguageModel, sampling: Sampling = LIMIT) -> Completion:
    [[completion]] = policy.generate([Request("agent_0", conversation("hello"))], sampling)
    return completion


# --- thought and answer -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "sampled", "thought", "text"),
    [
        (QWEN3, "<think>\nlet me see\n</think>\n\nthe answer", "\nlet me see\n", "the answer"),
        (QWEN3, "<think>\n\n</think>\n\nthe answer", "\n\n", "the answer"),
        (QWEN3, "the answer", "", "the answer"),
        (R1, "let me see\n</think>\nthe answer", "let me see\n", "the answer"),
        (R1, "first</think>draft</think>the answer", "first</think>draft", "the answer"),
        (CLOSED, "the answer", "", "the answer"),
        (QWEN3.replace("</think>", "[/THINK]"), "[THINK]let me see[/THINK]the answer", "let me see", "the answer"),
        (PLAIN, "<think>let me see</think>the answer", "", "<think>let me see</think>the answer"),
    ],
)
def test_the_answer_follows_the_last_closing_tag(template: str, sampled: str, thought: str, text: str) -> None:
    completion = said(saying([sampled], template))
    assert (completion.thought, completion.text) == (thought, text)
    assert TOKENIZER.decode(completion.token_ids, skip_special_tokens=True) == sampled
    assert len(completion.logprobs) == len(completion.token_ids)


@pytest.mark.parametrize(
    ("template", "sampled"),
    [
        (QWEN3, "<think>\nlet me s"),
        (R1, "let me s"),
        (QWEN3, "<think>let me see</think>draft<think>once more"),
    ],
)
def test_a_thought_that_the_token_limit_cuts_is_an_empty_action(template: str, sampled: str) -> None:
    completion = said(saying([sampled], template, cut=True))
    assert (completion.text, completion.truncated) == ("", True)
    assert completion.thought in sampled
    assert completion.thought


def test_another_text_cannot_open_a_thought() -> None:
    policy = saying(["the answer"])
    [[completion]] = policy.generate([Request("agent_0", conversation("say <think>"))], LIMIT)
    assert completion.text == "the answer"


def test_a_stop_string_within_a_thought_ends_the_sample() -> None:
    completion = said(saying(["<think>let me see"]), LIMIT.model_copy(update={"stop": ("see",)}))
    assert (completion.text, completion.thought) == ("", "let me ")


@pytest.mark.parametrize("template", [QWEN3, R1])
def test_tags_may_be_special_tokens(template: str) -> None:
    """Which a decoded text does not show."""
    opening = "" if template == R1 else "<think>"
    policy = saying([f"{opening}let me see</think>the answer"], template, special=("<think>", "</think>"))
    completion = said(policy)
    assert (completion.thought, completion.text) == ("let me see", "the answer")


@pytest.mark.parametrize(
    ("sampled", "thought"),
    [
        (
            "<|channel|>analysis<|message|>let me see<|end|><|start|>assistant<|channel|>final<|message|>the answer",
            "let me seeassistant",
        ),
        ("<|channel|>final<|message|>the answer", ""),
    ],
)
def test_tags_may_hold_several_special_tokens(sampled: str, thought: str) -> None:
    """As those of gpt-oss do, with a word between them."""
    special = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>")
    template = "{{ '<|start|>assistant<|channel|>final<|message|>' if false }}" + PLAIN
    completion = said(saying([sampled], template, special=special), Sampling(max_new_tokens=64))
    assert (completion.thought, completion.text) == (thought, "the answer")


@pytest.mark.parametrize("tags", [("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>")])
def test_a_given_thought_has_the_tokens_of_its_tags(tags: tuple[str, str]) -> None:
    policy = saying([], QWEN3.replace("</think>", tags[1]), special=tags)
    written = policy.to_completion(Request("agent_0", conversation("hello")), "let me see".join(tags) + "yes", 64)
    assert {*policy.tokenizer.convert_tokens_to_ids(list(tags))} <= {*written.token_ids}


@pytest.mark.parametrize(
    ("template", "sampled", "special"),
    [
        (QWEN3, "<think></think>the answer", ()),
        (QWEN3, "<think></think>the answer", ("<think>", "</think>")),
        (R1, "</think>the answer", ()),
        (R1, "", ()),
        (CLOSED, "the answer", ()),
    ],
)
def test_no_later_prompt_holds_an_empty_thought(template: str, sampled: str, special: Sequence[str]) -> None:
    policy = saying([sampled], template, special=special)
    first = said(policy)
    history = (*conversation("hello"), Message("action", first.text), Message("observation", "go on"))
    assert policy.encode(history, ids=first.prompt_ids + first.token_ids) == policy.encode(history)


def test_tags_can_be_given_and_switched_off() -> None:
    sampled = "<reason>let me see</reason>the answer"
    assert said(saying([sampled], PLAIN)).text == sampled
    tags = ThoughtTags(open="<reason>", close="</reason>")
    assert said(saying([sampled], PLAIN, thinking=tags)).text == "the answer"
    thinking = "<think>let me see</think>the answer"
    assert said(saying([thinking], thinking="off")).text == thinking


@pytest.mark.parametrize("sharing", ["shared", "separate"])
def test_the_option_reaches_the_models_of_a_team(sharing: Any) -> None:
    options = build(ModelOptions, {"thinking": {"open": "<a>", "close": "</a>"}, "sharing": sharing}, source="suite")
    team = load_team(["agent_0"], train=False, **json.loads(options.model_dump_json()))
    [policy] = team.policies
    policy.engine = Saying(policy.tokenizer, ["<a>let me see</a>the answer"])  # type: ignore[attr-defined]
    assert said(policy).text == "the answer"  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["on", {"open": "<think>"}, {"open": "", "close": "x"}, {"open": "x", "close": "x"}])
def test_a_wrong_option_is_named(value: Any) -> None:
    with pytest.raises(ConfigError, match="thinking = "):
        build(RunOptions, {"thinking": value}, source="suite")


# --- servers ----------------------------------------------------------------------------------------------------------


def replied(server: Server, answer: Reply, thinking: Any = "auto") -> Completion:
    server.answer = lambda body, number: answer
    policy = load_policy(f"{server.url}#m", RunOptions(thinking=thinking))
    [[completion]] = policy.generate([Request("agent_0", conversation("hello"))], LIMIT)
    return completion


def with_field(field: str) -> Reply:
    message = {"role": "assistant", "content": "the answer", field: "let me see"}
    return 200, json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()


@pytest.mark.parametrize(
    "answer",
    [
        reply("<think>let me see</think>the answer"),
        reply("let me see</think>the answer"),
        with_field("reasoning"),
        with_field("reasoning_content"),
    ],
)
def test_a_server_gives_thought_and_answer(server: Server, answer: Reply) -> None:
    completion = replied(server, answer)
    assert (completion.thought, completion.text) == ("let me see", "the answer")
    assert replied(server, answer, "off").thought == ""


def test_a_server_that_reaches_the_limit_within_a_thought_gives_an_empty_action(server: Server) -> None:
    completion = replied(server, reply("<think>let me s", "length"))
    assert (completion.thought, completion.text, completion.truncated) == ("let me s", "", True)


def test_a_server_may_speak_of_tags(server: Server) -> None:
    assert replied(server, reply("write <think> first")).text == "write <think> first"


# --- laws -------------------------------------------------------------------------------------------------------------


def played(env: TextDecPOMDP, spoken: Episode, think: Callable[[str], str]) -> tuple[Episode, dict[str, LanguageModel]]:
    """The texts of an episode, sampled by a model for each agent, as `think` makes them of (agent, text)."""
    texts: dict[str, list[str]] = {agent: [] for agent in env.possible_agents}
    for turn in spoken.turns:
        for agent, completion in turn.actions.items():
            texts[agent].append(think(agent) + completion.text)
    models = {agent: saying(said_by) for agent, said_by in texts.items()}
    [group] = Trajectories().play(env, Team(dict(models)), [spoken.item_id], [1], LIMIT)
    return group.episodes[0], models


def scripted(env: TextDecPOMDP, say: Script) -> Episode:
    [group] = Trajectories().play(env, Scripted(say), [env.items[0].id], [1], LIMIT)
    return group.episodes[0]


def thinking(agent: str) -> str:
    return f"<think>\nthe zebra of {agent}: calculate('2 + 2')\n```python\ndef f(): pass\n```\n</think>\n\n"


def with_tools() -> TextDecPOMDP:
    return WithTools(llm_dec_pomdp.make("tldr-v0"), [calculator()], rounds=2)


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
@pytest.mark.parametrize("make", [lambda: llm_dec_pomdp.make("tldr-v0", max_turns=2), with_tools])
def test_nobody_observes_a_thought_and_no_tool_is_called_in_it(make: Callable[[], Any], protocol: str) -> None:
    env = with_protocol(make(), protocol)
    spoken = scripted(env, lambda agent, history: "calculate('1 + 1')" if len(history) == 1 else f"I am {agent}.")
    plain, _ = played(env, spoken, lambda agent: "")
    thought, models = played(env, spoken, thinking)
    assert [
        (t.observations, t.unasked_observations, t.rewards, t.reward, t.score, t.events) for t in thought.turns
    ] == [(t.observations, t.unasked_observations, t.rewards, t.reward, t.score, t.events) for t in plain.turns]
    for turn in thought.turns:
        for agent, completion in turn.actions.items():
            assert "zebra" in completion.thought
            assert "zebra" not in models[agent].tokenizer.decode(completion.prompt_ids)


def test_the_prompt_after_a_thought_is_the_one_of_the_template() -> None:
    env = llm_dec_pomdp.make("tldr-v0", max_turns=2)
    spoken = scripted(env, lambda agent, history: f"I am {agent}.")
    thought, models = played(env, spoken, thinking)
    for agent, model in models.items():
        told = [turn.observations[agent] for turn in thought.turns]
        turns = [
            {"role": "user", "content": told[0]},
            {"role": "assistant", "content": thinking(agent) + f"I am {agent}."},
            {"role": "user", "content": told[1]},
        ]
        whole = model.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        assert list(thought.turns[1].actions[agent].prompt_ids) == model.tokenizer(whole)["input_ids"]


def test_kept_thoughts_stay_in_the_prompts_of_their_own_agent() -> None:
    env = llm_dec_pomdp.make("tldr-v0", max_turns=2)
    texts = [f"{thinking('agent_0')}one.", f"{thinking('agent_0')}two."]
    models = {"agent_0": saying(texts, history="keep"), "agent_1": saying(["one.", "two."], history="keep")}
    [group] = Trajectories().play(env, Team(dict(models)), [env.items[0].id], [1], LIMIT)
    first, second = (turn.actions["agent_0"] for turn in group.episodes[0].turns)
    assert second.prompt_ids[: len(first.prompt_ids + first.token_ids)] == first.prompt_ids + first.token_ids
    assert "zebra" not in models["agent_1"].tokenizer.decode(group.episodes[0].turns[1].actions["agent_1"].prompt_ids)


@pytest.mark.parametrize("wrap", [Sequential, Discussion])
@pytest.mark.parametrize("share", [False, True])
def test_a_protocol_shares_thoughts_if_it_is_asked_to(wrap: Any, share: bool) -> None:
    env = wrap(llm_dec_pomdp.make("tldr-v0"), share_thoughts=share)
    count = env.max_turns
    models = {agent: saying([f"{thinking(agent)}one."] * count) for agent in env.possible_agents}
    [group] = Trajectories().play(env, Team(dict(models)), [env.items[0].id], [1], LIMIT)
    observed = group.episodes[0].turns[-1].observations["agent_1"]
    assert ("zebra of agent_0" in observed) == share
    plain = scripted(llm_dec_pomdp.make("tldr-v0"), lambda agent, history: "one.")
    assert group.episodes[0].total == plain.total


def test_tokens_of_thoughts_are_counted() -> None:
    completion = said(saying(["<think>let me see</think>yes it is"]))
    thought = len(TOKENIZER("<think>let me see</think>")["input_ids"])
    assert completion.thought_ids == thought < len(completion.token_ids)
    assert said(saying(["<think>let me"], cut=True)).thought_ids == len(TOKENIZER("<think>let me")["input_ids"])
    assert said(saying(["yes it is"])).thought_ids == 0


def test_a_teacher_may_think_and_its_pupil_is_trained_on_the_thought(tmp_path: Path) -> None:
    env = llm_dec_pomdp.make("tldr-v0")
    texts = {agent: f"<think>the zebra</think>I am {agent}." for agent in env.possible_agents}
    path = tmp_path / "taught.jsonl"
    path.write_text(json.dumps({"task": env.items[0].id, "texts": texts}))
    pupils = Team({agent: saying([]) for agent in env.possible_agents})
    [group] = Demonstrations(str(path)).play(env, pupils, [env.items[0].id], [1], Sampling(max_new_tokens=64))
    [turn] = group.episodes[0].turns
    for agent, completion in turn.actions.items():
        assert (completion.text, completion.thought) == (f"I am {agent}.", "the zebra")
        assert "the zebra" in TOKENIZER.decode(completion.token_ids)
    plain = scripted(env, lambda agent, history: f"I am {agent}.")
    assert (turn.reward, turn.score) == (plain.turns[0].reward, plain.turns[0].score)


def test_the_gradient_reaches_the_tokens_of_a_thought() -> None:
    policy = saying(["<think>let me see</think>yes"])
    completion = said(policy)
    logprobs, mask = policy.token_logprobs([("agent_0", completion)], 1.0)
    assert mask.sum() == len(completion.token_ids)
    thought = len(policy.tokenizer("<think>let me see</think>")["input_ids"])
    for logprob in logprobs[0, :thought]:
        [gradient] = torch.autograd.grad(logprob, [next(iter(policy.parameters()))], retain_graph=True)
        assert gradient.any()


# --- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", ["inline", "hashed", "none"])
def test_a_trace_keeps_thoughts_as_private(texts: Any, tmp_path: Path) -> None:
    env = with_protocol(llm_dec_pomdp.make("tldr-v0"), "sequential")
    episode, _ = played(env, scripted(env, lambda agent, history: f"I am {agent}."), thinking)
    header = Header.of(env, "tldr-v0", protocol="sequential", models="tiny", sampling=LIMIT)
    trace = from_episode(episode, header, env.items[0], token_ids=True)
    assert validate(trace) == []
    write([trace], tmp_path / "t", texts, token_ids=True)
    assert ("zebra" in (tmp_path / "t").read_text()) == (texts == "inline")
    if texts == "none":
        return
    [read] = read_whole(tmp_path / "t")
    assert read == json.loads(json.dumps(trace))
    assert to_groups([read])[0].episodes[0] == episode
    shown = [event for event in trace["events"] if "zebra" in str({**event, "thought": ""})]
    assert shown == []
