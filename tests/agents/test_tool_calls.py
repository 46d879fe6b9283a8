"""Calls of tools: in a server's own format, as text, and in chat templates."""

from __future__ import annotations

import json
from typing import Any

import pytest
from servers import Server, reply, reply_of, reply_with_calls

import llm_dec_pomdp
from llm_dec_pomdp.agents import Remote, Request, Sampling, Team
from llm_dec_pomdp.agents.base import definitions
from llm_dec_pomdp.agents.io.models import load_model
from llm_dec_pomdp.agents.language_model.prompts import Prompts
from llm_dec_pomdp.agents.tool_calls import messages_of
from llm_dec_pomdp.envs.tools.calls import read_calls
from llm_dec_pomdp.envs.tools.ready import calculator
from llm_dec_pomdp.envs.wrappers import WithTools
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Message, Tool

SEARCH = Tool("search", "Search.", (("query", "Words."),))


def called(name: str, **arguments: str) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def test_a_tool_is_described_as_servers_want_it() -> None:
    [definition] = definitions([SEARCH])
    assert definition["function"]["parameters"] == {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "Words."}},
        "required": ["query"],
    }


def test_every_call_has_an_answer() -> None:
    history = (
        Message("observation", "q"),
        Message("action", "So.\n" + called("ask", subtask="a") + "\n" + called("ask", subtask="b")),
        Message("tool", "both reports", "ask"),
        Message("action", "ASK sub: c"),
        Message("tool", "a report", "ask"),
    )
    user, assistant, first, second, line, given = messages_of(history)
    assert user == {"role": "user", "content": "q"}
    assert assistant["content"] == "So."
    asked = [json.loads(call["function"]["arguments"])["subtask"] for call in assistant["tool_calls"]]
    assert asked == ["a", "b"]
    assert [first["tool_call_id"], second["tool_call_id"]] == [call["id"] for call in assistant["tool_calls"]]
    assert (first["role"], first["content"]) == ("tool", "both reports")
    assert line == {"role": "assistant", "content": "ASK sub: c"}
    assert given == {"role": "user", "content": "ask:\na report"}  # nothing was called that it could answer


@pytest.mark.parametrize("call", ["{", "[]", '{"name": 1}', "[" * 100_000])
def test_a_call_that_cannot_be_read_stays_text(call: str) -> None:
    text = f"<tool_call>{call}</tool_call>"
    assert messages_of((Message("observation", "q"), Message("action", text)))[1] == {
        "role": "assistant",
        "content": text,
    }


def test_calls_of_a_server_become_text(server: Server) -> None:
    server.answer = lambda body, number: reply_with_calls(("search", {"query": "x"}), ("search", {"query": "y"}))
    request = Request("a", (Message("observation", "q"),), tools=(SEARCH,))
    [[answer]] = Remote(server.url, "m").generate([request], Sampling())
    assert answer.text == called("search", query="x") + "\n" + called("search", query="y")
    assert server.asked[0]["tools"] == definitions([SEARCH])


def calls_of(*functions: Any) -> dict[str, Any]:
    return {"content": None, "tool_calls": [{"id": "x", "type": "function", "function": f} for f in functions]}


CUT = '<tool_call>{"name": "calculate", "arguments": %s</tool_call>'
FORMS: dict[str, tuple[Any, str, str]] = {  # message, reason to finish, text
    "cut": (calls_of({"name": "calculate", "arguments": '{"expr'}), "length", CUT % '{"expr'),
    "cut early": (calls_of({"name": "calculate", "arguments": ""}), "length", CUT % ""),
    "cut without arguments": (calls_of({"name": "calculate"}), "length", CUT % ""),
    "no JSON": (calls_of({"name": "calculate", "arguments": "1 + 1"}), "tool_calls", CUT % "1 + 1"),
    "deep": (calls_of({"name": "calculate", "arguments": "[" * 9999}), "stop", CUT % ("[" * 9999)),
    "an object": (calls_of({"name": "search", "arguments": {"query": "x"}}), "stop", called("search", query="x")),
    "none": (calls_of({"name": "search", "arguments": ""}), "tool_calls", called("search")),
    "null": (calls_of({"name": "search", "arguments": None}), "tool_calls", called("search")),
    "older": (
        {"content": None, "function_call": {"name": "search", "arguments": '{"query": "x"}'}},
        "function_call",
        called("search", query="x"),
    ),
    "of another kind": (
        {"tool_calls": [{"type": "custom", "custom": {"name": "x", "input": "y"}}]},
        "tool_calls",
        '<tool_call>{"type": "custom", "custom": {"name": "x", "input": "y"}}</tool_call>',
    ),
    "no call": ({"content": "a", "tool_calls": None, "function_call": None}, "stop", "a"),
}


