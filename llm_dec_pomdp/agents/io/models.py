# pyright: basic
"""Loading of models by name; `agents.io.load` builds teams of them.

| name | model |
|---|---|
| `builtin:tiny` | the small model in this package (works offline) |
| `builtin:table` | a tabular policy per role, for environments with few actions; see `agents.table` |
| `builtin:extractive` | a policy per role that copies sentences of the task's text; see `agents.extractive` |
| `builtin:words` | an untrained model of the words of an environment with a small vocabulary; see `agents.word_model` |
| `random:Qwen3-1.7B` | random weights in a published shape, to measure time and memory; see `agents.shapes` |
| `path/to/folder` | a saved transformers model, or an adapter of peft, which is merged into its base |
| `path/to/file.gguf` | a GGUF file, dequantized by transformers |
| `http://host:port/v1#name` | a model on an OpenAI-compatible server; its key is read from OPENAI_API_KEY |
| any other name | a model id of the hub |

Members of a team may also be `script:NAME`, a scripted policy; see `agents.io.load`.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import os
import pickle
import warnings
from collections.abc import Collection, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ...http import checked_address
from ...registries import nearest
from .. import gguf, shapes, word_model
from ..base import Policy
from ..engines import make_engine
from ..options import RunOptions
from ..remote import Remote
from ..trained_adapters import CONFIG, AdapterError, base_of, merged

TINY = "builtin:tiny"
BUILTIN = {TINY: "tiny"}
TABLE = "builtin:table"
EXTRACTIVE = "builtin:extractive"
WHOLE_TEAMS = (TABLE, EXTRACTIVE)  # built-in names of policies that are not language models
_HUB_SECONDS = 5.0  # time limit for an answer of the hub
_DTYPES = ("auto", "float32", "bfloat16", "float16")
_NO_CODE = {"trust_remote_code": False}  # never run code of a folder or of the hub


class ModelError(ValueError):
    """A model cannot be loaded; the message names the model and the remedy."""


def load_model(
    name: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    trained: bool = False,
    vocabulary: Sequence[str] = (),
    seed: int = 0,
    attention: str = "",
    quantize: str = "",
) -> tuple[Any, Any]:
    """Load a causal language model and its tokenizer.

    Args:
        name: See the table of this module.
        device, dtype: See `ModelOptions`; a single device. "auto" is CUDA if available.
        trained: Whether the model's own weights will be trained. Small changes of a weight are lost in 16 bits, so
            learners warn of bfloat16 weights and refuse float16 weights. Adapters have float32 weights on any base.
        vocabulary: Words of the environment, for builtin:words.
        seed: Seed of the initial weights, for builtin:words and random shapes.
        attention, quantize: See `ModelOptions`.

    Returns:
        The model in evaluation mode, and its tokenizer.

    Raises:
        ModelError: The name is unknown, a file is missing, there is no network, the device, dtype or vocabulary is
            wrong, or the model cannot be quantized.
    """
    if dtype not in _DTYPES:
        raise ModelError(f"dtype {dtype!r} does not exist; {nearest(dtype, _DTYPES)}")
    place, extra = locate(name)
    if quantize:
        _refuse_unquantizable(name, extra)
    building: dict[str, Any] = {"device": device, "dtype": dtype, "trained": trained, "attention": attention}
    if (adapted := _with_adapter(name, place, extra, quantize=quantize, **building)) is not None:
        return adapted
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        dtype = "bfloat16" if device.startswith("cuda") and not trained else "float32"
    dense = {}
    if "gguf_file" in extra and hasattr(transformers, "GgufConfig"):  # older releases always dequantize
        dense = {"quantization_config": transformers.GgufConfig(dequantize=True)}
    transformers_logging.disable_progress_bar()
    read_once = gguf.read_once() if "gguf_file" in extra else contextlib.nullcontext()
    try:
        with warnings.catch_warnings(), read_once:
            warnings.simplefilter("ignore")  # about dequantizing GGUF files
            if name == word_model.NAME:
                if not vocabulary:
                    raise ModelError(
                        f"{word_model.NAME} needs the vocabulary of an environment, but this environment declares "
                        "none; use builtin:tiny"
                    )
                model, tokenizer = word_model.word_model(vocabulary, seed)
                return model.to(device, getattr(torch, dtype)), tokenizer
            tokenizer = AutoTokenizer.from_pretrained(place, **_NO_CODE, **extra)
            if name.startswith(shapes.PREFIX):
                shape, drawn = name.removeprefix(shapes.PREFIX), {"dtype": getattr(torch, dtype), "seed": seed}
                return shapes.random_model(shape, tokenizer, device=device, **drawn), tokenizer
            weights = {"dtype": getattr(torch, dtype), "weights_only": True, **dense}
            weights |= {"attn_implementation": attention} if attention else {}
            weights |= _in_4_bits(weights["dtype"], device) if quantize else {}
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                place, **_NO_CODE, **weights, **extra, output_loading_info=True
            )
        model, report = loaded
        _refuse_weights(name, model, report["missing_keys"], report["unexpected_keys"])
        for module in model.modules() if quantize else ():  # this matrix product for CPUs has no gradient
            module.support_avx512bf16_for_cpu = False  # pyright: ignore[reportAttributeAccessIssue]
        return model if quantize else model.to(device), tokenizer  # pyright: ignore[reportArgumentType]
    except ModelError:
        raise
    except pickle.UnpicklingError:
        files = " or ".join(repr(str(path)) for path in sorted(Path(place).glob("*.bin"))) or repr(name)
        raise ModelError(
            f"{files} is a pickle with more than weights, which is never loaded; get the model as safetensors "
            "(model.safetensors) from a source that you trust"
        ) from None
    except Exception as error:  # transformers raises exceptions of many kinds for invalid files
        raise ModelError(
            f"model {name!r} could not be loaded on {device}: {type(error).__name__}: {error}\n"
            "Give builtin:tiny, a folder saved by transformers, a .gguf file, or the id of a model on the hub (which "
            "needs a network or a filled cache)"
        ) from error


def _with_adapter(
    name: str, place: str, extra: Mapping[str, Any], *, quantize: str, **building: Any
) -> tuple[Any, Any] | None:
    """Return the base of an adapter with the adapter merged, and the tokenizer; None for models without an adapter."""
    if name == word_model.NAME or name.startswith(("builtin:", shapes.PREFIX)):
        return None
    try:
        if (base := base_of(place, extra)) is None:
            return None
        if quantize:
            raise AdapterError(f"quantize is {quantize!r}, but an adapter cannot be merged into quantized weights")
        network, tokenizer = load_model(base, **building)
        network = merged(network, place)
    except (AdapterError, RecursionError) as error:
        raise ModelError(
            f"model {name!r} cannot be loaded: {error}. Otherwise merge the adapter with merge_and_unload() of peft, "
            "and give the folder of the whole model"
        ) from error
    except ModelError as error:
        raise ModelError(
            f"the base model of the adapter {name!r} cannot be loaded: {error}; set base_model_name_or_path in "
            "adapter_config.json to a model that can be loaded"
        ) from error
    from transformers import AutoTokenizer

    if not Path(place).is_dir() or any(Path(place).glob("tokenizer*")):
        tokenizer = AutoTokenizer.from_pretrained(place, **_NO_CODE, **extra)
    _refuse_weights(name, network, (), ())
    return network, tokenizer


def _refuse_unquantizable(name: str, extra: Mapping[str, Any]) -> None:
    """Raise ModelError if a model cannot be quantized or bitsandbytes is missing.

    GGUF files are quantized already, and models without files are not loaded by transformers.
    """
    if name == word_model.NAME or name.startswith(shapes.PREFIX) or "gguf_file" in extra:
        raise ModelError(
            f"quantize is only for a folder or a model of the hub, but the model is {name!r}; leave quantize out"
        )
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ModelError("quantize needs bitsandbytes: pip install -e '.[bitsandbytes]' (in the clone)")


def _in_4_bits(dtype: Any, device: str) -> dict[str, Any]:
    """Return arguments of `from_pretrained` for NF4 weights with products in `dtype`, loaded onto `device`."""
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    return {"quantization_config": config, "device_map": {"": device}}


def _refuse_weights(name: str, model: Any, missing: Collection[str], unused: Collection[str]) -> None:
    """Raise ModelError if weights are missing (they would be random), unused, or not finite."""
    if unused:
        raise ModelError(
            f"model {name!r} has weights that the model of its config.json does not use, such as {min(unused)!r} "
            f"({len(unused)} in all); use the config.json that was saved with them, or save the model without them"
        )
    if missing:
        raise ModelError(
            f"model {name!r} lacks weights that its config.json requires, such as {min(missing)!r} ({len(missing)} in "
            "all); use the config.json that was saved with them"
        )
    for part, weights in model.named_parameters():
        if weights.is_floating_point() and not weights.isfinite().all():
            raise ModelError(f"model {name!r} has weights that are not finite, in {part!r}; use another copy of it")


def locate(name: str) -> tuple[str, dict[str, Any]]:
    """Return the place of a model as arguments of `from_pretrained`, without loading the model or torch.

    Returns:
        The folder or the id on the hub, and further arguments.

    Raises:
        ModelError: The model is neither built in, nor a folder, nor a file, nor on the hub.
    """
    if name == word_model.NAME:
        return name, {}  # it has no files
    if name.startswith("script:"):
        raise ModelError(f"{name!r} is a script, but a language model is needed here; give the name of a model")
    if name.startswith(shapes.PREFIX):
        if (shape := name.removeprefix(shapes.PREFIX)) not in shapes.SHAPES:
            raise ModelError(f"the shape {shape!r} is unknown; {nearest(shape, shapes.SHAPES)}")
        name = TINY  # random shapes have its tokenizer
    if name.startswith("builtin:"):
        if name in WHOLE_TEAMS:
            raise ModelError(f"{name!r} is not a language model, but a policy for eval, train and bench; give another")
        if name not in BUILTIN:
            raise ModelError(f"no built-in model {name!r}; {nearest(name, [*BUILTIN, *WHOLE_TEAMS, word_model.NAME])}")
        return str(resources.files("llm_dec_pomdp.data") / BUILTIN[name]), {}
    path = Path(name)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ModelError(f"model file {name!r} does not exist{_nearest_path(path)}")
        return str(path.parent), {"gguf_file": path.name}
    if path.is_dir():
        _refuse_half_a_model(path)
        return name, {}
    if path.is_file():
        hint = "give a folder that transformers saved, or a .gguf file"
        if path.suffix == ".toml":
            hint = f"a file of members describes a team: give it as --team {name}, or load_team(env, {name!r})"
        raise ModelError(f"model {name!r} is a file, but not a model; {hint}")
    return name, _ask_hub(name)


def _refuse_half_a_model(folder: Path) -> None:
    """Raise ModelError if a folder lacks a file of a transformers model; the message names it."""
    parts = {
        "config.json": ("config.json", "adapter_config.json"),
        "weights (model.safetensors)": ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json"),
        "tokenizer (tokenizer.json)": ("tokenizer*", "vocab*", "*.model", "*.tiktoken", "merges.txt"),
    }
    if (folder / CONFIG).is_file():
        del parts["tokenizer (tokenizer.json)"]  # an adapter uses the tokenizer of its base
    missing = [part for part, names in parts.items() if not any(any(folder.glob(name)) for name in names)]
    if not missing:
        return
    inside = [path for pattern in ("*/config.json", "*/adapter_config.json") for path in folder.glob(pattern)]
    files = sorted(str(path) for path in folder.glob("*.gguf"))
    hint = "save the model and its tokenizer with save_pretrained"
    if inside:
        hint = f"give the folder of one model, such as {str(inside[0].parent)!r}, or a team with --team"
    elif files:
        hint = f"give the file {files[0]!r}"
    raise ModelError(f"model folder {str(folder)!r} has no {' and no '.join(missing)}; {hint}")


def _ask_hub(name: str) -> dict[str, Any]:
    """Return arguments for loading a model of the hub, after checking that the hub or the cache has it.

    Raises:
        ModelError: The model is neither on the hub nor in the cache.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    known = f"model {name!r} is not a folder{_nearest_path(Path(name))}"
    hint = "give builtin:tiny, a folder saved by transformers, a .gguf file, or the id of a model on the hub"
    cached = False
    try:
        cached = isinstance(try_to_load_from_cache(name, "config.json"), str)
        get_hf_file_metadata(hf_hub_url(name, "config.json"), timeout=_HUB_SECONDS)
    except HFValidationError:
        raise ModelError(f"{known} and not an id of the hub; {hint}") from None
    except Exception as error:  # the hub's client raises many unrelated types
        if cached:
            return {"local_files_only": True}
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise ModelError(f"{known}, not in the hub's cache, and not on the hub ({reason}); {hint}") from error
    return {}


