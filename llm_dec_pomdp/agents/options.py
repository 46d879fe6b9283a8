"""Options of loading and running the models of a team; without heavy imports."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pydantic

from ..config import Config, ConfigError, Positive
from .engines import make_engine
from .fields import checked_extra_body
from .thoughts import History, Thinking

Sharing = Literal["separate", "shared", "lora"]


def _of_json(value: Any) -> Any:
    """Return the value of a JSON text, since TOML has no null; other values are returned unchanged."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON ({error}); give an object, such as '{{\"top_p\": null}}'") from None


class RunOptions(Config):
    """Options of running a model: the arguments of `LanguageModel` that a user sets."""

    chat_template_kwargs: dict[str, Any] = {}
    """Variables of the chat template, such as { enable_thinking = false } for Qwen3, which thinks by default."""
    thinking: Thinking = "auto"
    """Recognition of thoughts of a reasoning model: auto (known tags in the chat template or in a server's reply), tags
    such as { open = "<think>", close = "</think>" }, or off (thoughts are part of the action). Recognised thoughts are
    trained on, but neither scored nor shown to other agents."""
    history: History = "drop"
    """Thoughts of earlier turns in an agent's own prompts: drop (as published templates do) or keep."""
    batch_rows: Positive = 64
    """Completions sampled at once; halved when the device runs out of memory."""
    truncate_prompts: bool = False
    """Keep only the end of prompts that are too long for the context, instead of refusing them."""
    gradient_checkpointing: bool = False
    """In updates, keep only the inputs of layers and recompute their activations: less memory, more time."""
    packed: bool = False
    """In updates, put the completions of a prompt into one row instead of padding them to the longest: faster if their
    lengths differ. For models with full attention computed by sdpa."""
    engine: dict[str, Any] = {}
    """The engine that samples: { kind = "vllm", url = "http://localhost:8000", ... }, or vLLM in this process,
    { kind = "vllm-colocate" }; by default the model itself."""
    extra_body: Annotated[
        dict[str, Any], pydantic.BeforeValidator(_of_json), pydantic.AfterValidator(checked_extra_body)
    ] = {}
    """Additional fields of every request to a model on a server: { reasoning_effort = "low" }. In a JSON text, as in
    '{"top_p": null}', null leaves out a field that is sent otherwise."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `LanguageModel`."""
        return {name: getattr(self, name) for name in RunOptions.model_fields if name != "extra_body"}


class ModelOptions(RunOptions):
    """Options of loading and running the models of a team."""

    sharing: Sharing = "separate"
    """Weights of the roles: separate (one model per role, all weights trainable), shared (one model, all weights
    trainable), or lora (one trainable adapter per role on a frozen base)."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, ...; or several, as in "cuda:0,cuda:1": the models of the roles are distributed over
    them and work in parallel (sharing separate)."""
    dtype: str = "auto"
    """auto, float32, bfloat16 or float16. auto is float32 on the CPU; on CUDA it is bfloat16, with float32 weights if
    all weights are trained."""
    attention: str = ""
    """Attention implementation of transformers: sdpa, eager, flash_attention_2 (with its package), ...; by default the
    choice of transformers."""
    quantize: Literal["", "4bit"] = ""
    """4bit: round the linear layers of the base to 4 bits (NF4, with bitsandbytes), below adapters (QLoRA,
    arXiv:2305.14314) or for a model that is not trained."""
    lora_rank: Positive = 8
    """Rank of the adapters, which are on all linear layers."""
    ranks: Positive = 1
    """Number of processes over which the model is sharded (FSDP2), each with a GPU if there are any; for `train
    --executor processes`, `ray` and `torchrun`."""
    gpus: Annotated[float, pydantic.Field(gt=0, le=1)] = 1.0
    """GPUs per process of this model with `train --executor ray`, if there are any: with 0.5, two processes share
    one."""

    def options(self) -> dict[str, Any]:
        """Return the options of this class, without those of a subclass."""
        return self.model_dump(include=set(ModelOptions.model_fields))

    @property
    def devices(self) -> list[str]:
        """Return the devices over which the models of the roles are distributed."""
        return [name.strip() for name in self.device.split(",")]

    def check_conflicts(self, *, trained: bool, placed: bool = False) -> None:
        """Check that the options are compatible with each other, before anything is loaded.

        Args:
            trained: Whether weights of this model are trained.
            placed: Whether the model is in a worker of an executor.

        Raises:
            ConfigError: Two options are incompatible.
        """
        if self.engine:
            engine = make_engine(self.engine)
            if trained and (refuse := getattr(engine, "check_sharing", None)):
                refuse(self.sharing)
        if self.quantize and trained and self.sharing != "lora":
            raise ConfigError(
                f"quantize is {self.quantize!r} and sharing {self.sharing!r}, which trains all weights, but quantized "
                'weights cannot be trained; train adapters (sharing = "lora"), or leave quantize out'
            )
        if self.quantize and self.ranks > 1:
            raise ConfigError(
                f"quantize is {self.quantize!r} and ranks {self.ranks}, but quantized models cannot be sharded; set "
                "ranks to 1, or leave quantize out"
            )
        if self.packed and self.gradient_checkpointing:
            raise ConfigError(
                "packed and gradient_checkpointing are both true, and they are incompatible; leave one of them out"
            )
        if len(self.devices) > 1 and self.sharing != "separate":
            raise ConfigError(
                f"device is {self.device!r}, but sharing {self.sharing!r} has a single model; give one device"
            )
        if self.ranks > 1 and not placed:
            raise ConfigError(
                f"ranks is {self.ranks}, but the model is loaded into this process; train with --executor processes, "
                "ray or torchrun, or leave ranks out"
            )
        if self.ranks > 1 and self.device not in ("auto", "cpu", "cuda"):
            raise ConfigError(
                f"ranks is {self.ranks} and device {self.device!r}, but each rank chooses its own device; give auto, "
                "cuda or cpu"
            )
