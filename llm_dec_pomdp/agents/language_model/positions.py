# pyright: basic
"""Rotary positions that change with the length of a text: LongRoPE (arXiv:2402.13753).

Up to a length, the switch, such a model rotates all keys and queries of a text by one set of frequencies, and those of
a longer text by another. transformers takes the set of the longest text of a batch for all of them. Here each text has
the set of its own length. Keys in a cache stay as they were rotated, so no text is sampled across the switch.

The dynamic scaling of NTK changes beyond the context of a model, where no text is sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .prompts import PromptTooLongError


def switch_of(model: Any) -> int | None:
    """Return the length of the longest text before the switch; None where positions do not change."""
    config = model.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = [rope, *(own for own in rope.values() if isinstance(own, Mapping))]  # of the model, or by kind of layer
    named = ("original_max_position_embeddings",)
    limits = [kind.get(*named) or getattr(config, *named) for kind in kinds if kind.get("rope_type") == "longrope"]
    return min(limits, default=None)


def rotate_by_text(model: Any, switch: int) -> None:
    """Let every text of a batch have the positions of its own length."""
    for module in model.modules():
        if hasattr(module, "rope_type") and not hasattr(module, "switch"):
            module.switch = switch
            module.register_forward_hook(_mend, with_kwargs=True)


def _mend(module: Any, inputs: Sequence[Any], named: Mapping[str, Any], output: Any) -> Any:
    """Rotate the short texts of a batch by their own frequencies, where there are long ones too."""
    given = dict(zip(("x", "position_ids", "layer_type"), inputs, strict=False)) | dict(named)
    states, positions = (given.pop(name) for name in list(given)[:2])
    short = positions.amax(-1) < module.switch
    if short.all() or not short.any():
        return output
    mended = module.forward(states[short], positions[short], **given)
    return tuple(whole.index_put((short,), part) for whole, part in zip(output, mended, strict=True))


def crosses(switch: int | None, prompt: int, text: int) -> bool:
    """Return whether the switch lies between a prompt and the end of a text after it, both in tokens."""
    return switch is not None and prompt <= switch < prompt + text


def before_switch(ids: list[int], new_tokens: int, switch: int | None, *, truncate: bool) -> list[int]:
    """Return a prompt that does not cross the switch together with its text; of one that does, the end with `truncate`.

    Raises:
        PromptTooLongError: It crosses the switch.
    """
    if switch is None or not crosses(switch, len(ids), new_tokens):
        return ids
    if truncate and new_tokens < switch:
        return ids[-(switch - new_tokens) :]
    raise PromptTooLongError(
        f"a prompt of {len(ids)} tokens and up to {new_tokens} new ones cross {switch} tokens, where this model "
        "changes all positions (LongRoPE); shorten the task, lower max_new_tokens, take another model, or keep only "
        "the end of such prompts with --load truncate_prompts=true (in Python: truncate_prompts=True)"
    )
