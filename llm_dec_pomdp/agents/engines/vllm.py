"""The engine of a vLLM server, which samples for a model that is trained in this process.

`llm-dec-pomdp engine vllm MODEL` starts such a server. LoRA adapters or all weights are trained. Weights are passed as
files in a folder that both processes can read, with a new name for every version.

* Adapters: every version is loaded under its new name, since the server caches by name. Every answer must name the
  adapter that was requested.
* All weights: a model replaces the previous one. After every call, the label of the weights is read from the server. It
  differs if the server was restarted or if another run uses it.

A request has one prompt and one seed; the server batches requests.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import math
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pydantic

from ...config import Config as Options
from ...config import ConfigError, Positive
from ...http import LONGEST_TEXT, WireError, bearer, checked_address, get, post, retried
from ...storage.files import Draft
from ...types import Completion
from ..base import Sampling
from ..io.save import write_weights
from . import EngineError, Prompt, Sampled

if TYPE_CHECKING:
    from ..language_model.base import ModelPolicy

T = TypeVar("T")
_log = logging.getLogger(__name__)
# Sampling options that override the model's own generation_config.json on the server.
_NEUTRAL = {"min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
_STARTED = "default"  # the server's label of the weights with which it was started
_PROMPT, _TOKENS = [*range(8)], 16  # prompt and length of the completion that tests whether weights were loaded
LARGEST_GAP = 0.2  # nats, on average over the tokens of that completion; see docs/scale.md
_OTHER = 0.5  # factor of the weights in that test
_OF_TOKEN = 512  # bytes of an answer per token besides its text: its id and log-probability
_NEVER = -100.0  # nats added to the logit of an id that must not be sampled; vLLM accepts no lower number
_QUICK = 5.0  # time limit in seconds of requests before anything is loaded


class _WeightsGoneError(Exception):
    """The server has lost the weights: another client unloaded them, or it was restarted."""


class VLLM:
    """The engine of a vLLM server."""

    class Config(Options):
        """Address of the server and options of requests."""

        url: str
        """Base address, e.g. "http://localhost:8000"."""
        model: str
        """Name of the base model on the server."""
        adapters: str = ""
        """A folder that this process and the server can read, for trained adapters or whole models."""
        timeout: float = pydantic.Field(600.0, gt=0)
        """Seconds for one completion, from the request to the end of the answer."""
        tries: Positive = 12
        """Attempts per completion before the run stops. Waits double from 0.25 s to a minute, 4 minutes in all."""
        concurrency: Positive = 256
        """Number of simultaneous requests."""
        sleep: bool = False
        """Free the server's GPU during updates (weights move to the CPU's memory, caches are dropped), for a model that
        is trained on the same GPU; see `llm-dec-pomdp engine vllm MODEL --sleep`."""

        @pydantic.field_validator("url")
        @classmethod
        def _address(cls, url: str) -> str:
            return checked_address(url)

    def __init__(self, config: VLLM.Config) -> None:
        self.config = config
        self._key = os.environ.get("OPENAI_API_KEY")
        self._run = uuid.uuid4().hex[:8]  # several runs may share a server
        self._policy: ModelPolicy | None = None
        self._version = -1
        self._names: dict[str, str] = {}  # the server's name of each adapter
        self._label = ""  # the server's label of the whole model that was loaded last

    def check_sharing(self, sharing: str) -> None:
        """Check whether the server can load the trained weights; see `Engine`.

        A server can load the adapters of many agents, or one whole model if it was started for that. A server that does
        not answer yet passes.

        Raises:
            ConfigError: There is no folder for weights, all weights of several models are trained, or the server does
                not accept whole models.
        """
        self._place("")
        if self.config.sleep:
            self._refuse_wakeful()
        if sharing == "lora":
            return
        if sharing == "separate":
            raise ConfigError(
                "sharing is 'separate', which trains one model per role, but a server has one model; set sharing = "
                '"shared" (one model for all agents, or for the member of a team file that has the engine), or train '
                'adapters (sharing = "lora")'
            )
        try:
            get(f"{self.config.url}/weight_info", self._headers, _QUICK)
        except WireError as error:
            if not error.again:
                raise ConfigError(
                    f"sharing is {sharing!r}, which trains all weights, but {self.config.url} accepts no whole models "
                    f"({error}); start it with `llm-dec-pomdp engine vllm MODEL --all-weights`, "
                    'train adapters (sharing = "lora"), or leave the engine out'
                ) from None

    # --- sleep --------------------------------------------------------------------------------------------------------

    def _refuse_wakeful(self) -> None:
        try:
            self._sleeps(_QUICK)
        except WireError as error:
            if not error.again:
                reason = str(error)
                raise ConfigError(
                    f"engine vllm: sleep is true, but {self.config.url} does not support it ({reason}); start it with "
                    "`llm-dec-pomdp engine vllm MODEL --sleep`, which sets VLLM_SERVER_DEV_MODE=1 and "
                    "--enable-sleep-mode, or leave sleep out"
                ) from None

    def _sleeps(self, seconds: float) -> bool:
        return _field(get(f"{self.config.url}/is_sleeping", self._headers, seconds), "is_sleeping") is True

    @property
    def offloads(self) -> bool:
        """Return whether `offload` has an effect."""
        return self.config.sleep

    def offload(self) -> None:
        """Free the server's GPU; see `Engine`. If the server does not answer, the next request raises the error."""
        if self.config.sleep:
            try:
                self._post("sleep?level=1", {})
            except WireError as error:
                _log.warning("%s did not free its GPU (%s)", self.config.url, error)

    def _wake(self) -> None:
        """Wake the server if it sleeps, also if another client has sent it to sleep.

        Raises:
            EngineError: The server does not wake.
        """

        def attempt() -> None:
            if self._sleeps(self.config.timeout):
                self._post("wake_up", {})

        if self.config.sleep:
            self._asked("wake_up", attempt)

    # --- weights ------------------------------------------------------------------------------------------------------

    def load(self, policy: ModelPolicy, version: int) -> None:
        """Load weights into the server; see `Engine`.

        Raises:
            ConfigError: There is no folder for weights.
            EngineError: The server does not load the weights, or has weights of another run.
        """
        self._wake()
        self._policy, self._version = policy, version
        whole = policy.adapters is None and any(True for _ in policy.parameters())
        if whole and not self._label:
            self._try_out(policy)
        else:
            self._has_label()
        if whole:
            self._load_model(policy.model, f"{self._run}-v{version}")
        elif policy.adapters is not None:
            self._load_adapters(policy, policy.adapters, version)

    def _load_adapters(self, policy: ModelPolicy, adapters: Mapping[str, str], version: int) -> None:
        old = self._names
        self._names = {}
        for agent, weights in policy.weight_files(list(adapters)).items():
            name = f"{self._run}-{len(self._names)}-v{version}"
            with Draft(self._place(name)) as draft:
                write_weights(draft, ".", policy, weights)
                draft.publish()
            self._tell("v1/load_lora_adapter", lora_name=name, lora_path=str(self._place(name)), load_inplace=True)
            self._names[adapters[agent]] = name
        for name in old.values():
            if name not in self._names.values():
                self._forget(name)

    def _forget(self, name: str) -> None:
        """Unload an old adapter from the server, if it still has it, and remove its files."""
        with contextlib.suppress(EngineError):
            self._tell("v1/unload_lora_adapter", lora_name=name)
        shutil.rmtree(self._place(name), ignore_errors=True)

    def _try_out(self, policy: ModelPolicy) -> None:
        """Load scaled weights into the server and compare log-probabilities with this process.

        A server may keep a part of its old weights without an error. The first weights of a run would not reveal this,
        since the server was started with the same weights.

        Raises:
            EngineError: The server did not load all weights.
        """
        import torch

        other = copy.copy(policy)
        other.model = copy.deepcopy(policy.model)
        with torch.inference_mode():
            for parameter in other.model.parameters():
                parameter.mul_(_OTHER)
        self._load_model(other.model, f"{self._run}-other")
        gap = gap_of(other, lambda prompts, sampling: self._draw(prompts, sampling, frozenset()))
        if not gap < LARGEST_GAP:
            self._label = ""
            raise EngineError(
                f"{self.config.url} did not load all weights of a whole model: its log-probabilities differ from those "
                f"of this process by {gap:.2f} nats on average, and {LARGEST_GAP} are allowed. Without a GPU, vLLM "
                "keeps an output layer that is tied to the embeddings: save the model with tie_word_embeddings = "
                "false, or train adapters"
            )

    def _load_model(self, model: Any, label: str) -> None:
        place = self._place(label)

        def reload() -> None:  # repeated as a whole, since a server that restarts between requests loses everything
            self._post("update_weight_version", {"new_version": f"{label}, not yet whole"})
            self._post("collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(place)}})
            if _field(self._post("reset_prefix_cache", {}), "success") is not True:
                raise WireError("it did not drop its cache of prompts, which was computed with the old weights")
            self._post("update_weight_version", {"new_version": label})

        try:
            with Draft(place) as draft:
                model.save_pretrained(draft.folder)
                draft.publish()
            self._asked("reload_weights", reload)
        finally:
            shutil.rmtree(place, ignore_errors=True)  # the server has read it
        self._label = label

    def _has_label(self) -> bool:
        """Return whether the server has the whole model that was loaded last, if one was loaded.

        Raises:
            EngineError: The server has weights of another run.
        """

        def label_there() -> str:
            try:
                answer = get(f"{self.config.url}/weight_info", self._headers, self.config.timeout)
            except WireError as error:
                if error.again:
                    raise
                return _STARTED  # it accepts no whole models
            return str(_field(answer, "weight_version"))

        label = self._asked("weight_info", label_there)
        if label != _STARTED and not label.startswith(self._run):
            raise EngineError(
                f"{self.config.url} has weights of another run, or of another model of this run ({label!r}); start one "
                "server for each, or restart it if that run has ended"
            )
        return label == self._label

    def _place(self, name: str) -> Path:
        """Return the folder of a version of weights; raise ConfigError if the configuration names no folder."""
        if not self.config.adapters:
            raise ConfigError("engine vllm: adapters is ''; give a folder that this process and the server can read")
        return Path(self.config.adapters).absolute() / name

    def _tell(self, order: str, **fields: Any) -> None:
        self._asked(order, lambda: self._post(order, fields))

    def _asked(self, order: str, attempt: Callable[[], T]) -> T:
        try:
            return retried(attempt, self.config.tries)
        except WireError as error:
            reason = str(error)
        raise EngineError(
            f"{self.config.url} failed at {order}: {reason}; check that it runs and was started with `llm-dec-pomdp "
            "engine vllm MODEL` (for whole models with --all-weights, for sleep with --sleep)"
        )

    # --- texts --------------------------------------------------------------------------------------------------------

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, stop_ids: frozenset[int]) -> list[list[Sampled]]:
        """Sample completions; see `Engine`. Weights are loaded again into a server that was restarted.

        The server's log-probabilities are those of the distribution after truncation by top_p and top_k. The importance
        weight therefore has the retained probability mass as a factor: pi / mu = pi_trainer / pi_server times the mass.

        Raises:
            EngineError: The server gave no usable completion in all tries.
        """
        self._wake()
        for _ in range(self.config.tries + 1):
            with contextlib.suppress(_WeightsGoneError):
                drawn = self._draw(prompts, sampling, stop_ids)
                if not self._label or self._has_label():
                    return drawn
            assert self._policy is not None
            self.load(self._policy, self._version)
        raise EngineError(f"{self.config.url} does not list the weights that it just loaded; read the server's log")

    def _draw(self, prompts: Sequence[Prompt], sampling: Sampling, stop_ids: frozenset[int]) -> list[list[Sampled]]:
        given_up = threading.Event()
        with ThreadPoolExecutor(self.config.concurrency) as threads:
            pending = [
                [threads.submit(self._text, prompt, seed, sampling, stop_ids, given_up) for seed in prompt.seeds]
                for prompt in prompts
            ]
            try:
                return [[future.result() for future in futures] for futures in pending]
            except BaseException:  # cancel the other requests and their retries
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
            **drawn_so(seed, sampling, stop_ids, self._policy),
            **_NEUTRAL,
            "return_token_ids": True,
        }
        most = LONGEST_TEXT + _OF_TOKEN * (len(prompt.ids) + sampling.max_new_tokens)
        started = time.perf_counter()

        def ask() -> Sampled:
            return _sampled(self._post("v1/completions", body, most), model, stop_ids)

        try:
            drawn = retried(ask, self.config.tries, given_up)
            drawn.seconds = time.perf_counter() - started
            return drawn
        except WireError as error:
            reason, gone = str(error), error.status == 404 and prompt.adapter is not None
        if gone:
            raise _WeightsGoneError
        raise EngineError(f"{self.config.url} gave {reason}; is the server running, with {self.config.model!r}?")

    @property
    def _headers(self) -> dict[str, str]:
        return bearer(self._key)

    def _post(self, path: str, body: Any, most: int = LONGEST_TEXT) -> bytes:
        sent = json.dumps(body).encode("ascii")
        return post(f"{self.config.url}/{path}", sent, self._headers, self.config.timeout, most)


