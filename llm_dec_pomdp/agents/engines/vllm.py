# pyright: basic
"""vLLM behind its HTTP server draws the texts of a model whose LoRA adapters are trained here.

`llm-dec-pomdp engine vllm MODEL` starts such a server. Adapters go there as files in a folder that both can read, under
a new name for every version of the weights: what the server keeps of an adapter, it keeps by name. Every answer has to
name the version that was asked for. A request holds one prompt and one seed; the server batches them.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic

from ...config import Config as Options
from ...config import Positive
from ...storage.files import Draft
from ..base import Sampling
from ..weights import write_weights
from ..wire import WireError, checked_address, post, retried, without_key
from . import EngineError, Prompt, Sampled

if TYPE_CHECKING:
    from ..transformers.language_model import LanguageModel


_NEUTRAL = {"min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}


class _AdapterGoneError(Exception):
    """The server does not know the adapter that was asked for: somebody unloaded it, or it was started anew."""


class VLLM:
    """Draws with a server of vLLM.

    Args:
        config: Where it is.
    """

    adapters_only = True

    class Config(Options):
        """Where the server is and how it is asked."""

        url: str
        """Base address, e.g. "http://localhost:8000"."""
        model: str
        """The base model's name as the server knows it."""
        adapters: str = ""
        """A folder that this process and the server can read, for the adapters that are trained."""
        timeout: float = pydantic.Field(600.0, gt=0)
        """Seconds for one text, from the question to the end of the answer."""
        tries: Positive = 12
        """How often a text is asked for before the run stops. Waits double from 0.25 s to a minute: 4 minutes."""
        concurrency: Positive = 256
        """Texts asked for at the same time."""

        @pydantic.field_validator("url")
        @classmethod
        def _address(cls, url: str) -> str:
            return checked_address(url)

    def __init__(self, config: VLLM.Config) -> None:
        self.config = config
        self._key = os.environ.get("OPENAI_API_KEY")
        self._run = uuid.uuid4().hex[:8]  # several runs may share a server
        self._policy: LanguageModel | None = None
        self._version = -1
        self._names: dict[str, str] = {}  # under which the server knows an adapter

    # --- weights ------------------------------------------------------------------------------------------------------

    def load(self, policy: LanguageModel, version: int) -> None:
        """See `Engine`.

        Raises:
            EngineError: All weights are trained, there is no folder for adapters, or the server does not take them.
        """
        self._policy, self._version = policy, version
        if policy.adapters is None:
            if any(True for _ in policy.parameters()):
                raise EngineError(
                    "vLLM's server takes adapters and no whole models over HTTP, and all weights of this model are "
                    'trained; train adapters (sharing = "lora"), or leave the engine out'
                )
            return
        if not self.config.adapters:
            raise EngineError(
                "engine vllm: adapters is '', but adapters are trained; give a folder that the server can read"
            )
        old = self._names
        self._names = {}
        for agent, weights in policy.weight_files(list(policy.adapters)).items():
            adapter = policy.adapters[agent]
            name = f"{self._run}-{len(self._names)}-v{version}"
            folder = Path(self.config.adapters).absolute() / name
            with Draft(folder) as draft:
                write_weights(draft, ".", policy, weights)
                draft.publish()
            self._tell("load_lora_adapter", lora_name=name, lora_path=str(folder), load_inplace=True)
            self._names[adapter] = name
        for name in old.values():
            if name not in self._names.values():
                self._forget(name)

    def _forget(self, name: str) -> None:
        """Let the server drop an old adapter; one that it has lost already is gone all the same."""
        with contextlib.suppress(EngineError):
            self._tell("unload_lora_adapter", lora_name=name)
        shutil.rmtree(Path(self.config.adapters).absolute() / name, ignore_errors=True)

    def _tell(self, order: str, **what: str | bool) -> None:
        try:
            retried(lambda: self._post(order, what), self.config.tries)
            return
        except WireError as error:
            reason = without_key(error, self._key)
        raise EngineError(
            f"{self.config.url} does not take adapters ({order} {what['lora_name']}): {reason}; does it run, and was "
            "it started by `llm-dec-pomdp engine vllm MODEL`, which allows that?"
        )

    # --- texts --------------------------------------------------------------------------------------------------------

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, stop_ids: frozenset[int]) -> list[list[Sampled]]:
        """See `Engine`. A server that was started anew is given the adapters again.

        Raises:
            EngineError: No usable text after all tries; or adapters are trained on truncated draws.
        """
        if self._names and (sampling.top_p < 1 or sampling.top_k):
            raise EngineError(
                f"top_p is {sampling.top_p} and top_k is {sampling.top_k}, and vLLM tells log-probabilities of what "
                "such limits leave, which cannot be learnt from; set top_p to 1 and top_k to 0, or leave the engine out"
            )
        for _ in range(self.config.tries + 1):
            try:
                return self._draw(prompts, sampling, stop_ids)
            except _AdapterGoneError:
                assert self._policy is not None
                self.load(self._policy, self._version)
        raise EngineError(f"{self.config.url} loses adapters as soon as they are loaded; look into its log")

    def _draw(self, prompts: Sequence[Prompt], sampling: Sampling, stop_ids: frozenset[int]) -> list[list[Sampled]]:
        given_up = threading.Event()
        with ThreadPoolExecutor(self.config.concurrency) as threads:
            pending = [
                [threads.submit(self._text, prompt, seed, sampling, stop_ids, given_up) for seed in prompt.seeds]
                for prompt in prompts
            ]
            try:
                return [[future.result() for future in futures] for futures in pending]
            except BaseException:  # the others need not be asked for, nor waited for between tries
                given_up.set()
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def _text(
        self, prompt: Prompt, seed: int, sampling: Sampling, stop_ids: frozenset[int], given_up: threading.Event
    ) -> Sampled:
        model = self.config.model if prompt.adapter is None else self._names[prompt.adapter]
        body = {
            "model": model,
            "prompt": prompt.ids,
            "seed": seed % 2**63,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "max_tokens": sampling.max_new_tokens,
            "stop_token_ids": sorted(stop_ids),
            "ignore_eos": True,  # and what the model's own generation_config.json says of ...
            **_NEUTRAL,  # ... these, which would change what is drawn
            "logprobs": 0,  # of the drawn tokens alone
            "return_token_ids": True,
        }
        started = time.perf_counter()

        def ask() -> Sampled:
            return _sampled(self._post("completions", body), model, stop_ids)

        try:
            drawn = retried(ask, self.config.tries, given_up)
            drawn.seconds = time.perf_counter() - started
            return drawn
        except WireError as error:
            reason, gone = without_key(error, self._key), error.status == 404 and prompt.adapter is not None
        if gone:
            raise _AdapterGoneError
        raise EngineError(f"{self.config.url} gave {reason}; is the server running, with {self.config.model!r}?")

    def _post(self, path: str, body: Any) -> bytes:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return post(f"{self.config.url}/v1/{path}", json.dumps(body).encode("ascii"), headers, self.config.timeout)


def _sampled(answer: bytes, model: str, stop_ids: frozenset[int]) -> Sampled:
    """The text of an answer.

    Raises:
        WireError: It is not what the server answers, or of another model than the one that was asked.
    """
    try:
        content = json.loads(answer)
        [choice] = content["choices"]
        ids, logprobs = list(choice["token_ids"]), list(choice["logprobs"]["token_logprobs"])
        drawn_by = content["model"]
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise WireError(f"an answer without choices[0].token_ids and their logprobs ({error!r})") from None
    if drawn_by != model:
        raise WireError(f"a text of {drawn_by!r}, and {model!r} was asked", again=False)
    numbers = all(type(p) in (int, float) and math.isfinite(p) for p in logprobs)
    if not ids or len(ids) != len(logprobs) or not numbers or not all(type(token) is int for token in ids):
        raise WireError(f"{len(ids)} token ids with {len(logprobs)} log-probabilities, which have to be finite numbers")
    return Sampled(ids, [min(0.0, float(p)) for p in logprobs], truncated=ids[-1] not in stop_ids)
