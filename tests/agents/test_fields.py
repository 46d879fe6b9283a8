"""Fields of a request that a server refuses, or wants besides the sampling."""

from __future__ import annotations

import json
import logging
import pickle
from dataclasses import replace
from typing import Any

import pytest
from servers import Reply, Server, reply

from llm_dec_pomdp.agents import Remote, RemoteError, Request, Sampling
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.io.models import ModelError, load_policy
from llm_dec_pomdp.agents.options import ModelOptions, RunOptions
from llm_dec_pomdp.config import ConfigError, build
from llm_dec_pomdp.types import Tool, conversation

HELLO = [Request("a", conversation("hello"), (0, 1, 2))]
ONE = [Request("a", conversation("hello"))]


def refusal(message: str, param: str | None = None, code: str | None = None, status: int = 400) -> Reply:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return status, json.dumps({"error": error}, indent=2).encode()


def reasoning_model(body: dict[str, Any], number: int) -> Reply:
    """A server that refuses as OpenAI's reasoning models do."""
    if "max_tokens" in body:
        advice = "Use 'max_completion_tokens' instead."
        message = f"Unsupported parameter: 'max_tokens' is not supported with this model. {advice}"
        return refusal(message, "max_tokens", "unsupported_parameter")
    if body.get("temperature", 1) != 1:
        message = (
            "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default is supported."
        )
        return refusal(message, "temperature", "unsupported_value")
    for name in ("top_p", "seed"):
        if name in body:
            message = f"Unsupported parameter: '{name}' is not supported with this model."
            return refusal(message, name, "unsupported_parameter")
    return reply("well")


