# pyright: basic
"""Saved adapters of peft, which are merged into the weights of their base when they are loaded."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

CONFIG = "adapter_config.json"
_WHOLE = ("model*.safetensors*", "pytorch_model*.bin*")  # files with the weights of a whole model
_EARLIER = "checkpoint-"  # folders with earlier states of a training run of transformers


class AdapterError(ValueError):
    """A saved adapter cannot be merged into its base; the message has the reason and the remedy."""


def base_of(place: str, extra: Mapping[str, Any]) -> str | None:
    """Return the name of the base of a saved adapter; None if the place has a whole model.

    Args:
        place: The folder, or the id on the hub.
        extra: Further arguments of `from_pretrained`, such as `gguf_file`.

    Raises:
        AdapterError: There are several adapters, a whole model next to an adapter, or no name of a base.
    """
    from transformers.utils.peft_utils import find_adapter_config_file

    found = find_adapter_config_file(place, **{k: v for k, v in extra.items() if k != "gguf_file"})
    if found is None:
        return None
    folder = Path(place)
    if "gguf_file" in extra or any(any(folder.glob(pattern)) for pattern in _WHOLE):
        raise AdapterError(f"the folder has a whole model and an adapter ({CONFIG}); move one to another folder")
    others = [path.parent for path in sorted(folder.glob(f"*/{CONFIG}")) if not path.parent.name.startswith(_EARLIER)]
    if others:
        raise AdapterError(
            f"the folder has several adapters, in itself and in {others[0].name!r}; give a folder with one of them"
        )
    config = json.loads(Path(found).read_text(encoding="utf-8"))
    base = config.get("base_model_name_or_path")
    if not isinstance(base, str) or not base or base == place:
        raise AdapterError(
            f"{CONFIG} has base_model_name_or_path {base!r}; set it to the model that the adapter was trained on"
        )
    return base


def merged(network: Any, place: str) -> Any:
    """Return the base with an adapter merged into its weights.

    Args:
        network: The base, a causal language model of transformers.
        place: The folder of the adapter, or its id on the hub.

    Raises:
        AdapterError: The adapter cannot be merged, or does not belong to this base.
    """
    from peft import PeftModel
    from peft.tuners.lora import LoraLayer

    ends = (network.get_input_embeddings(), network.get_output_embeddings())
    tied = ends[1] is not None and ends[0].weight is ends[1].weight
    if getattr(network, "hf_quantizer", None) is not None:
        raise AdapterError("the base is quantized, so an adapter cannot be merged into it; load the base unquantized")
    device = str(network.device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # missing keys raise an error below
            adapted: Any = PeftModel.from_pretrained(network, place, torch_device=device)
            report = adapted.load_adapter(place, "default", torch_device=device)
    except Exception as error:  # peft raises exceptions of many kinds
        raise AdapterError(
            f"the adapter is incompatible with its base {network.name_or_path!r} ({type(error).__name__}: {error}); "
            "use the base that it was trained on"
        ) from error
    ends = (network.get_input_embeddings(), network.get_output_embeddings())
    if tied and any(isinstance(layer, LoraLayer) for layer in ends):
        raise AdapterError(
            "the adapter is on the embedding or the output layer, which share their weights in its base; train it "
            "without this layer, or on a base with tie_word_embeddings = false"
        )
    if not hasattr(adapted.base_model, "merge_and_unload"):
        kind = adapted.peft_config["default"].peft_type.value
        raise AdapterError(f"the adapter is of kind {kind!r}, which cannot be merged; use a LoRA adapter")
    _refuse(network, "has weights for layers that the model does not have", report.unexpected_keys)
    _refuse(network, "lacks weights that its configuration names", report.missing_keys)
    try:
        whole = adapted.merge_and_unload(safe_merge=True)
    except Exception as error:  # as above
        raise AdapterError(f"the adapter cannot be merged into its base ({type(error).__name__}: {error})") from error
    vars(whole).pop("peft_config", None)
    whole.name_or_path = place  # the name of the base for adapters that are trained on it
    return whole.requires_grad_().eval()


def _refuse(network: Any, fault: str, names: Iterable[str]) -> None:
    if found := sorted(names):
        raise AdapterError(
            f"the adapter {fault} ({found[0]!r}, {len(found)} in all), so it is incompatible with its base "
            f"{network.name_or_path!r}; use the base that it was trained on"
        )
