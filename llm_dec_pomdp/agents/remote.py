"""A policy on an OpenAI-compatible HTTP server (`/chat/completions`): a larger model, a reviewer, a frozen member.

Its completions have no token ids and no log-probabilities, so it cannot be trained.
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
_MOST_STOPS = 4  # limit of stop strings in OpenAI's interface
_SHOWN = 300  # characters of a server's error in a message


class RemoteError(ConnectionError):
    """The server did not give a usable answer; the message names its address and the reason."""


class Remote(Policy):
    """A policy that requests every sample from a server.

    Args:
        url: Base address, e.g. "http://localhost:8000/v1", without user name, password and query.
        model: Name of the model on the server.
        api_key: Bearer token, which is sent only to this address; redirects are refused.
        timeout: Seconds until an answer must be complete.
        tries: Number of attempts per sample before `RemoteError` is raised; see `http.retried`.
        concurrency: Number of simultaneous requests.
        extra_body: Additional fields of every request, which override the client's own; None leaves a field out. A
            sampling field that the server does not support is renamed or left out, with a warning in the log.
        thinking: See `RunOptions`.

    Attributes:
        answers: A file of answers, also of an earlier process; see `agents.answers`.

    Raises:
        ValueError: The address, the key or a field is invalid. The message never shows the key, user name, password or
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
                "api_key has a space, a line break or a character beyond ASCII, which is not allowed in an HTTP header "
                "(the key is not shown here); give the key as it was issued"
            )
        if tries < 1:
            raise ValueError(f"tries is {tries}; it must be at least 1")
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
        """Return one completion per seed; the server receives the seed and may ignore it.

        Raises:
            RemoteError: The server gave no usable answer in all tries.
            ValueError: There are more than 4 stop strings, the limit of OpenAI's interface.
        """
        if len(sampling.stop) > _MOST_STOPS:
            raise ValueError(
                f"stop has {len(sampling.stop)} strings, {list(sampling.stop)}, but servers such as {self.url} accept "
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
            except BaseException:  # cancel the other requests and their retries
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
        if sampling.top_k:  # not part of OpenAI's interface; a server may refuse it
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
        if sampling.stop and "stop" not in self._fields.of(body):  # the server does not support it
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
        """Send a request, with retries, and return the result of `read` on the answer.

        A field that the server does not support is renamed or left out in this and later requests; see `Fields`.

        Args:
            path: The path below the base address.
            body: The fields of the request.
            read: A function from the bytes of an answer to a result; it raises WireError for an invalid answer.
            given_up: Event after which no attempt is repeated.
            most: Maximum size of an answer, in bytes.

        Raises:
            RemoteError: The server gave no usable answer in all tries.
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
    """Return the completion in an answer.

    Some valid answers have an empty text: no choice (a content filter), a refusal, or thoughts that used up the token
    limit.

    Raises:
        WireError: The answer does not follow OpenAI's interface, or reports an error of the server.
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
        raise WireError(f"its answer is not JSON: {error}", status=200) from None
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
    """Raise WireError if an answer or a choice reports an error; some servers send errors with status 200."""
    error = values.get("error")
    if values.get("object") == "error":
        error = values.get("message") or "an error"
    if error or values.get("finish_reason") == "error":
        raise WireError(f"its answer is an error: {json.dumps(error or 'no reason is given')[:_SHOWN]}", status=200)


def _count(values: Any, *path: str) -> float:
    """Return the count at a path of an answer; NaN if there is none."""
    for name in path:
        values = cast("dict[str, Any]", values).get(name) if isinstance(values, dict) else None
    return values if type(values) is int and 0 <= values < 1 << 53 else math.nan


class RemoteJudge:
    """A model on a server as an LLM judge, by the log-probabilities of an echoed prompt (`/completions`).

    vLLM and other servers with OpenAI's older interface support this. Prefixes are plain texts, since the chat template
    is on the server. The weights on the server are unknown, so its name has no hash.

    Args:
        url: Base address of the server.
        model: Name of the model on the server.
        options: Further arguments of `Remote`.
    """

    def __init__(self, url: str, model: str, **options: Any) -> None:
        self._remote = Remote(url, model, **options)
        self.name = f"{self._remote.url}#{model}"

    def log_likelihoods(self, prefixes: Sequence[str | tuple[Message, ...]], texts: Sequence[str]) -> list[Likelihood]:
        """Return the log-probabilities of texts, with `end` NaN; see `TextJudge`.

        Raises:
            RemoteError: The server gave no usable answer, or no log-probabilities of the prompt.
            TypeError: A prefix is a history.
        """
        for prefix in prefixes:
            if not isinstance(prefix, str):
                raise TypeError(f"{self.name} needs a text as prefix, not a history; use a judge in this process")
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
    """Return the likelihood of the tokens that begin between two characters of an echoed prompt."""
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
    """Let policies on servers write their answers to a file and reuse the answers in it; yield the file."""
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
        policy: Any policy; its agent is named "expert".
        sampling: Sampling options; the number of the attempt is the seed.
    """

    def __init__(self, policy: Any, sampling: Sampling | None = None) -> None:
        self._policy = policy
        self._sampling = sampling or Sampling(temperature=0.7, max_new_tokens=1024)

    def __call__(self, prompt: str, number: int) -> str:
        """Return the answer to a prompt; `number` is the attempt and the seed."""
        [[completion]] = self._policy.generate([Request("expert", conversation(prompt), (number,))], self._sampling)
        return completion.text