def test_a_client_adapts_to_a_reasoning_model_once_and_says_so(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = reasoning_model
    remote = Remote(server.url, "o9", tries=1)
    sampling = Sampling(temperature=0.7, top_p=0.9, max_new_tokens=50)
    [answers] = remote.generate(HELLO, sampling)
    assert [answer.text for answer in answers] == ["well"] * 3
    assert server.asked[-1] == {
        "model": "o9",
        "messages": [{"role": "user", "content": "hello"}],
        "max_completion_tokens": 50,
    }
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 4  # one line for each option, however many requests found it
    for line, option in zip(said, ("max_tokens = 50", "temperature = 0.7", "top_p = 0.9", "seed = "), strict=True):
        assert option in line
        assert "o9" in line
    before = len(server.asked)
    pickle.loads(pickle.dumps(remote)).generate(HELLO, sampling)
    remote.generate(HELLO, sampling)
    assert len(server.asked) == before + 6  # nothing is tried again


WORDINGS: dict[str, tuple[Reply, str]] = {
    "without param": (refusal("Unrecognized request argument supplied: top_k"), "top_k"),
    "a list of details": ((422, b'{"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"]}]}'), "seed"),
    "a proxy": (refusal("UnsupportedParamsError: openai does not support parameters: {'top_p': 0.9}"), "top_p"),
    "two at once": (refusal("`temperature` and `top_p` cannot both be specified for this model."), "top_p"),
    "deprecated": (refusal("`temperature` is deprecated for this model."), "temperature"),
    "plain text": ((400, b"unexpected keyword 'seed'"), "seed"),
}


@pytest.mark.parametrize(("refused", "field"), WORDINGS.values(), ids=WORDINGS)
def test_a_refused_field_is_left_out_however_servers_say_it(server: Server, refused: Reply, field: str) -> None:
    server.answer = lambda body, number: refused if field in body else reply("well")
    remote = Remote(server.url, "m", tries=1, concurrency=1)
    remote.generate(HELLO, Sampling(temperature=0.7, top_p=0.9, top_k=5))
    assert set(server.asked[0]) - set(server.asked[-1]) == {field}
    assert len(server.asked) == 4


def test_texts_are_cut_at_stop_strings_that_a_server_does_not_take(server: Server) -> None:
    message = "Unsupported parameter: 'stop' is not supported with this model."
    server.answer = lambda body, number: refusal(message, "stop") if "stop" in body else reply("a.b\nc", "length")
    [answers] = Remote(server.url, "m").generate(HELLO, Sampling(stop=("\n", ".")))
    assert {(answer.text, answer.truncated) for answer in answers} == {("a", False)}


REMAINING: dict[str, tuple[Reply, str]] = {
    "out of range": (refusal("Invalid 'temperature': expected a value <= 2, but got 3.", "temperature"), "temperature"),
    "too many tokens": (refusal("max_tokens is too large: 128. This model supports at most 64."), "max_new_tokens"),
    "no tools": (refusal("library/gemma does not support tools"), "tools"),
    "no reason": ((400, b"{}"), "extra_body"),
    "of extra_body": (refusal("Unsupported parameter: 'effort'", "effort"), "extra_body"),
    "a refused value of extra_body": (refusal("Unsupported parameter: 'top_k'", "top_k"), "top_k"),
    "a long text": (refusal("Invalid value at messages.[0].content", "messages.[0].content"), "messages"),
    "no key": (refusal("No key was given.", status=401), "OPENAI_API_KEY"),
    "no model": (refusal("The model 'm' does not exist.", status=404), "'m'"),
}


@pytest.mark.parametrize(("refused", "named"), REMAINING.values(), ids=REMAINING)
def test_a_refusal_that_nothing_cures_names_the_option_and_the_remedy(
    server: Server, refused: Reply, named: str
) -> None:
    server.answer = lambda body, number: refused
    asked = [replace(ONE[0], tools=(Tool("search", "Search.", ()),))]
    with pytest.raises(RemoteError) as caught:
        Remote(server.url, "m", concurrency=1, extra_body={"effort": "low", "top_k": 3}).generate(asked, Sampling())
    assert named in str(caught.value).rpartition(";")[2]
    assert "is the server running" not in str(caught.value)
    assert len(server.asked) == 1


# --- fields that a user adds ------------------------------------------------------------------------------------------


def test_further_fields_come_into_the_request_and_null_leaves_one_out(server: Server) -> None:
    server.answer = lambda body, number: reply("x")
    extra = {"reasoning_effort": "low", "temperature": 0.1, "top_p": None, "seed": None}
    Remote(server.url, "m", extra_body=extra).generate(ONE, Sampling(max_new_tokens=5))
    for body in server.asked:
        assert (body["reasoning_effort"], body["temperature"], body["max_tokens"]) == ("low", 0.1, 5)
        assert not {"top_p", "seed"} & set(body)


@pytest.mark.parametrize("given", [{"effort": "low", "top_p": None}, '{"effort": "low", "top_p": null}'])
def test_further_fields_are_an_option_of_models(server: Server, given: Any) -> None:
    server.answer = lambda body, number: reply("x")
    team = load_team(["a"], f"{server.url}#m", extra_body=given)
    team.generate(HELLO, Sampling())
    load_policy(f"{server.url}#m", build(RunOptions, {"extra_body": given}, source="test")).generate(HELLO, Sampling())
    assert all(body["effort"] == "low" and "top_p" not in body for body in server.asked)


@pytest.mark.parametrize("given", [{"messages": []}, {"stream": True}, {"a": float("nan")}, "[1]", "{", 3])
def test_fields_that_cannot_be_sent_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="extra_body"):
        build(ModelOptions, {"extra_body": given}, source="test")
    if isinstance(given, dict):
        with pytest.raises(ValueError, match="extra_body"):
            Remote("http://127.0.0.1:9/v1", "m", extra_body=given)


@pytest.mark.parametrize("sharing", ["shared", "separate"])
def test_a_model_of_this_process_takes_no_further_fields(sharing: str) -> None:
    with pytest.raises(ModelError, match="extra_body"):
        load_team(["a", "b"], "builtin:tiny", sharing=sharing, extra_body={"effort": "low"})
