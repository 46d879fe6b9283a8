"""The contract of an engine, and the registry of engines.

A policy passes token ids of prompts to its engine and receives token ids of completions. It passes its weights to the
engine before the first completion and after every change of weights (an update or a restart). So each completion is
sampled with the current weights. `register` adds an engine under the name that a configuration uses, as in
`engine = { kind = "vllm", url = "..." }`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ...config import ConfigError, build
from ...registries import Registry
from ..base import Sampling

if TYPE_CHECKING:
    from ..language_model.base import ModelPolicy

ENGINES = Registry("engine", "llm_dec_pomdp.engines")
register = ENGINES.register

register("vllm", "llm_dec_pomdp.agents.engines.vllm:VLLM")
register("vllm-colocate", "llm_dec_pomdp.agents.engines.colocated:ColocatedVLLM")

# A CPU build of vLLM takes half of the memory and binds itself to cores by default; other builds ignore these.
CPU_SETTINGS = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}


class EngineError(RuntimeError):
    """An engine gave no usable completion, or cannot load the weights; the message has the reason and the remedy."""


@dataclass(slots=True)
class Prompt:
    """Token ids of one prompt, the seeds of the copies to sample from it, and the adapter to use (None: the base)."""

    ids: list[int]
    seeds: Sequence[int]
    adapter: str | None = None


@dataclass(slots=True)
class Sampled:
    """One sampled sequence.

    Attributes:
        ids: The sampled token ids, including the token that ended it.
        logprobs: log pi of each token at the sampling temperature, before truncation by top-p or top-k, in nats.
        truncated: True if the token limit ended it, rather than a token or a stop string.
        seconds: Time from the start of the call to its last token.
    """

    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    truncated: bool = True
    seconds: float = 0.0


class Engine(Protocol):
    """A sampler of completions, with the weights of the last `load`.

    Optional methods:

    * `check_sharing(sharing)` raises `ConfigError` if the engine cannot load weights with this `sharing`. It is called
      before a model is loaded for training; see `ModelOptions`.
    * `offload()` frees memory until the next `load` or request. It is called before each update. The attribute
      `offloads` is True if it has an effect.
    """

    def load(self, policy: ModelPolicy, version: int) -> None:
        """Load the weights of a policy, with which later completions are sampled.

        Args:
            policy: The policy: its `model`, or `weight_files` for engines that read files.
            version: The version of the weights, which grows with every change.

        Raises:
            EngineError: The engine cannot load the weights.
        """
        ...

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, stop_ids: frozenset[int]) -> list[list[Sampled]]:
        """Sample one completion per seed of each prompt.

        Args:
            prompts: The prompts.
            sampling: Temperature, truncation, length and stop strings.
            stop_ids: Token ids that end a completion.

        Returns:
            A list per prompt with one completion per seed.

        Raises:
            EngineError: There is no usable completion.
        """
        ...


def make_engine(options: Mapping[str, Any]) -> Engine:
    """Return the engine of `engine = { kind = ..., ... }`: an object of the registered class with these options.

    Raises:
        ConfigError: The kind is missing or unknown, or an option is invalid for this kind.
    """
    arguments = dict(options)
    kind = arguments.pop("kind", None)
    if kind not in ENGINES:
        raise ConfigError(f"engine: kind is {kind!r}; give one of: {', '.join(sorted(ENGINES))}")
    engine = ENGINES[kind].load()
    return engine(build(engine.Config, arguments, source=f"engine {kind}"))  # pyright: ignore[reportFunctionMemberAccess]