def drawn_so(
    seed: int, sampling: Sampling, stop_ids: frozenset[int], policy: ModelPolicy | None = None
) -> dict[str, Any]:
    """Return vLLM's parameters for sampling one completion, which exclude ids without a token."""
    ids = None if policy is None else policy.tokenless
    tokenless: list[int] = [] if ids is None else cast("list[int]", ids.tolist())
    return {
        "seed": seed % 2**63,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        "max_tokens": sampling.max_new_tokens,
        "stop_token_ids": sorted(stop_ids),
        "stop": list(sampling.stop),
        "ignore_eos": True,
        "logprobs": 0,  # only of the sampled tokens
        **({"logit_bias": dict.fromkeys(tokenless, _NEVER)} if tokenless else {}),
    }


def gap_of(
    policy: ModelPolicy,
    draw: Callable[[Sequence[Prompt], Sampling], list[list[Sampled]]],
    agent: str = "",
) -> float:
    """Return the mean absolute difference of log-probabilities between an engine and a policy, in nats per token.

    Args:
        policy: The policy of this process.
        draw: A function that samples with the engine.
        agent: The agent whose adapter is compared.
    """
    import torch

    adapter = None if policy.adapters is None else policy.adapters[agent]
    [[drawn]] = draw([Prompt(_PROMPT, [0], adapter)], Sampling(max_new_tokens=_TOKENS))
    text = Completion("", tuple(_PROMPT), tuple(drawn.ids), tuple(drawn.logprobs))
    with torch.inference_mode():
        logprobs, _ = policy.token_logprobs([(agent, text)], 1.0)
    return (logprobs[0].float().cpu() - torch.tensor(drawn.logprobs)).abs().mean().item()