def _nearest_path(path: Path) -> str:
    """Return a hint with the existing folder or .gguf file of the nearest name; "" if none is near."""
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


def server_model(name: str) -> tuple[str, str] | None:
    """Return address and model of a name like `http://host:port/v1#name`; None for other names.

    Raises:
        ModelError: The name has no model, or its address is invalid.
    """
    if not name.startswith(("http://", "https://")):
        return None
    url, _, model = name.partition("#")
    try:
        address = checked_address(url)
    except ValueError as error:
        raise ModelError(str(error)) from None
    if not model:
        raise ModelError(f"model {name!r} names a server without a model; write {name}#NAME")
    return address, model


def mixed_precision(dtype: str, device: str, trained: bool) -> bool:
    """Return whether products are in bfloat16 and weights in float32: for trained weights on CUDA, dtype "auto"."""
    return dtype == "auto" and device.startswith("cuda") and trained


def load_policy(
    name: str,
    options: RunOptions | None = None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    trained: bool = False,
    vocabulary: Sequence[str] = (),
    seed: int = 0,
    attention: str = "",
    quantize: str = "",
) -> Policy:
    """Load a policy by the name of its model, local or remote; see the table of this module.

    Args:
        name: See the table of this module.
        options: Options of running the model.
        device, dtype, trained, vocabulary, seed, attention, quantize: See `load_model`.

    Raises:
        ModelError: See `load_model`; or an option does not apply to a model on a server.
    """
    options = options or RunOptions()
    running = options.arguments()
    if server := server_model(name):
        for option, value in running.items():
            if option != "thinking" and value != RunOptions.model_fields[option].default:
                raise ModelError(f"{option} is {value!r}, but {name!r} runs on a server; leave {option} out")
        of_server: dict[str, Any] = {"thinking": options.thinking, "extra_body": options.extra_body}
        return Remote(*server, api_key=os.environ.get("OPENAI_API_KEY"), **of_server)
    check_extra_body(name, options)
    building: dict[str, Any] = {"vocabulary": vocabulary, "seed": seed, "attention": attention, "quantize": quantize}
    network, tokenizer = load_model(name, device=device, dtype=dtype, trained=trained, **building)
    return policy_of(network, tokenizer, dtype, trained, **running)


def check_extra_body(name: str, options: RunOptions) -> None:
    """Raise ModelError if `extra_body`, which is for servers, is given for a model of this process."""
    if options.extra_body:
        raise ModelError(
            f"extra_body is {options.extra_body!r}, but {name!r} runs in this process; leave extra_body out"
        )


def policy_of(
    network: Any, tokenizer: Any, dtype: str, trained: bool, *, engine: Mapping[str, Any], **options: Any
) -> Policy:
    """Return a `LanguageModel` of a model that was loaded with `dtype`; `engine` has options of its engine, if any."""
    import torch

    from ..language_model.policy import LanguageModel

    mixed = mixed_precision(dtype, str(network.device), trained)
    placement = {"compute_dtype": torch.bfloat16 if mixed else None, "engine": make_engine(engine) if engine else None}
    return LanguageModel(network, tokenizer, **placement, **options)
