# pyright: basic
"""Packing: completions of one prompt in one row, one after the other, so that short ones need no padding.

A row continues the keys and values of its prompt. By a mask, each completion attends only to the prompt and itself, and
its positions start after the prompt. Up to rounding, every token is computed as in a separate row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ...types import Completion

if TYPE_CHECKING:
    from .base import ModelPolicy


class Packed(NamedTuple):
    """P rows with T tokens of N completions.

    Attributes:
        ids: Token ids [P, W].
        positions: Positions of tokens, counted from the beginning of the prompt [P, W].
        mask: True for the keys to which a token attends; the K keys of the prompt come first [P, 1, W, K + W].
        row, column: The place of each of the T tokens, in the order of completions.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    row: torch.Tensor
    column: torch.Tensor


def check_packable(model: Any) -> None:
    """Raise ValueError if a mask cannot separate the completions of a row in this model."""
    config = model.config
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if config._attn_implementation != "sdpa" or kinds or getattr(config, "sliding_window", None):
        what = f"attention {config._attn_implementation!r}" + (
            f" and layers of {', '.join(sorted(kinds))}" * bool(kinds)
        )
        raise ValueError(
            f"packed is true, which needs full attention with sdpa in every layer, but this {config.model_type!r} "
            f"model has {what}; leave packed out"
        )


@torch.no_grad()
def check_packing(policy: ModelPolicy) -> None:
    """Raise ValueError if packed completions have other log-probabilities than completions in separate rows."""
    agent = next(iter(policy.adapters or ("",)))
    rows = policy.model.get_input_embeddings().weight.shape[0]
    texts = [(3, 1, 4), (1, 5, 9, 2, 6)]
    samples = [(agent, Completion("", (0, 1, 2), tuple(token % rows for token in text))) for text in texts]
    largest = 1e-3 if policy.model.dtype.itemsize >= 4 and policy.compute_dtype is None else 0.1
    reason = ""
    try:
        there = policy.token_logprobs(samples, 1.0)[0]
        policy.packed = False
        gap = (there - policy.token_logprobs(samples, 1.0)[0]).abs().max().item()
        if not gap <= largest:
            reason = f"log-probabilities differ by {gap:.2g} nats"
    except Exception as failure:  # model families raise exceptions of many kinds for a mask of this form
        reason = f"{type(failure).__name__}: {failure}"
    finally:
        policy.packed = True
    if reason:
        raise ValueError(
            f"packed is true, but a mask does not separate the completions of a row in this "
            f"{policy.model.config.model_type!r} model ({reason}); leave packed out"
        )


def pack(ids: torch.Tensor, mask: torch.Tensor, rows: torch.Tensor, prompt_mask: torch.Tensor, pad_id: int) -> Packed:
    """Return completions packed into the rows of their prompts.

    Args:
        ids: Completions [N, L], right-padded.
        mask: 1 for tokens, 0 for padding [N, L].
        rows: The index of each completion's prompt [N].
        prompt_mask: The attention mask of the prompts [P, K].
        pad_id: The token of unused places.
    """
    lengths = mask.sum(1)
    starts, ends = torch.zeros_like(lengths), lengths.new_zeros(len(prompt_mask))
    for text, row in enumerate(rows.tolist()):
        starts[text] = ends[row]
        ends[row] += lengths[text]
    there = mask.bool()
    within = (mask.cumsum(1) - 1)[there]
    row = rows.repeat_interleave(lengths)
    column = starts.repeat_interleave(lengths) + within
    shape = len(prompt_mask), int(ends.max())
    packed, owner, positions = ids.new_full(shape, pad_id), rows.new_full(shape, -1), ids.new_zeros(shape)
    packed[row, column] = ids[there]
    owner[row, column] = torch.arange(len(ids), device=ids.device).repeat_interleave(lengths)
    positions[row, column] = prompt_mask.sum(1)[row] + within
    same = (owner[:, :, None] == owner[:, None, :]).tril()  # unused places attend to the prompt and to themselves
    shown = prompt_mask.bool()[:, None, :].expand(-1, shape[1], -1)
    return Packed(packed, positions, torch.cat([shown, same], dim=2)[:, None], row, column)
