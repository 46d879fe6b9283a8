"""vLLM behind its HTTP server draws the texts of a model that is trained here: its LoRA adapters, or all its weights.

`llm-dec-pomdp engine vllm MODEL` starts such a server. Weights go there as files in a folder that both can read, under
a new name for every version of them. Adapters are loaded beside each other, since what the server keeps of one, it
keeps by name, and every answer has to name the one that was asked for. A whole model takes the place of the one before,
and after the texts of every call the server is asked which it has: another one where it was started anew meanwhile, or
somebody else uses it. A request holds one prompt and one seed; the server batches them.
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
# What the model's own generation_config.json says of these would change what a server draws.
_NEUTRAL = {"min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
_STARTED = "default"  # what a server calls the weights that it was started with
_PROMPT, _TOKENS = [*range(8)], 16  # of the text by which it is tried out whether whole models are taken
LARGEST_GAP = 0.2  # nats, on average over its tokens; see docs/scale.md
_OTHER = 0.5  # times the weights
_OF_TOKEN = 512  # bytes of an answer beside its text: the token, its id, its log-probability, once more by name
_NEVER = -100.0  # nats to add to the logit of an id that is not to be sampled; vLLM takes no lower number
_QUICK = 5.0  # seconds for what is asked before anything is loaded


class _WeightsGoneError(Exception):
    """The server has not the weights that it was given: somebody unloaded them, or it was started anew."""


class VLLM:
    """Draws with a server of vLLM."""

    class Config(Options):
        """Where the server is and how it is asked."""

        url: str
        """Base address, e.g. "http://localhost:8000"."""
        model: str
        """The base model's name as the server knows it."""
        adapters: str = ""
        """A folder that this process and the server can read, for the adapters, or whole models, that are trained."""
        timeout: float = pydantic.Field(600.0, gt=0)
        """Seconds for one text, from the question to the end of the answer."""
        tries: Positive = 12
        """How often a text is asked for before the run stops. Waits double from 0.25 s to a minute: 4 minutes."""
        concurrency: Positive = 256
        """Texts asked for at the same time."""
        sleep: bool = False
        """Whether the server frees its GPU (weights to the processor's memory, caches forgotten) while weights are
        updated here, for a model that is trained on that GPU; see `llm-dec-pomdp engine vllm MODEL --sleep`."""

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
        self._names: dict[str, str] = {}  # under which the server knows an adapter
        self._label = ""  # by which it tells the whole model that it was given from others

    def check_sharing(self, sharing: str) -> None:
        """See `Engine`: one server takes the adapters of many agents, or one whole model where it offers that.

        Raises:
            ConfigError: There is no folder for weights, or all weights of several models are trained, or those of one
                and a server that answers takes none. One that does not answer yet is left for later.
        """
        self._place("")
        if self.config.sleep:
            self._refuse_wakeful()
        if sharing == "lora":
            return
        if sharing == "separate":
            raise ConfigError(
                "sharing is 'separate', which trains all weights of a model for each role, and a server has one model; "
                'set sharing = "shared" (one model for all, or for the member of a team\'s file that has the engine), '
                'or train adapters (sharing = "lora")'
            )
        try:
            get(f"{self.config.url}/weight_info", self._headers, _QUICK)
        except WireError as error:
            if not error.again:
                raise ConfigError(
                    f"sharing is {sharing!r}, which trains all weights, and {self.config.url} takes no whole models "
                    f"({error}); start it by `llm-dec-pomdp engine vllm MODEL --all-weights`, "
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
                    f"engine vllm: sleep is true, and {self.config.url} knows no sleep ({reason}); "
                    "start it by `llm-dec-pomdp engine vllm MODEL --sleep`, which is VLLM_SERVER_DEV_MODE=1 and the "
                    "flag --enable-sleep-mode, or leave sleep out"
                ) from None

    def _sleeps(self, seconds: float) -> bool:
        return _field(get(f"{self.config.url}/is_sleeping", self._headers, seconds), "is_sleeping") is True

    @property
    def offloads(self) -> bool:
        """See `Engine`."""
        return self.config.sleep

    def offload(self) -> None:
        """See `Engine`; a server that does not answer is left for the next text, which says so."""
        if self.config.sleep:
            try:
                self._post("sleep?level=1", {})
            except WireError as error:
                _log.warning("%s does not sleep (%s)", self.config.url, error)

    def _wake(self) -> None:
        """Wake the server where it sleeps; others may have sent it to sleep.

        Raises:
            EngineError: It does not wake.
        """

        def attempt() -> None:
            if self._sleeps(self.config.timeout):
                self._post("wake_up", {})

        if self.config.sleep:
            self._asked("wake_up", attempt)

    # --- weights ------------------------------------------------------------------------------------------------------

    def load(self, policy: ModelPolicy, version: int) -> None:
        """See `Engine`.

        Raises:
            ConfigError: There is no folder for weights.
            EngineError: The server does not take them, or is given others by somebody else.
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
        """Let the server drop an old adapter; one that it has lost already is gone all the same."""
        with contextlib.suppress(EngineError):
            self._tell("v1/unload_lora_adapter", lora_name=name)
        shutil.rmtree(self._place(name), ignore_errors=True)

    def _try_out(self, policy: ModelPolicy) -> None:
        """Give the server other weights and compare what it says of a text with what they say here.

        It may keep a part of its own without an error, which the first weights of a run, being its own, would not show.

        Raises:
            EngineError: It has not taken all of them.
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
                f"{self.config.url} said that it took the weights of a whole model, and did not take all: its "
                f"log-probabilities differ from those here by {gap:.2f} nats on average, of which {LARGEST_GAP} are "
                "allowed. Without a GPU vLLM keeps an output layer that is tied to the embeddings: save the model with "
                "one of its own (tie_word_embeddings = false), or train adapters"
            )

    def _load_model(self, model: Any, label: str) -> None:
        place = self._place(label)

        def reload() -> None:  # tried again as a whole: a server that was started anew meanwhile has nothing of it
            self._post("update_weight_version", {"new_version": f"{label}, not yet whole"})
            self._post("collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(place)}})
            if _field(self._post("reset_prefix_cache", {}), "success") is not True:
                raise WireError("it keeps what it computed of prompts with the weights before")
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
        """Whether the server has the whole model that it was given last, where it was given one.

        Raises:
            EngineError: It has one that somebody else gave it.
        """

        def label_there() -> str:
            try:
                answer = get(f"{self.config.url}/weight_info", self._headers, self.config.timeout)
            except WireError as error:
                if error.again:
                    raise
                return _STARTED  # it takes no whole models
            return str(_field(answer, "weight_version"))

        label = self._asked("weight_info", label_there)
        if label != _STARTED and not label.startswith(self._run):
            raise EngineError(
                f"{self.config.url} was given weights of another run, or of another model of this one ({label!r}); "
                "give each a server of its own, or start it anew if that run has ended"
            )
        return label == self._label

    def _place(self, name: str) -> Path:
        """Where the files of a version are; raises ConfigError where the configuration names no folder."""
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
            f"{self.config.url} does not take weights ({order}): {reason}; does it run, and was it started by "
            "`llm-dec-pomdp engine vllm MODEL`, which allows that (a whole model: --all-weights; sleep: --sleep)?"
        )

    # --- texts --------------------------------------------------------------------------------------------------------

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, stop_ids: frozenset[int]) -> list[list[Sampled]]:
        """See `Engine`. A server that was started anew is given the weights again.

        Its log-probabilities are those of what top_p and top_k leave, so that the importance of a draw has the mass
        that was kept as a factor: pi / mu = pi_trainer / pi_server times that mass.

        Raises:
            EngineError: No usable text after all tries.
        """
        self._wake()
        for _ in range(self.config.tries + 1):
            with contextlib.suppress(_WeightsGoneError):
                drawn = self._draw(prompts, sampling, stop_ids)
                if not self._label or self._has_label():
                    return drawn
            assert self._policy is not None
            self.load(self._policy, self._version)
        raise EngineError(f"{self.config.url} loses weights as soon as they are loaded; look into its log")

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
    """Return the parameters of vLLM for sampling one text; ids that a policy has no token for are not sampled."""
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
        "logprobs": 0,  # of the drawn tokens alone
        **({"logit_bias": dict.fromkeys(tokenless, _NEVER)} if tokenless else {}),
    }


def gap_of(
    policy: ModelPolicy,
    draw: Callable[[Sequence[Prompt], Sampling], list[list[Sampled]]],
    agent: str = "",
) -> float:
    """How far the log-probabilities of a text that is drawn differ from a policy's, on average over tokens, in nats."""
    import torch

    adapter = None if policy.adapters is None else policy.adapters[agent]
    [[drawn]] = draw([Prompt(_PROMPT, [0], adapter)], Sampling(max_new_tokens=_TOKENS))
    text = Completion("", tuple(_PROMPT), tuple(drawn.ids), tuple(drawn.logprobs))
    with torch.inference_mode():
        logprobs, _ = policy.token_logprobs([(agent, text)], 1.0)
    return (logprobs[0].float().cpu() - torch.tensor(drawn.logprobs)).abs().mean().item()


def _field(answer: bytes, name: str) -> Any:
    """A field of an answer; raises WireError where it has none."""
    try:
        return json.loads(answer)[name]
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise WireError(f"an answer without {name!r} ({error!r})") from None


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
    ended = ids[-1] in stop_ids or isinstance(choice.get("stop_reason"), str)  # that is a stop string
    return Sampled(ids, [min(0.0, float(p)) for p in logprobs], truncated=not ended)
