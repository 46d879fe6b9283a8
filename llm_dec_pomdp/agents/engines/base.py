"""The contract of an engine, and the registry of engines.

A policy hands its engine the ids of prompts and gets the ids of texts back. It gives the engine its weights before the
first text and after every change of them, an update or a restart, so that no text is drawn with others. `register`
makes an engine known under the name that a configuration calls it by: `engine = { kind = "vllm", url = "..." }`.
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

# A CPU build of vLLM takes half of the memory and binds itself to cores unless told otherwise; others ignore these.
CPU_SETTINGS = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}


class EngineError(RuntimeError):
    """An engine that gave no usable texts, or cannot take the weights; the message says which and what to do."""


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
        ids: What was drawn, the token that ended it included.
        logprobs: log pi of each at the sampling temperature, before truncation by top-p or top-k, in nats.
        truncated: The limit of tokens ended it, not a token or a stop string.
        seconds: From the start of the call.
    """

    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    truncated: bool = True
    seconds: float = 0.0


class Engine(Protocol):
    """Samples texts with the weights that it was given last.

    Optional methods:

    * `check_sharing(sharing)` raises `ConfigError` if the engine cannot take weights with this `sharing`. It is called
      before a model is loaded for training; see `ModelOptions`.
    * `offload()` frees memory. It is called before each update; the next `load` or request ends it. The attribute
      `offloads` is True if it does anything.
    """

    def load(self, policy: ModelPolicy, version: int) -> None:
        """Take over the weights of a policy; later texts are drawn with them.

        Args:
            policy: Whose weights: its `model`, or `weight_files` for engines that read files.
            version: Of the weights; grows with every change.

        Raises:
            EngineError: It cannot take them.
        """
        ...

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling, stop_ids: frozenset[int]) -> list[list[Sampled]]:
        """Draw one text for every seed of every prompt.

        Args:
            prompts: P prompts.
            sampling: Temperature, truncation, length, stop strings.
            stop_ids: Tokens that end a text.

        Raises:
            EngineError: There is no usable text.
        """
        ...


def make_engine(options: Mapping[str, Any]) -> Engine:
    """The engine of `engine = { kind = ..., ... }`: the registered class, made with its options (its `Config`).

    Raises:
        ConfigError: It names no kind, one that does not exist, or an option that the kind does not take.
    """
    arguments = dict(options)
    kind = arguments.pop("kind", None)
    if kind not in ENGINES:
        raise ConfigError(f"engine: kind is {kind!r}; known: {', '.join(sorted(ENGINES))}")
    engine = ENGINES[kind].load()
    return engine(build(engine.Config, arguments, source=f"engine {kind}"))  # pyright: ignore[reportFunctionMemberAccess]
