# pyright: basic
"""Rotary positions that change with the length of a text: LongRoPE (arXiv:2402.13753).

Such a model has two sets of frequencies for rotating keys and queries: one for texts up to a length (the switch), and
one for longer texts. transformers uses the set of the longest text of a batch for all of them. Here each text has the
set for its own length. Keys in a cache are not rotated again, so no completion is sampled across the switch.

Dynamic NTK scaling changes positions only beyond the context of a model, where nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .prompts import PromptTooLongError


def switch_of(model: Any) -> int | None:
    """Return the length of the longest text before the switch; None if positions do not change."""
    config = model.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = [rope, *(own for own in rope.values() if isinstance(own, Mapping))]  # of the model, or by kind of layer
    named = ("original_max_position_embeddings",)
    limits = [kind.get(*named) or getattr(config, *named) for kind in kinds if kind.get("rope_type") == "longrope"]
    return min(limits, default=None)


def rotate_by_text(model: Any, switch: int) -> None:
    """Patch a model so that every text of a batch has the positions for its own length."""
    for module in model.modules():
        if hasattr(module, "rope_type") and not hasattr(module, "switch"):
            module.switch = switch
            module.register_forward_hook(_mend, with_kwargs=True)


def _mend(module: Any, inputs: Sequence[Any], named: Mapping[str, Any], output: Any) -> Any:
    """Return rotations in which short texts have their own frequencies, if the batch has short and long texts."""
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
    """Return a prompt that does not cross the switch together with its completion.

    With `truncate`, only the end of a prompt that crosses it is returned.

    Raises:
        PromptTooLongError: The prompt crosses the switch, and `truncate` is False.
    """
    if switch is None or not crosses(switch, len(ids), new_tokens):
        return ids
    if truncate and new_tokens < switch:
        return ids[-(switch - new_tokens) :]
    raise PromptTooLongError(
        f"a prompt of {len(ids)} tokens and up to {new_tokens} new ones cross {switch} tokens, where this model "
        "changes all positions (LongRoPE); shorten the task, lower max_new_tokens, use another model, or keep only "
        "the end of such prompts with --load truncate_prompts=true (in Python: truncate_prompts=True)"
    )
