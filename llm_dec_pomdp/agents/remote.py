"""A policy behind an OpenAI-compatible HTTP server (`/chat/completions`): a larger model, a reviewer, a frozen member.

It has no tokens and no log-probabilities to train on.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from ..http import LONGEST_TEXT, MOST_BYTES, Client, WireError, bearer, checked_address, retried
from ..types import Completion, Likelihood, Message, Usage, conversation
from .answers import Answers
from .base import Policy, Request, Sampling, definitions
from .fields import Fields
from .thoughts import Thinking, split_reply
from .tool_calls import content_and_calls, messages_of

T = TypeVar("T")
_MOST_STOPS = 4  # stop strings, of OpenAI's interface
_SHOWN = 300  # characters of an error in a message


class RemoteError(ConnectionError):
    """The server did not give a usable answer; the message names its address and the reason."""


class Remote(Policy):
    """Asks a server for every sample.

    Args:
        url: Base address, e.g. "http://localhost:8000/v1"; without a user name, a password and a query.
        model: Name of the model on the server.
        api_key: Sent as a bearer token where given, and only to this address: redirects are refused.
        timeout: Seconds until an answer must be complete.
        tries: How often a sample is asked for before `RemoteError` is raised, see `http.retried`.
        concurrency: Samples asked for at the same time.
        extra_body: Fields of every request besides those of the sampling, or in their place; None leaves a field out.
            A field of the sampling that the server does not support is renamed or left out with a line in the log.
        thinking: See `RunOptions`.

    Attributes:
        answers: A file that keeps its answers, and those that it holds from an earlier process; see `agents.answers`.

    Raises:
        ValueError: The address, the key or a field cannot be used; the message shows no key, user name, password or
            query.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout: float = 60.0,
        tries: int = 3,
        concurrency: int = 8,
        extra_body: Mapping[str, Any] | None = None,
        thinking: Thinking = "auto",
    ) -> None:
        if api_key and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise ValueError(
                "api_key holds a space, a line break or a character beyond ASCII, which a header cannot hold (the key "
                "is not shown here); give it as the server's owner issued it"
            )
        if tries < 1:
            raise ValueError(f"tries is {tries}; a sample is asked for at least once")
        self.url = checked_address(url)
        self.model = model
        self._api_key = api_key
        self._timeout = timeout
        self._tries = tries
        self._client = Client()
        self.answers: Answers | None = None
        self._fields = Fields(f"model {model!r} at {self.url}", extra_body or {})
        self.concurrency = concurrency
        self._thinking: Thinking = thinking

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """One answer per seed; the seed is handed to the server, which may ignore it.

        Raises:
            RemoteError: No usable answer after all tries.
            ValueError: More stop strings than OpenAI's interface takes.
        """
        if len(sampling.stop) > _MOST_STOPS:
            raise ValueError(
                f"stop has {len(sampling.stop)} strings, {list(sampling.stop)}, and servers such as {self.url} take "
                f"{_MOST_STOPS}; give fewer"
            )
        given_up = threading.Event()
        with ThreadPoolExecutor(self.concurrency) as threads:
            pending = [
                [threads.submit(self._sample, r, seed, sampling, given_up) for seed in r.seeds] for r in requests
            ]
            try:
                over, _ = wait([future for futures in pending for future in futures], return_when=FIRST_EXCEPTION)
                for future in over:
                    future.result()
                return [[future.result() for future in futures] for futures in pending]
            except BaseException:  # do not ask for the others, nor wait between their tries
                given_up.set()
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def _sample(self, request: Request, seed: int, sampling: Sampling, given_up: threading.Event) -> Completion:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages_of(request.history),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_new_tokens,
            "seed": seed % 2**31,
        }
        if sampling.top_k:  # beyond OpenAI's own interface: a server that does not know it says so
            body["top_k"] = sampling.top_k
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if request.tools:
            body["tools"] = definitions(request.tools)
        key = {"url": self.url, **body}
        if self.answers and (known := self.answers.take(key)):
            return known
        started = time.perf_counter()
        read = functools.partial(_completion_of, thinking=self._thinking)
        completion = self.answered("/chat/completions", body, read, given_up, most=LONGEST_TEXT)
        text, truncated = completion.text, completion.truncated
        if sampling.stop and "stop" not in self._fields.of(body):  # the server does not take it
            text = re.split("|".join(map(re.escape, sampling.stop)), text, maxsplit=1)[0]
            truncated = truncated and text == completion.text
        completion = replace(completion, text=text, truncated=truncated, seconds=time.perf_counter() - started)
        if self.answers:
            self.answers.add(key, completion)
        return completion

    def answered(
        self,
        path: str,
        body: dict[str, Any],
        read: Callable[[bytes], T],
        given_up: threading.Event | None = None,
        most: int = MOST_BYTES,
    ) -> T:
        """Return what `read` finds in the answer to a request, which is tried again where that may help.

        A field that the server does not support is renamed or left out in this request and later ones, see `Fields`.

        Raises:
            RemoteError: No usable answer after all tries.
        """
        headers = bearer(self._api_key)

        def asked() -> T:
            while True:
                sent = self._fields.of(body)
                content = json.dumps(sent).encode("ascii")
                try:
                    return read(self._client.post(f"{self.url}{path}", content, headers, self._timeout, most))
                except WireError as error:
                    if not self._fields.adapt(error, sent):
                        raise

        try:
            return retried(asked, self._tries, given_up)
        except WireError as error:
            reason = str(error) + self._fields.advice(error, self._fields.of(body))
        raise RemoteError(f"{self.url} gave {reason}")


