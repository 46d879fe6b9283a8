"""Both ways to keep keys and values give the attention that is written out here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from llm_dec_pomdp.agents.language_model import attention
from llm_dec_pomdp.agents.language_model.attention import RowCaches, SharedCaches

HEADS, GROUPS, SIZE, LAYERS, SCALING = 2, 3, 4, 2, 0.5
KINDS = pytest.mark.parametrize("kind", [RowCaches, SharedCaches])


def cache_of(prompts: int, length: int) -> Any:
    draw = torch.Generator().manual_seed(prompts)
    shape = (prompts, HEADS, length, SIZE)
    return SimpleNamespace(
        layers=[
            SimpleNamespace(keys=torch.randn(shape, generator=draw), values=torch.randn(shape, generator=draw))
            for _ in range(LAYERS)
        ]
    )


class Plain:
    """One row after the other, every key of its own, no padding."""

    def __init__(self, cache: Any, mask: torch.Tensor, index: list[int]) -> None:
        self.rows = [
            [
                (layer.keys[i][:, mask[i].bool()].clone(), layer.values[i][:, mask[i].bool()].clone())
                for layer in cache.layers
            ]
            for i in index
        ]

    def attend(self, number: int, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        attended: list[torch.Tensor] = []
        for row, layers in enumerate(self.rows):
            old_keys, old_values = layers[number]
            k = torch.cat([old_keys, keys[row][:, None]], dim=1)
            v = torch.cat([old_values, values[row][:, None]], dim=1)
            layers[number] = k, v
            weights = torch.einsum("hgd,htd->hgt", queries[row], k).mul(SCALING).softmax(-1)
            attended.append(torch.einsum("hgt,htd->hgd", weights, v))
        return torch.stack(attended)


@pytest.mark.every(2)
@KINDS
@pytest.mark.parametrize("index", [[0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2], [0], [1, 1, 2], [2]])
@pytest.mark.parametrize("padding", [0, 3])
def test_attention_is_what_it_says(kind: Any, index: list[int], padding: int) -> None:
    """Over 70 tokens, so that room is made twice; on the way rows leave, and with them all of a prompt."""
    cache, mask = cache_of(3, 7), torch.ones(3, 7, dtype=torch.long)
    mask[1, :padding] = 0
    plain = Plain(cache, mask, index)
    grown = kind(cache, mask, torch.tensor(index), 70, SCALING)
    draw = torch.Generator().manual_seed(0)
    for step in range(70):
        rows = len(plain.rows)
        grown.advance()
        assert grown.capacity >= 7 + step + 1
        for number in range(LAYERS):
            queries = torch.randn(rows, HEADS, GROUPS, SIZE, generator=draw)
            keys, values = torch.randn(2, rows, HEADS, SIZE, generator=draw)
            torch.testing.assert_close(
                grown.attend(number, queries, keys, values), plain.attend(number, queries, keys, values)
            )
        if step in (20, 40) and rows > 2:
            stay = [1, *range(3, rows)] if step == 20 else [rows - 1]
            grown.keep(torch.tensor(stay))
            plain.rows = [plain.rows[i] for i in stay]


@KINDS
def test_room_ends_with_the_last_token(kind: Any) -> None:
    grown = kind(cache_of(1, 5), torch.ones(1, 5, dtype=torch.long), torch.tensor([0, 0]), 70, SCALING)
    for _ in range(70):
        grown.advance()
    assert grown.capacity == 75


@KINDS
def test_half_precision_stays_what_it_is(kind: Any) -> None:
    cache, mask = cache_of(1, 5), torch.tensor([[0, 1, 1, 1, 1]])
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys.bfloat16(), layer.values.bfloat16()
    grown = kind(cache, mask, torch.tensor([0, 0]), 4, SCALING)
    grown.advance()
    new = torch.randn(2, HEADS, SIZE).bfloat16()
    assert grown.attend(0, torch.randn(2, HEADS, GROUPS, SIZE).bfloat16(), new, new).dtype is torch.bfloat16


def test_long_prompts_with_several_rows_are_shared_and_others_copied() -> None:
    def kind(length: int, index: list[int]) -> type:
        layers = [SimpleNamespace(keys=torch.zeros(2, 2, length, 64), values=torch.zeros(2, 2, length, 64))]
        mask = torch.ones(2, length, dtype=torch.long)
        return type(attention.caches(SimpleNamespace(layers=layers), mask, torch.tensor(index), 4, 1.0))

    assert kind(500, [0] * 4 + [1] * 4) is SharedCaches
    assert kind(20, [0] * 4 + [1] * 4) is RowCaches
    assert kind(500, [0, 1]) is RowCaches
