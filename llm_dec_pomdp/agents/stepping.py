# pyright: basic
"""One token after the other from a causal language model that has read its prompts.

`steps` gives what advances a batch by one token. `ModelSteps` asks the model, whatever it is. For models of the Llama
form `LayerSteps` computes the same from the model's own layers, for exactly one new token a row: keys and values lie in
a buffer that is written in place, rotations are looked up, and nothing is prepared twice. That saves most of the time
of a small model, and copies of the cache in any.

Whether a model is of that form is not taken on trust: `LayerSteps` is used when its logits are the model's own.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch.nn import functional

_GROWTH = 64  # new tokens for which room is made at once
_FORMS = ("llama", "qwen2", "mistral")
Function = Callable[[torch.Tensor], torch.Tensor]
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


def steps(model: Any, cache: Any, mask: torch.Tensor, index: torch.Tensor, most: int) -> Steps:
    """What continues prompts that were read.

    Args:
        model: A causal language model of transformers, or a peft model.
        cache: Keys and values of P prompts.
        mask: Their attention mask [P, T], left-padded.
        index: Prompt of every row to continue [B].
        most: Tokens that will be appended to a row at most.
    """
    if layerwise(model):
        return LayerSteps(model, cache, mask, index, most)
    return ModelSteps(model, cache, mask, index)


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


class _Layer:
    """What a layer computes, without the cost of module calls; [B, in] -> [B, out]."""

    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.norm, self.second_norm = _norm(layer.input_layernorm), _norm(layer.post_attention_layernorm)
        self.q, self.k, self.v, self.o = map(
            _linear, (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
        )
        self.gate, self.up, self.down = map(_linear, (mlp.gate_proj, mlp.up_proj, mlp.down_proj))


def _norm(norm: Any) -> Function:
    return functools.partial(
        torch.rms_norm, normalized_shape=norm.weight.shape, weight=norm.weight, eps=norm.variance_epsilon
    )


def _linear(layer: Any) -> Function:
    if type(layer) is torch.nn.Linear:
        return functools.partial(functional.linear, weight=layer.weight, bias=layer.bias)
    return lambda x: layer(x[:, None])[:, 0]


class LayerSteps:
    """The layers of a model of the Llama form, one token a row; see `steps` for the arguments."""

    def __init__(self, model: Any, cache: Any, mask: torch.Tensor, index: torch.Tensor, most: int) -> None:
        self.model = model
        self.network = _network(model)
        self.body = self.network.base_model
        self.layers = [_Layer(layer) for layer in self.body.layers]
        self.norm, self.head = _norm(self.body.norm), _linear(self.network.lm_head)
        attention = self.body.layers[0].self_attn
        self.size, self.groups = attention.head_dim, attention.num_key_value_groups
        self.scaling = attention.scaling
        self.used = mask.shape[1]
        prompts = mask[index].bool()
        self.padded = not bool(prompts.all())
        self.mask = prompts[:, None, None]
        self.positions = prompts.sum(1)
        self.left = most
        self.stored: list[list[torch.Tensor]] = []
        room = self._make_room()
        while cache.layers:  # a copy at a time, and what was copied goes
            layer = cache.layers.pop(0)
            self.stored.append([_roomy(part, index, room) for part in (layer.keys, layer.values)])
        self._look_up_turns()

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these rows alone."""
        self.stored = [[keys[rows], values[rows]] for keys, values in self.stored]
        self.mask, self.positions = self.mask[rows], self.positions[rows]

    def step(self, tokens: torch.Tensor, adapters: Sequence[str | None]) -> torch.Tensor:
        """Append a token to every row."""
        choose(self.model, adapters, tokens.device)
        if self.used == self.mask.shape[-1]:
            room = self._make_room()
            self.stored = [[_roomy(part, slice(None), room) for part in layer] for layer in self.stored]
            self._look_up_turns()
        here, self.used = self.used, self.used + 1
        turn = self.turns.index_select(1, self.positions)[:, :, None]
        mask = self.mask[..., : self.used] if self.padded else None
        x = self.body.embed_tokens(tokens)
        for layer, stored in zip(self.layers, self.stored, strict=True):
            x = x + self._attend(layer, layer.norm(x), stored, turn, mask, here)
            y = layer.second_norm(x)
            x = x + layer.down(functional.silu(layer.gate(y)) * layer.up(y))
        self.positions = self.positions + 1
        return self.head(self.norm(x))

    def _attend(
        self, layer: _Layer, x: torch.Tensor, stored: list[torch.Tensor], turn: torch.Tensor, mask: Any, here: int
    ) -> torch.Tensor:
        """Attention of the new tokens [B, H] to all before and themselves; their keys and values are stored."""
        keys, values = stored
        rows, heads = len(x), keys.shape[1]
        both = torch.cat([layer.q(x), layer.k(x)], dim=1).view(rows, -1, self.size)
        both = torch.addcmul(both * turn[0], both.roll(self.size // 2, -1), turn[1])  # rotary position embedding
        queries = both[:, : heads * self.groups].view(rows, heads, self.groups, self.size)
        keys[:, :, here] = both[:, heads * self.groups :]
        values[:, :, here] = layer.v(x).view(rows, heads, self.size)
        found = functional.scaled_dot_product_attention(
            queries, keys[:, :, : here + 1], values[:, :, : here + 1], mask, scale=self.scaling
        )
        return layer.o(found.reshape(rows, -1))

    def _make_room(self) -> int:
        """Let every row attend to what will be written next; returns how many tokens that is."""
        room = min(_GROWTH, self.left)
        self.left -= room
        self.mask = functional.pad(self.mask, (0, room), value=True)
        return room

    def _look_up_turns(self) -> None:
        places = torch.arange(self.mask.shape[-1], device=self.mask.device)[None]
        cos, sin = self.body.rotary_emb(self.stored[0][0], places)
        half = self.size // 2
        self.turns = torch.stack([cos[0], torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=1)])


def _roomy(stored: torch.Tensor, index: torch.Tensor | slice, room: int) -> torch.Tensor:
    """Rows of keys or values [B, heads, T, D] with room for further tokens."""
    rows = stored[index]
    return functional.pad(rows, (0, 0, 0, room))


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
    ways = ModelSteps(model, caches[0], mask, index), LayerSteps(model, caches[1], mask, index, 2)
    tolerance = 1e-3 if weight.dtype in (torch.float32, torch.float64) else 5e-2
    for token in (1, 2):
        tokens = torch.full((3,), token, device=weight.device)
        wanted, found = (way.step(tokens, adapters).float() for way in ways)
        if not (wanted - found).abs().max() <= tolerance * wanted.abs().max():
            return False
    return True
