# pyright: basic
"""Caches of keys and values for sequences that grow by one token at a time, and attention to them.

A prompt usually has several continuations (rows). `RowCaches` copies its keys and values to each row. `SharedCaches`
keeps and reads them once for all rows, which saves memory and, for long prompts on a CPU, most of the time. It makes
more calls, which dominate for short prompts and on an accelerator; there, `RowCaches` is used, or `FixedCaches`, whose
steps can be recorded and replayed as CUDA graphs.

On a CPU, attention is computed as two products and a softmax, since torch's own function takes up to four times as long
for a single query with two threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch.nn import functional

_GROWTH = 64  # tokens by which a cache grows
_WORTH_SHARING = 1 << 18  # smallest size of a layer's copies for which sharing prompts is faster
Pair = tuple[torch.Tensor, torch.Tensor]  # keys and values


def avoid_plans(device: torch.device) -> None:
    """Disable cuDNN's attention on a GPU, in this process from now on.

    On GPUs of compute capability 9 and 10, torch prefers it, and cuDNN plans the computation again for every sequence
    length. This takes 35 ms per sampled token, more than all layers of a small model.
    """
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)


class Caches(Protocol):
    """Keys and values of all layers for B rows.

    Attributes:
        capacity: Number of tokens for which a row has room, including the prompt.
    """

    capacity: int

    def keep(self, rows: torch.Tensor) -> None:
        """Continue with only these rows."""
        ...

    def advance(self) -> None:
        """Make room for a token of every row, before the first layer attends to it."""
        ...

    def attend(self, number: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return the attention of the new tokens to themselves and all earlier tokens, in layer `number`.

        Args:
            number: The index of the layer.
            queries: Queries of the new tokens [B, H, g, D]: H key heads with g queries each.
            keys, values: Keys and values of the new tokens [B, H, D].

        Returns:
            The values [B, H, g, D], averaged with the attention weights.
        """
        ...


def caches(
    cache: Any, mask: torch.Tensor, index: torch.Tensor, most: int, scaling: float, *, fixed: bool = False
) -> Caches:
    """Return the caches for continuing prompts after their prefill.

    Args:
        cache: Keys and values of P prompts of T tokens, from transformers; it must not be used afterwards.
        mask: Their attention mask [P, T], left-padded.
        index: The prompt of every row [B]; rows of a prompt are adjacent.
        most: Maximum number of tokens that will be appended to a row.
        scaling: Factor of the queries.
        fixed: True: all steps run the same operations, for CUDA graphs.
    """
    if fixed:
        return FixedCaches(cache, mask, index, most, scaling)
    numbers = cache.layers[0].keys[0].numel()
    if mask.device.type == "cpu" and (len(index) - len(mask)) * numbers >= _WORTH_SHARING:
        return SharedCaches(cache, mask, index, most, scaling)
    return RowCaches(cache, mask, index, most, scaling)


