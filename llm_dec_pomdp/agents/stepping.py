# pyright: basic
"""One token after the other from a causal language model that has read its prompts.

`steps` gives what advances a batch by one token. `ModelSteps` asks the model, whatever it is. For models of the Llama
form `LayerSteps` computes the same from the model's own layers, for exactly one new token a row: keys and values lie in
a buffer that is written in place, rotations are looked up, and nothing is prepared twice. That saves most of the time
of a small model, and copies of the cache in any.

Whether a model is of that form is not taken on trust: `LayerSteps` is used when its logits are the model's own.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch.nn import functional as F

_GROWTH = 64  # new tokens for which room is made at once
_FORMS = ("llama", "qwen2", "mistral")
_agreeing: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


class Steps(Protocol):
    """Advances a batch of sequences."""

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these rows alone."""
        ...

    def step(self, tokens: torch.Tensor, adapters: Sequence[str | None]) -> torch.Tensor:
        """Append a token to every row [B]; returns the logits of the next [B, V]."""
        ...


def forward(model: Any, adapters: Sequence[str | None], *, body: bool = False, **inputs: Any) -> Any:
    """The model's output, every row through its own adapter; with `body` that of the layers below the output layer."""
    network = choose(model, adapters, inputs["input_ids"].device)
    return (network.base_model if body else network)(**inputs)


def choose(model: Any, adapters: Sequence[str | None], device: torch.device) -> Any:
    """The network to call after every row's adapter was set."""
    if adapters[0] is None:
        return model
    model.mixed_rows.choose(adapters, device)
    return model.get_base_model()


def steps(model: Any, cache: Any, mask: torch.Tensor, index: torch.Tensor) -> Steps:
    """What continues prompts that were read.

    Args:
        model: A causal language model of transformers, or a peft model.
        cache: Keys and values of P prompts.
        mask: Their attention mask [P, T], left-padded.
        index: Prompt of every row to continue [B].
    """
    return (LayerSteps if layerwise(model) else ModelSteps)(model, cache, mask, index)