def _field(answer: bytes, name: str) -> Any:
    """Return a field of an answer; raise WireError if it is missing."""
    try:
        return json.loads(answer)[name]
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise WireError(f"an answer without {name!r} ({error!r})") from None


def _sampled(answer: bytes, model: str, stop_ids: frozenset[int]) -> Sampled:
    """Return the completion in an answer.

    Raises:
        WireError: The answer has another form, or comes from another model.
    """
    try:
        content = json.loads(answer)
        [choice] = content["choices"]
        ids, logprobs = list(choice["token_ids"]), list(choice["logprobs"]["token_logprobs"])
        drawn_by = content["model"]
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise WireError(f"an answer without choices[0].token_ids and their logprobs ({error!r})") from None
    if drawn_by != model:
        raise WireError(f"a completion of {drawn_by!r} instead of {model!r}", again=False)
    numbers = all(type(p) in (int, float) and math.isfinite(p) for p in logprobs)
    if not ids or len(ids) != len(logprobs) or not numbers or not all(type(token) is int for token in ids):
        raise WireError(f"{len(ids)} token ids with {len(logprobs)} log-probabilities, which have to be finite numbers")
    ended = ids[-1] in stop_ids or isinstance(choice.get("stop_reason"), str)  # a stop string
    return Sampled(ids, [min(0.0, float(p)) for p in logprobs], truncated=not ended)
