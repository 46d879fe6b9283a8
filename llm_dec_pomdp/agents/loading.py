# pyright: basic
"""Models by name, and teams of them.

| name | what is loaded |
|---|---|
| `builtin:tiny` | the small model in this package (works offline) |
| `path/to/folder` | a saved transformers model |
| `path/to/file.gguf` | a GGUF file, dequantised by transformers |
| `http://host:port/v1#name` | a model behind an OpenAI-compatible server; its key is read from OPENAI_API_KEY |
| anything else | a model id of the hub |
"""

from __future__ import annotations

import copy
import difflib
import os
import warnings
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from ..registry import nearest
from .base import Policy, Team
from .remote import Remote

Sharing = Literal["separate", "shared", "lora"]
BUILTIN = {"builtin:tiny": "tiny"}
_HUB_SECONDS = 5.0  # until an answer of the hub counts as none
_DTYPES = ("auto", "float32", "bfloat16", "float16")
BATCH_ROWS = 64
_ELSEWHERE = {  # what a model on a server can be given of these: nothing else
    "batch_rows": BATCH_ROWS,
    "chat_template_kwargs": {},
    "truncate_prompts": False,
    "gradient_checkpointing": False,
}


class ModelError(ValueError):
    """A model that cannot be loaded; the message names it and the next step."""


def load_model(name: str, *, device: str = "auto", dtype: str = "auto", trained: bool = False) -> tuple[Any, Any]:
    """A causal language model and its tokenizer.

    Args:
        name: See the table of this module.
        device: "auto" (CUDA when there is one), "cpu", "cuda", "cuda:1", ...
        dtype: Of the weights: "auto" (bfloat16 on CUDA, float32 elsewhere and where `trained`), "float32", "bfloat16"
            or "float16".
        trained: Its own weights are to be trained. Small changes of a weight are lost in 16 bits, so learners warn of
            bfloat16 weights and refuse float16 ones; an adapter has float32 weights on any base.

    Raises:
        ModelError: Unknown name, missing file, no network, or a wrong device or dtype.
    """
    if dtype not in _DTYPES:
        raise ModelError(f"dtype {dtype!r} does not exist; {nearest(dtype, _DTYPES)}")
    place, extra = locate(name)
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        dtype = "bfloat16" if device.startswith("cuda") and not trained else "float32"
    dense = {}
    if "gguf_file" in extra and hasattr(transformers, "GgufConfig"):  # releases without it know no other way
        dense = {"quantization_config": transformers.GgufConfig(dequantize=True)}
    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about quantised tensors of GGUF files, which we do want as numbers
            tokenizer = AutoTokenizer.from_pretrained(place, **extra)
            model = AutoModelForCausalLM.from_pretrained(place, dtype=getattr(torch, dtype), **extra, **dense)
        return model.to(device), tokenizer  # pyright: ignore[reportArgumentType]
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(
            f"model {name!r} could not be loaded on {device}: {type(error).__name__}: {error}\n"
            "Give builtin:tiny, a folder saved by transformers, a .gguf file, or the id of a model on the hub (which "
            "needs a network or a filled cache)"
        ) from error


def locate(name: str) -> tuple[str, dict[str, Any]]:
    """Where a model of this table lies, as arguments of `from_pretrained`; loads neither it nor torch.

    Raises:
        ModelError: It is neither built in, nor a folder, nor a file, and the hub does not answer that it has it.
    """
    if name.startswith("builtin:"):
        if name not in BUILTIN:
            raise ModelError(f"no built-in model {name!r}; {nearest(name, BUILTIN)}")
        return str(resources.files("llm_dec_pomdp.data") / BUILTIN[name]), {}
    path = Path(name)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ModelError(f"model file {name!r} does not exist{_nearest_path(path)}")
        return str(path.parent), {"gguf_file": path.name}
    return name, {} if path.is_dir() else _ask_hub(name)


