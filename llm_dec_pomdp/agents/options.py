"""Options of loading and running the models of a team; importing this loads nothing heavy."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pydantic

from ..config import Config, ConfigError, Positive
from .engines import make_engine
from .fields import checked_extra_body
from .thoughts import Thinking

Sharing = Literal["separate", "shared", "lora"]


def _of_json(value: Any) -> Any:
    """Return what a text in JSON holds, which has null unlike TOML."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error}); give an object, as '{{\"top_p\": null}}'") from None


class RunOptions(Config):
    """How a model is run: the arguments of `LanguageModel` that a user sets."""

    chat_template_kwargs: dict[str, Any] = {}
    """Variables of the chat template: Qwen3 thinks unless it is { enable_thinking = false }."""
    thinking: Thinking = "auto"
    """How thoughts of a reasoning model are recognised: auto (known tags in the chat template or in a server's reply),
    { open = "<think>", close = "</think>" }, or off: they are part of the action. Thoughts are trained on, and neither
    scored nor shown to other agents."""
    batch_rows: Positive = 64
    """Texts sampled at once. Halved when the device has too little memory."""
    truncate_prompts: bool = False
    """Keep the end of prompts that are too long for the context, instead of refusing them."""
    gradient_checkpointing: bool = False
    """Keep only the inputs of layers in updates and compute the rest again: less memory, more time."""
    packed: bool = False
    """In updates, put the texts of a prompt into one row, one after the other, in place of padding them to the longest:
    faster where texts differ in length. For models with full attention computed by sdpa."""
    engine: dict[str, Any] = {}
    """What draws the texts: { kind = "vllm", url = "http://localhost:8000", ... }, or vLLM in this process,
    { kind = "vllm-colocate" }; the model itself when left out."""
    extra_body: Annotated[
        dict[str, Any], pydantic.BeforeValidator(_of_json), pydantic.AfterValidator(checked_extra_body)
    ] = {}
    """Fields of every request to a model on a server: { reasoning_effort = "low" }. As JSON in a text,
    '{"top_p": null}', null leaves a field out that is sent otherwise."""

    def arguments(self) -> dict[str, Any]:
        """The arguments of `LanguageModel`."""
        return {name: getattr(self, name) for name in RunOptions.model_fields if name != "extra_body"}


class ModelOptions(RunOptions):
    """How a team of models is loaded and run."""

    sharing: Sharing = "separate"
    """Weights of the roles: separate (a model each, all weights trainable), shared (one model, all weights trainable),
    or lora (a trainable adapter each on one frozen base)."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, ...; or several, as "cuda:0,cuda:1", which the models of the roles take in turn and work
    on at the same time (sharing separate)."""
    dtype: str = "auto"
    """auto, float32, bfloat16 or float16. auto is float32 on a processor; on CUDA it is bfloat16, with float32 weights
    where all weights are trained."""
    attention: str = ""
    """How transformers computes attention: sdpa, eager, flash_attention_2 (with its package), ...; else as it likes."""
    quantize: Literal["", "4bit"] = ""
    """4bit: the linear layers of the base are rounded to 4 bits (NF4, by bitsandbytes), below adapters (QLoRA,
    arXiv:2305.14314) or for a model that is not trained."""
    lora_rank: Positive = 8
    """Rank of the adapters, on all linear layers."""
    ranks: Positive = 1
    """Processes that the model is sharded over (FSDP2), each with a GPU where there are any; for `train --executor
    processes`, `ray` and `torchrun`."""
    gpus: Annotated[float, pydantic.Field(gt=0, le=1)] = 1.0
    """GPUs for each process of this model with `train --executor ray`, where there are any: with 0.5 two share one."""

    def options(self) -> dict[str, Any]:
        """The options of `load_team`, without what a subclass adds."""
        return self.model_dump(include=set(ModelOptions.model_fields))

    @property
    def devices(self) -> list[str]:
        """The devices that the models of the roles take in turn."""
        return [name.strip() for name in self.device.split(",")]

    def check_conflicts(self, *, trained: bool, placed: bool = False) -> None:
        """Refuse options that do not go together, before anything is loaded.

        Args:
            trained: Weights of this model are trained.
            placed: It lives in a worker of an executor.

        Raises:
            ConfigError: There are such options.
        """
        if self.engine:
            engine = make_engine(self.engine)
            if trained and (refuse := getattr(engine, "check_sharing", None)):
                refuse(self.sharing)
        if self.quantize and trained and self.sharing != "lora":
            raise ConfigError(
                f"quantize is {self.quantize!r} and sharing {self.sharing!r}, which trains all weights, and weights of "
                'so few bits cannot be trained; train adapters (sharing = "lora"), or leave quantize out'
            )
        if self.quantize and self.ranks > 1:
            raise ConfigError(f"quantize is {self.quantize!r}, which is not sharded over {self.ranks} ranks; give one")
        if self.packed and self.gradient_checkpointing:
            raise ConfigError(
                "packed is true, and with gradient_checkpointing every text is computed with its prompt; leave one out"
            )
        if len(self.devices) > 1 and self.sharing != "separate":
            raise ConfigError(
                f"device is {self.device!r} and sharing {self.sharing!r}, which has one model; give one device"
            )
        if self.ranks > 1 and not placed:
            raise ConfigError(
                f"ranks is {self.ranks}, but the model is loaded into one process; train with --executor processes, "
                "ray or torchrun, or leave ranks out"
            )
        if self.ranks > 1 and self.device not in ("auto", "cpu", "cuda"):
            raise ConfigError(
                f"ranks is {self.ranks} and device {self.device!r}, but each rank takes a device of its own; give "
                "auto, cuda or cpu"
            )
