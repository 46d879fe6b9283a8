# pyright: basic
"""One token after the other from a causal language model that has read its prompts.

`steps` gives what advances a batch by one token. `ModelSteps` asks the model, whatever it is. For models of the Llama
form `LayerSteps` computes the same from the model's own layers, for exactly one new token a row: keys and values are
written in place (`attention`), rotations are looked up, and nothing is prepared twice. That saves most of the time of a
small model, and copies of the cache in any.

Whether a model is of that form is not taken on trust: `LayerSteps` is used when its logits are the model's own.

Small models of the same shape (`shape`) can be advanced together: what costs is how many operations there are, not how
large they are, and several threads that start small operations mostly wait for each other.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import torch
from torch.nn import functional

from .attention import caches
from .layers import Layer, linear, norm, plain, projections

_SMALL = 1 << 20  # weights of a model to be stacked, at most: larger ones do better with a core each
_FORMS = ("llama", "qwen2", "mistral")
_agreeing: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


class Steps(Protocol):
    """Advances a batch of sequences."""

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these rows alone, as many of each model."""
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


def steps(models: Sequence[Any], cache: Any, mask: torch.Tensor, index: torch.Tensor, most: int) -> Steps:
    """What continues prompts that were read.

    Args:
        models: A causal language model of transformers, or a peft model; or several models of the same `shape`.
        cache: Keys and values of P prompts, those of the first model first.
        mask: Their attention mask [P, T], left-padded.
        index: Prompt of every row to continue [B]; every model has as many rows.
        most: Tokens that will be appended to a row at most.
    """
    if all(map(layerwise, models)):
        return LayerSteps(models, cache, mask, index, most)
    (model,) = models
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


class LayerSteps:
    """The layers of M models of the Llama form, one token a row; see `steps` for the arguments.

    States are [B, hidden] for one model and [M, B / M, hidden] for several.
    """

    def __init__(self, models: Sequence[Any], cache: Any, mask: torch.Tensor, index: torch.Tensor, most: int) -> None:
        self.model = models[0]
        networks = [_network(model) for model in models]
        self.bodies = [network.base_model for network in networks]
        self.layers = [Layer(same) for same in zip(*(body.layers for body in self.bodies), strict=True)]
        self.norm = norm([body.norm for body in self.bodies])
        self.head = linear([network.lm_head for network in networks])
        attention = self.bodies[0].layers[0].self_attn
        self.size = attention.head_dim
        self.heads: int = cache.layers[0].keys.shape[1]
        self.positions = mask.sum(1)[index]
        self.caches = caches(cache, mask, index, most, attention.scaling)
        self.turns = mask.new_empty(2, 0)

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with these rows alone, as many of each model."""
        self.caches.keep(rows)
        self.positions = self.positions[rows]

    def step(self, tokens: torch.Tensor, adapters: Sequence[str | None]) -> torch.Tensor:
        """Append a token to every row."""
        choose(self.model, adapters, tokens.device)
        x = self._embed(tokens)
        self.caches.advance()
        if self.turns.shape[1] < self.caches.capacity:
            self._look_up_turns(x)
        turn = self.turns.index_select(1, self.positions)[:, :, None].unbind()
        for number, layer in enumerate(self.layers):
            x = x + self._attend(number, layer, layer.norm(x), turn)
            gate, up = layer.gate_and_up(layer.second_norm(x)).chunk(2, dim=-1)
            x = x + layer.down(functional.silu(gate) * up)
        self.positions = self.positions + 1
        return self.head(self.norm(x)).flatten(0, -2)

    def _embed(self, tokens: torch.Tensor) -> torch.Tensor:
        if len(self.bodies) == 1:
            return self.bodies[0].embed_tokens(tokens)
        parts = tokens.view(len(self.bodies), -1)
        return torch.stack([body.embed_tokens(part) for body, part in zip(self.bodies, parts, strict=True)])

    def _attend(self, number: int, layer: Layer, x: torch.Tensor, turn: Sequence[torch.Tensor]) -> torch.Tensor:
        """Attention of the new tokens to all before and themselves."""
        rows = len(self.positions)
        found = layer.qkv(x).view(rows, -1, self.size)
        both, values = found[:, : -self.heads], found[:, -self.heads :]
        both = torch.addcmul(both * turn[0], both.roll(self.size // 2, -1), turn[1])  # rotary position embedding
        queries, keys = both[:, : -self.heads].view(rows, self.heads, -1, self.size), both[:, -self.heads :]
        return layer.o(self.caches.attend(number, queries, keys, values).reshape(*x.shape[:-1], -1))

    def _look_up_turns(self, x: torch.Tensor) -> None:
        """Cosines and sines of the rotations [2, places, size] of all places that there is room for."""
        cos, sin = self.bodies[0].rotary_emb(x, torch.arange(self.caches.capacity, device=x.device)[None])
        half = self.size // 2
        self.turns = torch.stack([cos[0], torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=1)])


def layerwise(model: Any) -> bool:
    """Can `LayerSteps` advance this model? Tried once per model."""
    network = _network(model)
    if network not in _agreeing:
        with torch.autocast(next(network.parameters()).device.type, enabled=False):  # as exactly as its weights are
            _agreeing[network] = _of_llama_form(network) and _agrees(model, network)
    return _agreeing[network]


def shape(model: Any) -> Hashable | None:
    """What models have in common that can be advanced together; None for one that is advanced alone.

    They are small, on a processor, of the Llama form, without adapters, and differ in nothing but their numbers.
    """
    named = [(name, p.shape, p.dtype, p.device.type) for name, p in model.named_parameters()]
    small = sum(size.numel() for _, size, _, _ in named) <= _SMALL and {device for *_, device in named} == {"cpu"}
    if not small or hasattr(model, "mixed_rows") or not layerwise(model):
        return None
    if not plain(model.lm_head, *(module for layer in model.base_model.layers for module in projections(layer))):
        return None
    config = {name: str(value) for name, value in model.config.to_dict().items() if not name.startswith("_")}
    return frozenset(config.items()), tuple(named)


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
    ways = ModelSteps(model, caches[0], mask, index), LayerSteps([model], caches[1], mask, index, 2)
    tolerance = 1e-3 if weight.dtype in (torch.float32, torch.float64) else 5e-2
    for token in (1, 2):
        tokens = torch.full((3,), token, device=weight.device)
        wanted, found = (way.step(tokens, adapters).float() for way in ways)
        if not (wanted - found).abs().max() <= tolerance * wanted.abs().max():
            return False
    return True
