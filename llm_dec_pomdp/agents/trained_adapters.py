# pyright: basic
"""Adapters that peft has trained and saved: each becomes part of the weights of its base when it is loaded."""

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
    """A saved adapter that cannot become part of a model; the message says why and the next step."""


def base_of(place: str, extra: Mapping[str, Any]) -> str | None:
    """Return the name of the base of a saved adapter; None where there is no adapter, but a whole model.

    Args:
        place, extra: See `loading.locate`.

    Raises:
        AdapterError: There are several adapters, a whole model next to an adapter, or no name of a base.
    """
    from transformers.utils.peft_utils import find_adapter_config_file

    found = find_adapter_config_file(place, **{k: v for k, v in extra.items() if k != "gguf_file"})
    if found is None:
        return None
    folder = Path(place)
    if "gguf_file" in extra or any(any(folder.glob(pattern)) for pattern in _WHOLE):
        raise AdapterError(f"it lies next to an adapter ({CONFIG}); give each a folder of its own")
    others = [path.parent for path in sorted(folder.glob(f"*/{CONFIG}")) if not path.parent.name.startswith(_EARLIER)]
    if others:
        raise AdapterError(
            f"the folder holds several adapters, in itself and in {others[0].name!r}; give a folder with one of them"
        )
    config = json.loads(Path(found).read_text(encoding="utf-8"))
    base = config.get("base_model_name_or_path")
    if not isinstance(base, str) or not base or base == place:
        raise AdapterError(
            f"{CONFIG} has base_model_name_or_path {base!r}; write the model that the adapter was trained on"
        )
    return base


def merged(network: Any, place: str) -> Any:
    """Return the base with an adapter as part of its weights.

    Args:
        network: The base, a causal language model of transformers.
        place: Folder of the adapter, or its id on the hub.

    Raises:
        AdapterError: It cannot be merged, or does not belong to this base.
    """
    from peft import PeftModel
    from peft.tuners.lora import LoraLayer

    ends = (network.get_input_embeddings(), network.get_output_embeddings())
    tied = ends[1] is not None and ends[0].weight is ends[1].weight
    if getattr(network, "hf_quantizer", None) is not None:
        raise AdapterError("the base is quantized, and an adapter cannot become part of weights of so few bits")
    device = str(network.device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about keys that are missing, which are refused here
            adapted: Any = PeftModel.from_pretrained(network, place, torch_device=device)
            report = adapted.load_adapter(place, "default", torch_device=device)
    except Exception as error:  # of whatever kind a foreign file makes peft raise
        raise AdapterError(
            f"the adapter does not fit its base {network.name_or_path!r} ({type(error).__name__}: {error}); take the "
            "base that it was trained on"
        ) from error
    ends = (network.get_input_embeddings(), network.get_output_embeddings())
    if tied and any(isinstance(layer, LoraLayer) for layer in ends):
        raise AdapterError(
            "the adapter is on the embedding or the output layer, which share their weights in its base; train it "
            "without this layer, or on a base with tie_word_embeddings = false"
        )
    if not hasattr(adapted.base_model, "merge_and_unload"):
        kind = adapted.peft_config["default"].peft_type.value
        raise AdapterError(f"the adapter is of kind {kind!r}, which has no weights to merge")
    _refuse(network, "has weights for layers that the model does not have", report.unexpected_keys)
    _refuse(network, "lacks weights that its configuration speaks of", report.missing_keys)
    try:
        whole = adapted.merge_and_unload(safe_merge=True)
    except Exception as error:  # as above
        raise AdapterError(f"the adapter cannot be merged into its base ({type(error).__name__}: {error})") from error
    vars(whole).pop("peft_config", None)
    whole.name_or_path = place  # an adapter that is trained on it names it as its base
    return whole.requires_grad_().eval()


def _refuse(network: Any, fault: str, names: Iterable[str]) -> None:
    if found := sorted(names):
        raise AdapterError(
            f"the adapter {fault} ({found[0]!r}, {len(found)} in all), so it does not fit its base "
            f"{network.name_or_path!r}; take the base that it was trained on"
        )
