"""`Remote` against a real server of the OpenAI kind on loopback."""

from __future__ import annotations

import math
import socket
import threading
from typing import Any

import pytest
from servers import Reply, Server, echo, reply, reply_of
from waiting import wait_until

from llm_dec_pomdp.agents import Remote, RemoteError, Request, Sampling
from llm_dec_pomdp.types import conversation

HELLO = (Request("a", conversation("hello")),)


@pytest.fixture
def dead_url() -> str:
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def texts(remote: Remote, *requests: Request, sampling: Sampling | None = None) -> list[list[str]]:
    return [[answer.text for answer in answers] for answers in remote.generate(requests, sampling or Sampling())]


# --- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [{}, {"top_k": 7}, {"stop": ["\n", "END"]}])  # not all servers know all of them
def test_the_request_holds_the_history_and_the_sampling(server: Server, sent: dict[str, Any]) -> None:
    sampling = Sampling(temperature=0.5, top_p=0.25, max_new_tokens=17, **sent)
    request = Request("agent_1", conversation("problem", "my answer", "try again"), (5,))
    texts(Remote(server.url, "big-model"), request, sampling=sampling)
    assert server.asked == [
        {
            "model": "big-model",
            "messages": [
                {"role": "user", "content": "problem"},
                {"role": "assistant", "content": "my answer"},
                {"role": "user", "content": "try again"},
            ],
            "temperature": 0.5,
            "top_p": 0.25,
            "max_tokens": 17,
            "seed": 5,
            **sent,
        }
    ]
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["Content-Type"] == "application/json"


def test_more_stop_strings_than_servers_take_are_refused(server: Server) -> None:
    with pytest.raises(ValueError, match="stop has 5 strings"):
        texts(Remote(server.url, "m"), *HELLO, sampling=Sampling(stop=tuple("abcde")))
    assert server.asked == []


def test_a_key_is_sent_as_a_bearer_token_and_only_where_given(server: Server) -> None:
    texts(Remote(server.url + "/", "m", api_key="secret"), *HELLO)  # a slash at the end does no harm
    texts(Remote(server.url, "m"), *HELLO)
    assert [headers.get("Authorization") for headers in server.headers] == ["Bearer secret", None]
    assert server.paths == ["/v1/chat/completions"] * 2


@pytest.mark.parametrize("seed", [0, 2**31 - 1, 2**31, 2**63 + 11])
def test_seeds_fit_into_31_bits(server: Server, seed: int) -> None:
    texts(Remote(server.url, "m"), Request("a", conversation("o"), (seed,)))
    assert server.asked[0]["seed"] == seed % 2**31


@pytest.mark.parametrize(
    "text", ["größer 漢字 😀", 'quote " and \\ backslash', "nul \x00", "lone \ud800", "", "x" * 200_000]
)
def test_any_text_arrives_as_it_is(server: Server, text: str) -> None:
    server.answer = lambda body, number: reply(body["messages"][0]["content"])
    assert texts(Remote(server.url, "m"), Request("a", conversation(text))) == [[text]]
    assert server.asked[0]["messages"][0]["content"] == text


# --- what comes back --------------------------------------------------------------------------------------------------


def test_answers_are_in_the_order_of_requests_and_seeds(server: Server) -> None:
    others = threading.Barrier(4)

    def late_first(body: dict[str, Any], number: int) -> Reply:
        others.wait(timeout=30)
        if body["seed"] == 0:  # the first asked is the last answered
            wait_until(lambda: len(answered) == 3)
        answered.append(body["seed"])
        return echo(body, number)

    answered: list[int] = []

    server.answer = late_first
    requests = [
        Request("a", conversation("x"), (0, 1, 2)),
        Request("b", conversation("y"), ()),
        Request("b", conversation("z"), (3,)),
    ]
    assert texts(Remote(server.url, "m"), *requests) == [["x 0", "x 1", "x 2"], [], ["z 3"]]


@pytest.mark.parametrize(("reason", "truncated"), [("length", True), ("stop", False), ("content_filter", False)])
def test_a_completion_has_text_and_time_and_no_tokens(server: Server, reason: str, truncated: bool) -> None:
    server.answer = lambda body, number: reply("half a", reason)
    [[completion]] = Remote(server.url, "m").generate(HELLO, Sampling())
    assert (completion.text, completion.truncated) == ("half a", truncated)
    assert completion.seconds > 0
    assert (completion.prompt_ids, completion.token_ids, completion.logprobs) == ((), (), ())