class RowCaches:
    """A copy of the prompt for every row; see `caches` for the arguments."""

    def __init__(self, cache: Any, mask: torch.Tensor, index: torch.Tensor, most: int, scaling: float) -> None:
        self.scaling, self.left = scaling, most
        self.used = self.capacity = mask.shape[1]
        self.padding = _padding(mask[index], cache.layers[0].keys.dtype)
        room = self._make_room()
        self.stored = _copied(cache, index, room)

    def keep(self, rows: torch.Tensor) -> None:
        """Continue with only these rows."""
        self.stored = _kept(self.stored, rows)
        self.padding = self.padding[rows] if self.padding is not None else None

    def advance(self) -> None:
        """Make room for a token of every row."""
        if self.used == self.capacity:
            room = self._make_room()
            self.stored = [(_longer(keys, room), _longer(values, room)) for keys, values in self.stored]
        self.used += 1

    def attend(self, number: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return the attention of a new token to all earlier tokens and itself."""
        keys, values = _with(self.stored[number], keys, values, self.used)
        padding = self.padding[..., : self.used] if self.padding is not None else None
        if queries.device.type != "cpu":
            return functional.scaled_dot_product_attention(queries, keys, values, padding, scale=self.scaling)
        return torch.matmul(_weights(_scores(queries * self.scaling, keys, padding)), values)

    def _make_room(self) -> int:
        """Extend capacity and padding for more tokens; return their number."""
        room = min(_GROWTH, self.left)
        self.left -= room
        self.capacity += room
        self.padding = functional.pad(self.padding, (0, room)) if self.padding is not None else None
        return room


class FixedCaches:
    """A copy of the prompt for every row, with room for all tokens; see `caches` for the arguments.

    The position of the next token is in a tensor, so that all steps run the same operations and a GPU can replay them
    (`stepping.Replayed`).
    """

    def __init__(self, cache: Any, mask: torch.Tensor, index: torch.Tensor, most: int, scaling: float) -> None:
        self.scaling = scaling
        room = most + -(mask.shape[1] + most) % 8  # else torch pads the mask in every layer
        self.capacity = mask.shape[1] + room
        self.place = mask.new_tensor([mask.shape[1] - 1])
        hidden = functional.pad(mask[index], (0, room)) == 0
        self.hidden = torch.zeros_like(hidden, dtype=cache.layers[0].keys.dtype).masked_fill_(hidden, -torch.inf)
        self.stored = _copied(cache, index, room)

    def keep(self, rows: torch.Tensor) -> None:
        """Continue with only these rows."""
        self.stored = _kept(self.stored, rows)
        self.hidden = self.hidden[rows]

    def advance(self) -> None:
        """Make room for a token of every row."""
        self.place += 1
        self.hidden.index_fill_(1, self.place, 0)

    def attend(self, number: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return the attention of a new token to all earlier tokens and itself."""
        for stored, new in zip(self.stored[number], (keys, values), strict=True):
            stored.index_copy_(2, self.place, new[:, :, None].to(stored.dtype))
        hidden = self.hidden[:, None, None]
        return functional.scaled_dot_product_attention(queries, *self.stored[number], hidden, scale=self.scaling)


class SharedCaches:
    """One copy of each prompt, and the appended tokens of every row; see `caches` for the arguments.

    With at most C rows per prompt and t tokens appended,

        far  = queries by prompt [P, H, C g, D] x keys of the prompts [P, H, T, D]
        near = queries by row    [B, H, g, D]   x keys of the rows    [B, H, t, D]

    and the weights are the softmax over both.
    """

    def __init__(self, cache: Any, mask: torch.Tensor, index: torch.Tensor, most: int, scaling: float) -> None:
        self.scaling, self.left, self.used = scaling, most, 0
        self.capacity = mask.shape[1]
        self.prompts: list[Pair] = [(layer.keys, layer.values) for layer in cache.layers]
        self.padding = _padding(mask, cache.layers[0].keys.dtype)
        self.sampled: list[Pair] = [(keys[index, :, :0], values[index, :, :0]) for keys, values in self.prompts]
        self._place(index)

    def keep(self, rows: torch.Tensor) -> None:
        """Continue with only these rows."""
        self.sampled = _kept(self.sampled, rows)
        self._place(self.index[rows])

    def advance(self) -> None:
        """Make room for a token of every row."""
        if self.used == self.sampled[0][0].shape[2]:
            room = min(_GROWTH, self.left)
            self.left -= room
            self.capacity += room
            self.sampled = [(_longer(keys, room), _longer(values, room)) for keys, values in self.sampled]
        self.used += 1

    def attend(self, number: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return the attention of a new token to all earlier tokens and itself."""
        prompt_keys, prompt_values = self.prompts[number]
        keys, values = _with(self.sampled[number], keys, values, self.used)
        queries = queries * self.scaling
        far = _scores(self._by_prompt(queries), prompt_keys, self.padding)
        near = self._by_prompt(_scores(queries, keys))
        weights = _weights(torch.cat([far, near], dim=-1))
        far, near = weights.split([far.shape[-1], near.shape[-1]], dim=-1)
        return self._by_row(torch.matmul(far, prompt_values)) + torch.matmul(self._by_row(near), values)

    def _place(self, index: torch.Tensor) -> None:
        """Set the prompt of each row [B]; drop prompts without rows."""
        present, self.index, counts = torch.unique_consecutive(index, return_inverse=True, return_counts=True)
        if len(present) < len(self.prompts[0][0]):
            self.prompts = [(keys[present], values[present]) for keys, values in self.prompts]
            self.padding = self.padding[present] if self.padding is not None else None
        self.copies = int(counts.max())
        first = (counts.cumsum(0) - counts)[self.index]  # index of the prompt's first row
        self.places = self.index * self.copies + torch.arange(len(index), device=index.device) - first
        self.even = len(index) == len(present) * self.copies

    def _by_prompt(self, x: torch.Tensor) -> torch.Tensor:
        """Reshape [B, H, g, N] to [P, H, C g, N], with zeros if a prompt has fewer rows than another."""
        prompts, heads, width = len(self.prompts[0][0]), x.shape[1], x.shape[3]
        if not self.even:
            x = x.new_zeros(prompts * self.copies, *x.shape[1:]).index_copy_(0, self.places, x)
        return x.view(prompts, self.copies, heads, -1, width).transpose(1, 2).reshape(prompts, heads, -1, width)

    def _by_row(self, x: torch.Tensor) -> torch.Tensor:
        """Reshape [P, H, C g, N] to [B, H, g, N]."""
        prompts, heads, _, width = x.shape
        x = x.reshape(prompts, heads, self.copies, -1, width).transpose(1, 2)
        x = x.reshape(prompts * self.copies, heads, -1, width)
        return x if self.even else x[self.places]


def _padding(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor | None:
    """Return the term for scores of a mask [B, T]: minus infinity at padding [B, 1, 1, T]; None without padding."""
    if mask.all():
        return None
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask == 0, -torch.inf)[:, None, None]


def _scores(queries: torch.Tensor, keys: torch.Tensor, padding: torch.Tensor | None = None) -> torch.Tensor:
    """Return the products of queries [B, H, g, D] and keys [B, H, t, D], [B, H, g, t], plus padding."""
    scores = torch.matmul(queries, keys.transpose(2, 3))
    return scores if padding is None else scores + padding


def _weights(scores: torch.Tensor) -> torch.Tensor:
    """Return the softmax of scores, computed in single precision or better."""
    return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(scores.dtype)


def _copied(cache: Any, index: torch.Tensor, room: int) -> list[Pair]:
    """Return keys and values of the prompt of every row, with room for further tokens; empty the cache."""
    stored: list[Pair] = []
    while cache.layers:  # frees each layer once it is copied
        layer = cache.layers.pop(0)
        stored.append((_longer(layer.keys[index], room), _longer(layer.values[index], room)))
    return stored


def _kept(stored: Sequence[Pair], rows: torch.Tensor) -> list[Pair]:
    """Return the keys and values of some rows."""
    return [(keys[rows], values[rows]) for keys, values in stored]


def _longer(stored: torch.Tensor, room: int) -> torch.Tensor:
    """Return keys or values [B, H, t, D] with room for further tokens."""
    return functional.pad(stored, (0, 0, 0, room))


def _with(stored: Pair, keys: torch.Tensor, values: torch.Tensor, used: int) -> Pair:
    """Write keys and values of a new token [B, H, D] into the last position; return all [B, H, used, D]."""
    stored[0][:, :, used - 1], stored[1][:, :, used - 1] = keys, values
    return stored[0][:, :, :used], stored[1][:, :, :used]