class ModelSteps:
    """Asks the model for every step; see `steps` for the arguments."""

    def __init__(self, model: Any, cache: Any, mask: torch.Tensor, index: torch.Tensor) -> None:
        self.model = model
        self.cache = cache
        cache.batch_select_indices(index)
        self.mask = mask[index]

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these rows alone."""
        self.cache.batch_select_indices(rows)
        self.mask = self.mask[rows]

    def step(self, tokens: torch.Tensor, adapters: Sequence[str | None]) -> torch.Tensor:
        """Append a token to every row."""
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(self.mask), 1)], dim=1)
        return forward(
            self.model,
            adapters,
            input_ids=tokens[:, None],
            attention_mask=self.mask,
            position_ids=self.mask.sum(1, keepdim=True) - 1,
            past_key_values=self.cache,
        ).logits[:, -1]


class LayerSteps:
    """The layers of a model of the Llama form, one token a row; see `steps` for the arguments."""

    def __init__(self, model: Any, cache: Any, mask: torch.Tensor, index: torch.Tensor) -> None:
        self.model = model
        self.network = _network(model)
        self.body = self.network.base_model
        attention = self.body.layers[0].self_attn
        self.size, self.groups = attention.head_dim, attention.num_key_value_groups
        self.scaling = attention.scaling
        self.used = mask.shape[1]
        prompts = mask[index].bool()
        self.padded = not bool(prompts.all())
        self.mask = prompts[:, None, None]
        self.positions = prompts.sum(1)
        self.stored = [[layer.keys[index], layer.values[index]] for layer in cache.layers]
        self.turns = torch.empty(0)
        self._make_room()

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these rows alone."""
        self.stored = [[keys[rows], values[rows]] for keys, values in self.stored]
        self.mask, self.positions = self.mask[rows], self.positions[rows]

    def step(self, tokens: torch.Tensor, adapters: Sequence[str | None]) -> torch.Tensor:
        """Append a token to every row."""
        choose(self.model, adapters, tokens.device)
        if self.used == self.mask.shape[-1]:
            self._make_room()
        here, self.used = self.used, self.used + 1
        turn = self.turns.index_select(1, self.positions)[:, :, None]
        mask = self.mask[..., : self.used] if self.padded else None
        x = self.body.embed_tokens(tokens)
        for layer, stored in zip(self.body.layers, self.stored, strict=True):
            x = x + self._attend(layer.self_attn, _normed(layer.input_layernorm, x), stored, turn, mask, here)
            mlp, y = layer.mlp, _normed(layer.post_attention_layernorm, x)
            x = x + _linear(mlp.down_proj, F.silu(_linear(mlp.gate_proj, y)) * _linear(mlp.up_proj, y))
        self.positions = self.positions + 1
        return _linear(self.network.lm_head, _normed(self.body.norm, x))

    def _attend(
        self, attention: Any, x: torch.Tensor, stored: list[torch.Tensor], turn: torch.Tensor, mask: Any, here: int
    ) -> torch.Tensor:
        """Attention of the new tokens [B, H] to all before and themselves; their keys and values are stored."""
        keys, values = stored
        both = torch.cat([_linear(attention.q_proj, x), _linear(attention.k_proj, x)], dim=1)
        both = both.view(len(x), -1, self.size)
        both = torch.addcmul(both * turn[0], both.roll(self.size // 2, -1), turn[1])  # rotary position embedding
        heads = keys.shape[1]
        queries = both[:, : heads * self.groups].view(len(x), heads, self.groups, self.size)
        keys[:, :, here] = both[:, heads * self.groups :]
        values[:, :, here] = _linear(attention.v_proj, x).view(len(x), heads, self.size)
        found = F.scaled_dot_product_attention(
            queries, keys[:, :, : here + 1], values[:, :, : here + 1], mask, scale=self.scaling
        )
        return _linear(attention.o_proj, found.reshape(len(x), -1))

    def _make_room(self) -> None:
        """Longer buffers and rotations; every row may attend to what will be written there."""
        pad = (0, 0, 0, _GROWTH)
        self.stored = [[F.pad(keys, pad), F.pad(values, pad)] for keys, values in self.stored]
        self.mask = F.pad(self.mask, (0, _GROWTH), value=True)
        places = torch.arange(self.mask.shape[-1], device=self.mask.device)[None]
        cos, sin = self.body.rotary_emb(self.stored[0][0], places)
        half = self.size // 2
        self.turns = torch.stack([cos[0], torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=1)])


def layerwise(model: Any) -> bool:
    """Can `LayerSteps` advance this model? Tried once per model."""
    network = _network(model)
    if network not in _agreeing:
        _agreeing[network] = _of_llama_form(network) and _agrees(model, network)
    return _agreeing[network]


def _network(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "mixed_rows") else model


def _of_llama_form(network: Any) -> bool:
    config = network.config
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type")
    return (
        config.model_type in _FORMS
        and config.hidden_act == "silu"
        and rope in ("default", "linear", "llama3")  # others depend on the length
        and not getattr(config, "sliding_window", None)
    )


@torch.no_grad()
def _agrees(model: Any, network: Any) -> bool:
    """The logits of two steps after a padded prompt are those of the model."""
    weight = network.lm_head.weight
    adapters = [None if model is network else "no adapter"] * 3
    ids = torch.arange(8, device=weight.device).view(2, 4) % network.config.vocab_size
    mask = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]], device=weight.device)
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    index = torch.tensor([0, 1, 1], device=weight.device)
    caches = [forward(model, adapters[:2], use_cache=True, **inputs).past_key_values for _ in "12"]
    ways = ModelSteps(model, caches[0], mask, index), LayerSteps(model, caches[1], mask, index)
    tolerance = 1e-3 if weight.dtype in (torch.float32, torch.float64) else 5e-2
    for token in (1, 2):
        tokens = torch.full((3,), token, device=weight.device)
        wanted, found = (way.step(tokens, adapters).float() for way in ways)
        if not (wanted - found).abs().max() <= tolerance * wanted.abs().max():
            return False
    return True


def _normed(norm: Any, x: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, x.shape[-1:], norm.weight, norm.variance_epsilon)


def _linear(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """The layer's output [B, out]; that of a plain layer without the cost of a module call."""
    return F.linear(x, layer.weight, layer.bias) if type(layer) is torch.nn.Linear else layer(x[:, None])[:, 0]