def _completion_of(answer: bytes, thinking: Thinking) -> Completion:
    """Return the completion that an answer holds.

    An answer that the model could not give is valid, and its text is empty: no choice (a content filter), a refusal, or
    a token limit that thoughts have used up.

    Raises:
        WireError: It is no answer of OpenAI's interface, or reports an error of the server.
    """
    try:
        body = json.loads(answer)
        _refuse_error(body)
        choice: Any = body["choices"][0] if body["choices"] != [] else {"message": {}}
        _refuse_error(choice)
        reason = choice.get("finish_reason")
        left_out = reason in ("content_filter", "length")
        message: Any = (choice.get("message") or {}) if left_out else choice["message"]
        content, calls = content_and_calls(message, truncated=reason == "length")
    except (ValueError, RecursionError) as error:
        raise WireError(f"its answer is no JSON: {error}", status=200) from None
    except (LookupError, TypeError, AttributeError) as error:
        raise WireError(f"its answer has no choices[0].message.content ({error!r})", status=200) from None
    usage = Usage(
        _count(body, "usage", "prompt_tokens"),
        _count(body, "usage", "completion_tokens"),
        _count(body, "usage", "completion_tokens_details", "reasoning_tokens"),
    )
    thought, content = split_reply(message, content, thinking)
    text = "\n".join(filter(None, [content, *calls]))
    return Completion(text, truncated=reason == "length", thought=thought, usage=usage)


def _refuse_error(values: Any) -> None:
    """Raise WireError for an answer or a choice with the error of a server, which some send with status 200."""
    error = values.get("error")
    if values.get("object") == "error":
        error = values.get("message") or "an error"
    if error or values.get("finish_reason") == "error":
        raise WireError(f"its answer is an error: {json.dumps(error or 'no reason is given')[:_SHOWN]}", status=200)


def _count(values: Any, *path: str) -> float:
    """Return the count that a path leads to in an answer; NaN where there is none."""
    for name in path:
        values = cast("dict[str, Any]", values).get(name) if isinstance(values, dict) else None
    return values if type(values) is int and 0 <= values < 1 << 53 else math.nan


class RemoteJudge:
    """A model behind a server as a judge: `/completions` with the prompt echoed, and its log-probabilities.

    vLLM and other servers of OpenAI's older interface have them. It reads plain prefixes; chat templates stay on the
    server. Whoever runs the server decides what weights the model has, so its name has no hash.

    Args:
        url, model, api_key, timeout, tries, concurrency: See `Remote`.
    """

    def __init__(self, url: str, model: str, **options: Any) -> None:
        self._remote = Remote(url, model, **options)
        self.name = f"{self._remote.url}#{model}"

    def log_likelihoods(self, prefixes: Sequence[str | tuple[Message, ...]], texts: Sequence[str]) -> list[Likelihood]:
        """See `TextJudge`; `end` is NaN.

        Raises:
            RemoteError: No usable answer, or one without log-probabilities of the prompt.
            TypeError: A prefix is a conversation.
        """
        for prefix in prefixes:
            if not isinstance(prefix, str):
                raise TypeError(f"{self.name} judges plain texts, and the prefix is a conversation; judge with a model")
        with ThreadPoolExecutor(self._remote.concurrency) as threads:
            return list(threads.map(self._judged, prefixes, texts))

    def _judged(self, prefix: str, text: str) -> Likelihood:
        body = {
            "model": self._remote.model,
            "prompt": prefix + text,
            "max_tokens": 1,  # some servers refuse 0
            "temperature": 0,
            "echo": True,
            "logprobs": 1,
        }
        read = functools.partial(_likelihood_of, start=len(prefix), end=len(prefix) + len(text))
        return self._remote.answered("/completions", body, read)


def _likelihood_of(answer: bytes, start: int, end: int) -> Likelihood:
    """The likelihood of the tokens that begin between two characters of an echoed prompt."""
    try:
        logprobs = json.loads(answer)["choices"][0]["logprobs"]
        pairs = zip(logprobs["text_offset"], logprobs["token_logprobs"], strict=True)
        tokens = [(place - start, float(nats)) for place, nats in pairs if start <= place < end]
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise WireError(
            f"an answer without log-probabilities of the prompt ({error!r}); a judge needs `echo` with `logprobs`, "
            "which vLLM has",
            again=False,
            status=200,
        ) from None
    if end > start and not tokens:
        why = "an answer that does not echo the prompt; a judge needs `echo` with `logprobs`"
        raise WireError(why, again=False, status=200)
    return Likelihood(tuple(nats for _, nats in tokens), starts=tuple(place for place, _ in tokens))


@contextlib.contextmanager
def keeping_answers(policies: Iterable[Policy], path: Path) -> Generator[Answers]:
    """Let the policies on servers write their answers to a file, and reuse the answers that it holds."""
    answers = Answers(path)
    remotes = [policy for policy in policies if isinstance(policy, Remote)]
    try:
        for remote in remotes:
            remote.answers = answers
        yield answers
    finally:
        for remote in remotes:
            remote.answers = None


class Expert:
    """A policy as the outside reviewer of a code environment: `make(..., feedback="expert", expert=Expert(policy))`.

    Args:
        policy: Any policy; it is asked as the agent "expert".
        sampling: How its answer is drawn; the number of the try is the seed.
    """

    def __init__(self, policy: Any, sampling: Sampling | None = None) -> None:
        self._policy = policy
        self._sampling = sampling or Sampling(temperature=0.7, max_new_tokens=1024)

    def __call__(self, prompt: str, number: int) -> str:
        """The answer to a prompt; `number` is the try and seeds the draw."""
        [[completion]] = self._policy.generate([Request("expert", conversation(prompt), (number,))], self._sampling)
        return completion.text