THOUGHT = [{"type": "thinking", "thinking": [{"type": "text", "text": "a thought"}]}]
ANSWERS: dict[str, tuple[Reply, str, bool]] = {  # of a model that failed, or in another valid form: text, truncated
    "thoughts to the limit": (reply_of({"content": None, "reasoning_content": "hm"}, "length"), "", True),
    "thoughts under another name": (reply_of({"content": None, "reasoning": "hm"}, "length"), "", True),
    "the limit at once": (reply(None, "length"), "", True),
    "thoughts alone": (reply_of({"reasoning_content": "hm"}), "", False),
    "thoughts and text": (reply_of({"content": "a", "reasoning_content": "hm", "reasoning": "hm"}), "a", False),
    "a refusal": (reply_of({"content": None, "refusal": "I cannot do that."}), "", False),
    "filtered": (reply(None, "content_filter"), "", False),
    "filtered without a message": ((200, b'{"choices": [{"finish_reason": "content_filter"}]}'), "", False),
    "the limit without a message": ((200, b'{"choices": [{"finish_reason": "length"}]}'), "", True),
    "no choice": ((200, b'{"choices": []}'), "", False),
    "no reason to finish": (reply_of({"content": "a"}, None), "a", False),
    "parts": (reply([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab", False),
    "parts with thoughts": (reply([*THOUGHT, {"type": "text", "text": "a"}]), "a", False),
    "a part that refuses": (reply([{"type": "refusal", "refusal": "no"}]), "", False),
    "no part": (reply([], "length"), "", True),
}


@pytest.mark.parametrize(("answer", "text", "truncated"), ANSWERS.values(), ids=ANSWERS)
def test_what_a_model_answers_badly_is_a_text(server: Server, answer: Reply, text: str, truncated: bool) -> None:
    server.answer = lambda body, number: answer
    [[completion]] = Remote(server.url, "m").generate(HELLO, Sampling())
    assert (completion.text, completion.truncated) == (text, truncated)
    assert len(server.asked) == 1


USAGES: dict[str, tuple[Any, tuple[float, float, float]]] = {
    "full": (
        {"prompt_tokens": 7, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 3}},
        (7, 5, 3),
    ),
    "no details": ({"prompt_tokens": 7, "completion_tokens": 5, "completion_tokens_details": None}, (7, 5, math.nan)),
    "null": (None, (math.nan,) * 3),
    "no counts": ({"prompt_tokens": "7", "completion_tokens": -1}, (math.nan,) * 3),
    "a list": ([7, 5], (math.nan,) * 3),
}


@pytest.mark.parametrize(("usage", "counts"), USAGES.values(), ids=USAGES)
def test_the_tokens_that_a_server_counts_are_kept(server: Server, usage: Any, counts: tuple[float, ...]) -> None:
    server.answer = lambda body, number: reply_of({"content": "a"}, usage=usage)
    [[completion]] = Remote(server.url, "m").generate(HELLO, Sampling())
    assert completion.usage == pytest.approx(counts, nan_ok=True)
    counted = (completion.prompt_tokens, completion.sampled_tokens)
    assert counted == pytest.approx(counts[:2], nan_ok=True)


def test_as_many_samples_as_allowed_are_asked_for_at_once(server: Server) -> None:
    together = threading.Barrier(3)

    def wait_for_others(body: dict[str, Any], number: int) -> Reply:
        together.wait(timeout=30)  # breaks, and so fails the request, when three are never there together
        return echo(body, number)

    server.answer = wait_for_others
    requests = [Request("a", conversation("x"), (0, 1, 2, 3, 4)), Request("b", conversation("y"), (5, 6, 7, 8))]
    first, second = texts(Remote(server.url, "m", concurrency=3, tries=1), *requests)
    assert first + second == [*(f"x {i}" for i in range(5)), *(f"y {i}" for i in range(5, 9))]
    assert server.most_at_once == 3


# --- failures ---------------------------------------------------------------------------------------------------------

FAILURES: dict[str, tuple[Reply, str]] = {
    "500": ((500, b"out of memory"), "HTTP 500"),
    "not JSON": ((200, b"<html>busy</html>"), "Expecting value"),
    "not text": ((200, b"\xff\xfe\xfa"), "decode"),
    "empty": ((200, b""), "Expecting value"),
    "an error": ((200, b'{"error": {"message": "overloaded"}}'), "overloaded"),
    "an error as a text": ((200, b'{"error": "overloaded"}'), "overloaded"),
    "an error, no choices": ((200, b'{"choices": [], "error": {"message": "overloaded"}}'), "overloaded"),
    "an error of vLLM": ((200, b'{"object": "error", "message": "overloaded"}'), "overloaded"),
    "an error of a choice": (
        (200, b'{"choices": [{"message": {"content": "half a"}, "error": {"message": "overloaded"}}]}'),
        "overloaded",
    ),
    "an error as a reason": (reply("half a", "error"), "no reason is given"),
    "no choices": ((200, b'{"id": "1"}'), "no choices"),
    "choices null": ((200, b'{"choices": null}'), "no choices"),
    "a list": ((200, b"[1, 2]"), "no choices"),
    "a number": ((200, b"7"), "no choices"),
    "no message": ((200, b'{"choices": [{"text": "old style"}]}'), "no choices"),
    "message null": ((200, b'{"choices": [{"message": null, "finish_reason": "stop"}]}'), "no choices"),
    "content a number": (reply(7), "the content of its answer is a int, not text"),
}


@pytest.mark.every(3)
@pytest.mark.parametrize(("answer", "reason"), FAILURES.values(), ids=FAILURES)
def test_a_failure_names_the_address_the_tries_and_the_reason(server: Server, answer: Reply, reason: str) -> None:
    server.answer = lambda body, number: answer
    with pytest.raises(RemoteError) as caught:
        Remote(server.url, "m", tries=2).generate(HELLO, Sampling())
    assert server.url in str(caught.value)
    assert "2 tries" in str(caught.value)
    assert reason in str(caught.value)
    assert server.asked == [server.asked[0]] * 2


def test_a_server_that_redirects_is_running(server: Server) -> None:
    server.answer = lambda body, number: (307, b"")
    with pytest.raises(RemoteError) as caught:
        Remote(server.url, "m").generate(HELLO, Sampling())
    assert "give the final address" in str(caught.value)
    assert "running" not in str(caught.value)


def test_only_the_failed_sample_is_asked_for_again(server: Server) -> None:
    failed: set[int] = set()

    def once(body: dict[str, Any], number: int) -> Reply:
        seed = body["seed"]
        if seed % 2 and seed not in failed:
            failed.add(seed)
            return 503, b""
        return echo(body, number)

    server.answer = once
    assert texts(Remote(server.url, "m"), Request("a", conversation("x"), (0, 1, 2, 3))) == [
        ["x 0", "x 1", "x 2", "x 3"]
    ]
    assert sorted(body["seed"] for body in server.asked) == [0, 1, 1, 2, 3, 3]


def test_a_dead_port_is_named(dead_url: str, hasty: None) -> None:
    with pytest.raises(RemoteError, match=r"127\.0\.0\.1:\d+/v1 .*in 3 tries: .*refused"):
        Remote(dead_url, "m").generate(HELLO, Sampling())


def test_a_server_slower_than_the_timeout_is_named(server: Server) -> None:
    done = threading.Event()

    def sleep(body: dict[str, Any], number: int) -> Reply:
        done.wait(timeout=30)
        return reply("too late")

    server.answer = sleep
    try:
        with pytest.raises(RemoteError, match=r"127\.0\.0\.1:\d+/v1 .*2 tries.*timed out"):
            Remote(server.url, "m", timeout=0.2, tries=2).generate(HELLO, Sampling())
        assert len(server.asked) == 2
    finally:
        done.set()


@pytest.mark.parametrize("url", ["localhost:8000/v1", "", "ftp://host/v1", "file:///etc/passwd"])
def test_an_address_without_http_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=f"url is {url!r}"):
        Remote(url, "m")


# --- as a member of a team --------------------------------------------------------------------------------------------