def _ask_hub(name: str) -> dict[str, Any]:
    """Ask the hub once, without retries, whether it has a model; one in the cache can do without its answer."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    known = f"model {name!r} is no folder here{_nearest_path(Path(name))}"
    what = "give builtin:tiny, a folder saved by transformers, a .gguf file, or the id of a model on the hub"
    cached = False
    try:
        cached = isinstance(try_to_load_from_cache(name, "config.json"), str)
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=_HUB_SECONDS)
    except HFValidationError:
        raise ModelError(f"{known}, and no id of the hub; {what}") from None
    except Exception as error:  # a dozen unrelated types for "not there" and "not reachable"
        if cached:
            return {"local_files_only": True}
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise ModelError(f"{known}, not in the hub's cache, and the hub does not give it ({reason}); {what}") from error
    return {}


def _nearest_path(path: Path) -> str:
    """A half-sentence with the folder or .gguf file whose name is nearest; "" where none is near."""
    place = Path(path.anchor)
    for part in path.parts[1:] if path.anchor else path.parts:
        if not (place / part).exists():
            there = [p.name for p in place.iterdir() if p.is_dir() or p.suffix == ".gguf"] if place.is_dir() else []
            close = difflib.get_close_matches(part, there, n=1)
            if not close:
                return ""
            part = close[0]
        place /= part
    return f" (did you mean {str(place)!r}?)"


def mixed_precision(dtype: str, device: str, trained: bool) -> bool:
    """Are products computed in bfloat16, with weights in float32? With "auto" on CUDA, where these are trained."""
    return dtype == "auto" and device.startswith("cuda") and trained


def load_policy(
    name: str, *, device: str = "auto", dtype: str = "auto", trained: bool = False, **options: Any
) -> Policy:
    """A policy by its model's name, local or remote; see the table of this module.

    Args:
        name: See the table of this module.
        device: See `load_model`.
        dtype: See `load_model`.
        trained: See `load_model`.
        options: Further arguments of `LanguageModel`; a remote model takes none.

    Raises:
        ModelError: See `load_model`; or a remote model with an option that is on.
    """
    if name.startswith(("http://", "https://")):
        url, _, model = name.partition("#")
        if not model:
            raise ModelError(f"model {name!r} names a server but no model; write {name}#NAME")
        for option, value in options.items():
            if value != _ELSEWHERE[option]:
                raise ModelError(f"{option} is {value!r}, but {name!r} runs on a server; leave {option} out")
        return Remote(url, model, api_key=os.environ.get("OPENAI_API_KEY"))
    network, tokenizer = load_model(name, device=device, dtype=dtype, trained=trained)
    return _policy(network, tokenizer, dtype, trained, **options)


def _policy(network: Any, tokenizer: Any, dtype: str, trained: bool, **options: Any) -> Policy:
    """A `LanguageModel` of a model that was loaded with a dtype."""
    import torch

    from .language_model import LanguageModel

    mixed = mixed_precision(dtype, str(network.device), trained)
    return LanguageModel(network, tokenizer, compute_dtype=torch.bfloat16 if mixed else None, **options)


def load_team(
    agents: Sequence[str],
    model: str = "builtin:tiny",
    *,
    sharing: Sharing = "separate",
    device: str = "auto",
    dtype: str = "auto",
    lora_rank: int = 8,
    seed: int = 0,
    batch_rows: int = BATCH_ROWS,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    truncate_prompts: bool = False,
    gradient_checkpointing: bool = False,
    train: bool = True,
) -> Team:
    """A team in which every agent is played by the same kind of model.

    Args:
        agents: Agent names.
        model: Model name, see the table of this module.
        sharing: "separate" (a model of its own per agent, all weights trainable), "shared" (one model plays all
            agents, all weights trainable), or "lora" (one frozen base with a trainable adapter per agent).
        device: See `load_model`.
        dtype: "float32", "bfloat16", "float16", or "auto": on CUDA bfloat16, with float32 weights where all of them are
            trained (mixed precision), else float32.
        lora_rank: Rank of the adapters, on all linear layers.
        seed: Seed of the adapters' first weights.
        batch_rows: Texts sampled at once, see `LanguageModel`.
        chat_template_kwargs: Variables of the chat template, see `LanguageModel`.
        truncate_prompts: Keep the end of prompts that are too long, instead of refusing them.
        gradient_checkpointing: Less memory and more time in updates, see `LanguageModel`.
        train: False: no weights are trainable.

    Raises:
        ModelError: See `load_model`.
    """
    if sharing not in get_args(Sharing):
        raise ModelError(f"sharing {sharing!r} does not exist; {nearest(sharing, get_args(Sharing))}")
    options: dict[str, Any] = {
        "batch_rows": batch_rows,
        "chat_template_kwargs": dict(chat_template_kwargs or {}),
        "truncate_prompts": truncate_prompts,
        "gradient_checkpointing": gradient_checkpointing,
    }
    trained = train and sharing != "lora"
    if sharing == "shared" or model.startswith(("http://", "https://")):
        team = Team(dict.fromkeys(agents, load_policy(model, device=device, dtype=dtype, trained=trained, **options)))
    else:
        network, tokenizer = load_model(model, device=device, dtype=dtype, trained=trained)
        if sharing == "lora":
            network = _with_adapters(network, agents, lora_rank, seed)
            adapters = {agent: agent for agent in agents}
            policy = _policy(network, tokenizer, dtype, trained, adapters=adapters, **options)
            team = Team(dict.fromkeys(agents, policy))
        else:
            networks = [network, *(copy.deepcopy(network) for _ in agents[1:])]
            policies = [_policy(network, tokenizer, dtype, trained, **options) for network in networks]
            team = Team(dict(zip(agents, policies, strict=True)))
    for policy in () if train else team.trainable:
        for parameter in policy.parameters():
            parameter.requires_grad_(False)
    return team


def _with_adapters(network: Any, agents: Sequence[str], rank: int, seed: int) -> Any:
    """The network with one trainable LoRA adapter per agent; all of them start as the base model."""
    import torch
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", bias="none")
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft asks transformers for an attribute under its old name
        torch.manual_seed(seed)
        adapted = get_peft_model(network, config, adapter_name=agents[0])
        for agent in agents[1:]:
            adapted.add_adapter(agent, config)
    for name, parameter in adapted.named_parameters():
        parameter.requires_grad_("lora_" in name)
    return adapted
