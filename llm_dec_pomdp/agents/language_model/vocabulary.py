# pyright: basic
"""Ids of the output layer without a token.

Output layers often have more rows than the tokenizer has tokens: their number is rounded up, or ids between tokens are
unused. Such an id has no text, and servers refuse prompts that contain it. So it is never sampled, and
log-probabilities are normalized over the ids with a token.
"""

from __future__ import annotations

from typing import Any

import torch


def tokenless_ids(model: Any, tokenizer: Any, stop_ids: frozenset[int]) -> torch.Tensor | None:
    """Return the ids that have a logit and no token, ascending; None if every id has a token.

    Raises:
        ValueError: None of the ids that end a text has a token.
    """
    head = model.get_output_embeddings() or model.get_input_embeddings()
    ids = torch.tensor(sorted(tokenizer.get_vocab().values()))
    free = torch.ones(head.weight.shape[0], dtype=torch.bool)
    free[ids[ids < len(free)]] = False
    if all(end >= len(free) or free[end] for end in stop_ids):
        raise ValueError(
            f"the tokenizer has no token for {sorted(stop_ids)}, the ids that end a text, so no text would ever end; "
            "set tokenizer.eos_token, or load the tokenizer that was saved with the model"
        )
    return free.nonzero()[:, 0] if free.any() else None


def over_tokens(logits: torch.Tensor, tokenless: torch.Tensor | None) -> torch.Tensor:
    """Return logits [..., V] in which ids without a token have no probability.

    The logits are finite, so that entropies and gradients are finite.
    """
    if tokenless is None:
        return logits
    return logits.index_fill(-1, tokenless.to(logits.device), torch.finfo(logits.dtype).min)


def bias_over_tokens(head: Any, tokenless: torch.Tensor | None) -> torch.Tensor | None:
    """Return a bias [V] of an output layer with which ids without a token have no probability; None for no bias."""
    if tokenless is None:
        return head.bias
    none = head.weight.new_zeros(head.weight.shape[0]).index_fill(0, tokenless.to(head.weight.device), -torch.inf)
    return none if head.bias is None else head.bias + none
