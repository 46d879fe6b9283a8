"""A policy behind an OpenAI-compatible HTTP server (`/chat/completions`): a larger model, a reviewer, a frozen member.

Standard library only. Such a policy has no tokens and no log-probabilities to train on.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..types import Completion
from .base import Request, Sampling

_CHUNK = 1 << 20  # bytes read at once
_SHOWN = 300  # bytes of a server's refusal in a message


class RemoteError(RuntimeError):
    """The server did not give a usable answer; the message names its address and the reason."""


class Remote:
    """Asks a server for every sample.

    Args:
        url: Base address, e.g. "http://localhost:8000/v1".
        model: Name of the model as the server knows it.
        api_key: Sent as a bearer token where given.
        timeout: Seconds to wait for one answer; one that begins, but does not end in time, is given up too.
        tries: How often a sample is asked for before `RemoteError` is raised.
        concurrency: Samples asked for at the same time.
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
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url is {url!r}; it must begin with http:// or https://")
        self.url = url.rstrip("/")
        self.model = model
        self._api_key = api_key
        self._timeout = timeout
        self._tries = tries
        self._concurrency = concurrency

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """One answer per seed; the seed is handed to the server, which may ignore it.

        Raises:
            RemoteError: No usable answer after all tries.
        """
        with ThreadPoolExecutor(self._concurrency) as threads:
            pending = [[threads.submit(self._sample, r, seed, sampling) for seed in r.seeds] for r in requests]
            return [[future.result() for future in futures] for futures in pending]

    def _sample(self, request: Request, seed: int, sampling: Sampling) -> Completion:
        body = {
            "model": self.model,
            "messages": [
                {"role": "user" if position % 2 == 0 else "assistant", "content": text}
                for position, text in enumerate(request.history)
            ],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_new_tokens,
            "seed": seed % 2**31,
        }
        if sampling.top_k:  # beyond OpenAI's own interface: a server that does not know it says so
            body["top_k"] = sampling.top_k
        started = time.perf_counter()
        reason = ""
        for _ in range(self._tries):
            try:
                choice = self._post(body)["choices"][0]
                text = choice["message"]["content"]
                if isinstance(text, str):
                    truncated = choice.get("finish_reason") == "length"
                    return Completion(text, truncated=truncated, seconds=time.perf_counter() - started)
                reason = f"the content of its answer is a {type(text).__name__}, not text"
            except urllib.error.HTTPError as error:
                reason = f"{error}: {error.read(_SHOWN).decode(errors='replace')}"
            except (LookupError, TypeError, AttributeError) as error:
                reason = f"its answer has no choices[0].message.content ({error!r})"
            except (OSError, ValueError, urllib.error.URLError) as error:
                reason = str(error) or type(error).__name__
        raise RemoteError(f"{self.url} gave no usable answer in {self._tries} tries: {reason}; is the server running?")

    def _post(self, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        call = urllib.request.Request(f"{self.url}/chat/completions", json.dumps(body).encode("ascii"), headers)
        begun = time.monotonic()
        received = b""
        with urllib.request.urlopen(call, timeout=self._timeout) as answer:  # a limit for every read, not for all
            while part := answer.read1(_CHUNK):
                received += part
                if time.monotonic() - begun > self._timeout:
                    raise TimeoutError(f"timed out after {len(received)} bytes")
        return json.loads(received)


class Expert:
    """A policy as the outside reviewer of a code environment: `make(..., feedback="expert", expert=Expert(policy))`.

    Args:
        policy: Any policy; it is asked as the agent "expert".
        sampling: How its answer is drawn; the number of the try is its seed, so an episode can be repeated.
    """

    def __init__(self, policy: Any, sampling: Sampling | None = None) -> None:
        self._policy = policy
        self._sampling = sampling or Sampling(temperature=0.7, max_new_tokens=1024)

    def __call__(self, prompt: str, number: int) -> str:
        """The answer to a prompt; `number` is the try and seeds the draw."""
        [[completion]] = self._policy.generate([Request("expert", (prompt,), (number,))], self._sampling)
        return completion.text