@pytest.mark.parametrize(("message", "reason", "text"), FORMS.values(), ids=FORMS)
def test_a_call_in_any_form_is_text(server: Server, message: dict[str, Any], reason: str, text: str) -> None:
    server.answer = lambda body, number: reply_of(message, reason)
    [[answer]] = Remote(server.url, "m").generate([Request("a", (Message("observation", "q"),))], Sampling())
    assert answer.text == text
    assert len(server.asked) == 1


@pytest.mark.parametrize("content", [None, "<think>let me see", "<think>let me see</think>"])
@pytest.mark.parametrize("query", ["x", "a</think>b", "a</tool_call>b", "<tool_call>"])
def test_tags_in_a_call_and_a_thought_before_it_leave_it_whole(server: Server, content: Any, query: str) -> None:
    call = calls_of({"name": "search", "arguments": json.dumps({"query": query})})
    server.answer = lambda body, number: reply_of({**call, "content": content}, "tool_calls")
    [[answer]] = Remote(server.url, "m").generate([Request("a", (Message("observation", "q"),))], Sampling())
    [read] = read_calls(answer.text)
    assert (read.name, read.arguments, read.problem) == ("search", {"query": query}, "")
    assert answer.thought == ("let me see" if content else "")
    [_, sent] = messages_of((Message("observation", "q"), Message("action", answer.text)))
    [function] = [entry["function"] for entry in sent["tool_calls"]]
    assert json.loads(function["arguments"]) == {"query": query}


def test_the_environment_tells_an_agent_that_its_call_was_cut(server: Server) -> None:
    server.answer = lambda body, number: reply_of(*FORMS["cut"][:2])
    env = WithTools(llm_dec_pomdp.make("tldr-v0"), [calculator()], rounds=1)
    team = Team(dict.fromkeys(env.possible_agents, Remote(server.url, "m")))
    [group] = Trajectories().play(env, team, [env.items[0].id], [0], Sampling())
    observations = group.episodes[0].turns[1].observations
    assert all("the call cannot be read" in text for text in observations.values())


def test_without_tools_a_server_is_told_of_none(server: Server) -> None:
    Remote(server.url, "m").generate([Request("a", (Message("observation", "q"),))], Sampling())
    assert "tools" not in server.asked[0]


# --- a whole question -------------------------------------------------------------------------------------------------


def plays_by_calls(body: dict[str, Any], number: int) -> Any:
    """A model that was taught to call; it knows one question."""
    tools = {tool["function"]["name"] for tool in body["tools"]}
    last = body["messages"][-1]
    step = sum(message["role"] == "assistant" for message in body["messages"])
    if "ask" in tools:
        subtasks = ["Who taught Greta Stakel?", "In which town is the home of Edda Tader?"]
        if step < 2:
            return reply_with_calls(("ask", {"to": "reader", "subtask": subtasks[step]}))
        return reply("Druvik" if "Druvik" in last["content"] else "Nowhere")
    if step == 0:
        query = last["content"].split("\n")[0].removeprefix("Find out: ")
        return reply_with_calls(("search", {"query": query}))
    assert last["tool_call_id"] == body["messages"][-2]["tool_calls"][0]["id"]
    sentences = [line.partition("] ")[2] for line in last["content"].split("\n")]
    return reply(next(s for s in sentences if s.endswith(("taught Greta Stakel.", "at home in Druvik."))))


def test_a_remote_team_asks_searches_and_reports_by_calls(server: Server) -> None:
    server.answer = plays_by_calls
    env = llm_dec_pomdp.make("research-v0")
    team = Team(dict.fromkeys(env.possible_agents, Remote(server.url, "m")))
    [group] = Trajectories().play(env, team, [env.items[7].id], [0], Sampling(), width=2)
    kinds = [event.kind for turn in group.episodes[0].turns for event in turn.events]
    assert kinds == ["spawn", "call", "result", "return"] * 2 + ["answer"]
    for episode in group.episodes:
        assert episode.total == pytest.approx(1.0)
        assert episode.turns[-1].rewards == pytest.approx({"agent_0": 1.0, "agent_1": 1.0, "agent_2": 1.0})


# --- a local model ----------------------------------------------------------------------------------------------------


def test_the_built_in_model_is_told_of_tools_and_of_what_they_gave() -> None:
    tokenizer = load_model("builtin:tiny")[1]
    prompts = Prompts(tokenizer, frozenset({tokenizer.eos_token_id}), {})
    history = [
        Message("observation", "q"),
        Message("action", called("search", query="x")),
        Message("tool", "[1] x", "search"),
    ]
    tools, question, *rest = tokenizer.decode(prompts.encode(history, tools=(SEARCH,))).split("<|end|>")
    assert json.loads(tools.splitlines()[1]) == definitions([SEARCH])[0]["function"]
    assert question == "<|user|>q"
    assert rest == [f"<|assistant|>{history[1].text}", "<|user|>search:\n[1] x", "<|assistant|>"]
    without = tokenizer.decode(prompts.encode(history))
    assert without == "<|end|>".join([question, *rest])
