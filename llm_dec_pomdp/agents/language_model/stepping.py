# pyright: basic
"""Decoding of sequences token by token, after the prefill of their prompts.

* `ModelSteps` calls any model.
* `LayerSteps` is for Llama-like models. It computes the same from the model's own layers, for exactly one new token per
  row: keys and values are written in place (`attention`), and rotations are looked up. This saves most of the time of a
  small model, and copies of the cache for all models. It is used only if a test shows that its logits are the same.
* `Replayed` records a step of `LayerSteps` as a CUDA graph and replays it, since launching single operations from the
  CPU takes longer than their computation on a GPU.
"""

from __future__ import annotations

import copy
import functools
import inspect
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch.nn import functional

from .attention import caches
from .layers import Layer, linear, norm

_WORTH_RECORDING = 16  # smallest number of steps for which recording a graph is faster
_FORMS = ("llama", "qwen2", "qwen3", "mistral")
_layerwise: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()  # answers of `layerwise` by network


class TokenSteps(Protocol):
    """A decoder of a batch of sequences.

    Attributes:
        worth_keeping: Finished rows are dropped when at most this share of rows is still running.
    """

    worth_keeping: float

    def keep(self, rows: torch.Tensor) -> None:
        """Continue with only these rows."""
        ...

    def step(self, tokens: torch.Tensor, adapters: Sequence[str | None]) -> torch.Tensor:
        """Append a token to every row [B]; return the logits of the next token [B, V]."""
        ...


def forward(model: Any, adapters: Sequence[str | None], *, body: bool = False, cache: Any = None, **inputs: Any) -> Any:
    """Return the model's output, each row with its own adapter; with `body`, without the output layer."""
    network = choose(model, adapters, inputs["input_ids"].device)
    network = network.base_model if body else network
    if cache is not None:
        inputs[_cache_name(type(network))] = cache
    return network(**inputs)


@functools.cache
def _cache_name(kind: type) -> str:
    """Return the name of a model's argument for the cache: "cache" from transformers 5.24 on."""
    return "cache" if "cache" in inspect.signature(kind.forward).parameters else "past_key_values"


def cache_of(output: Any) -> Any:
    """Return the cache of keys and values in a model's output; None if there is none."""
    return output.get("cache", output.get("past_key_values"))


def choose(model: Any, adapters: Sequence[str | None], device: torch.device) -> Any:
    """Set the adapter of every row; return the network to call."""
    if adapters[0] is None:
        return model
    model.mixed_rows.choose(adapters, device)
    return model.get_base_model()


def token_steps(model: Any, cache: Any, mask: torch.Tensor, index: torch.Tensor, most: int) -> TokenSteps:
    """Return the fastest decoder for prompts after their prefill.

    Args:
        model: A causal language model of transformers, or a peft model.
        cache: Keys and values of P prompts.
        mask: Their attention mask [P, T], left-padded.
        index: The prompt of every row [B].
        most: Maximum number of tokens that will be appended to a row.
    """
    if layerwise(model):
        if mask.is_cuda and most >= _WORTH_RECORDING:
            return Replayed(LayerSteps(model, cache, mask, index, most, fixed=True))
        return LayerSteps(model, cache, mask, index, most)
    return ModelSteps(model, cache, mask, index)


class ModelSteps:
    """A decoder that calls the model for every step; see `token_steps` for the arguments."""

    worth_keeping = 0.75

    def __init__(self, model: Any, cache: Any, mask: torch.Tensor, index: torch.Tensor) -> None:
        self.model = model
        self.cache = cache
        cache.batch_select_indices(index)
        self.mask = mask[index]

    def keep(self, rows: torch.Tensor) -> None:
        """Continue with only these rows."""
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
            cache=self.cache,
        ).logits[:, -1]


class LayerSteps:
    """A decoder with the layers of a Llama-like model; see `token_steps` and `caches` for the arguments."""

    worth_keeping = 0.75

    def __init__(
        self, model: Any, cache: Any, mask: torch.Tensor, index: torch.Tensor, most: int, *, fixed: bool = False
    ) -> None:
        self.model = model
        network = _network(model)
        self.body = network.base_model
        self.layers = [Layer(layer) for layer in self.body.layers]
        self.norm = norm(self.body.norm)
        self.head = linear(network.lm_head)
        attention = self.body.layers[0].self_attn
        self.size = attention.head_dim
        self.heads: int = cache.layers[0].keys.shape[1]
        self.positions = mask.sum(1)[index]
        self.caches = caches(cache, mask, index, most, attention.scaling, fixed=fixed)
        self.rotations = mask.new_empty(2, 0)

    def keep(self, rows: torch.Tensor) -> None:
        """Continue with only these rows."""
        self.caches.keep(rows)
        self.positions = self.positions[rows]

    def step(self, tokens: torch.Tensor, adapters: Sequence[str | None]) -> torch.Tensor:
        """Append a token to every row."""
        choose(self.model, adapters, tokens.device)
        x = self.body.embed_tokens(tokens)
        self.caches.advance()
        if self.rotations.shape[1] < self.caches.capacity:
            self._compute_rotations(x)
        rotation = self.rotations.index_select(1, self.positions)[:, :, None].unbind()
        for number, layer in enumerate(self.layers):
            x = x + self._attend(number, layer, layer.norm(x), rotation)
            gate, up = layer.gate_and_up(layer.second_norm(x)).chunk(2, dim=-1)
            x = x + layer.down(functional.silu(gate) * up)
        self.positions += 1
        return self.head(self.norm(x))

    def _attend(self, number: int, layer: Layer, x: torch.Tensor, rotation: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the attention of the new tokens to all earlier tokens and themselves."""
        rows = len(x)
        qkv = layer.qkv(x).view(rows, -1, self.size)
        qk, values = qkv[:, : -self.heads], qkv[:, -self.heads :]
        qk = layer.qk_norm(qk) if layer.qk_norm else qk
        qk = torch.addcmul(qk * rotation[0], qk.roll(self.size // 2, -1), rotation[1])  # rotary position embedding
        queries, keys = qk[:, : -self.heads].view(rows, self.heads, -1, self.size), qk[:, -self.heads :]
        return layer.o(self.caches.attend(number, queries, keys, values).reshape(rows, -1))

    def _compute_rotations(self, x: torch.Tensor) -> None:
        """Compute cosines and sines of the rotary embedding for all positions, [2, positions, size]."""
        cos, sin = self.body.rotary_emb(x, torch.arange(self.caches.capacity, device=x.device)[None])
        half = self.size // 2
        self.rotations = torch.stack([cos[0], torch.cat([-sin[0, :, :half], sin[0, :, half:]], dim=1)])


class Replayed:
    """A decoder that records a CUDA graph after the first step of each set of rows, and replays it.

    Args:
        steps: A decoder with fixed caches, so that all its steps run the same operations.
    """

    worth_keeping = 0.25  # low, since another set of rows needs a new recording

    def __init__(self, steps: LayerSteps) -> None:
        self.steps = steps
        self._forget()

    def _forget(self) -> None:
        self.tokens: torch.Tensor | None = None
        self.graph: Any = None

    def keep(self, rows: torch.Tensor) -> None:
        """Continue with only these rows."""
        self.steps.keep(rows)
        self._forget()

    def step(self, tokens: torch.Tensor, adapters: Sequence[str | None]) -> torch.Tensor:
        """Append a token to every row; the logits are overwritten by the next step."""
        if self.tokens is None:
            self.tokens = tokens.clone()
            return self.steps.step(self.tokens, adapters)  # a warm-up, since a recording must not load anything
        self.tokens.copy_(tokens)
        if self.graph is None:
            self.graph = self._recorded(self.tokens, adapters)
        self.graph.replay()
        return self.logits

    def _recorded(self, tokens: torch.Tensor, adapters: Sequence[str | None]) -> Any:
        """Return the recorded operations of a step, without running them."""
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        rows = getattr(self.steps.model, "mixed_rows", None)
        self.mask = rows and rows.mask  # kept alive, since the recorded operations read it
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                self.logits = self.steps.step(tokens, adapters)
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)
        return graph


def layerwise(model: Any) -> bool:
    """Return whether `LayerSteps` supports this model; tested once per model."""
    network = _network(model)
    if network not in _layerwise:
        with torch.autocast(next(network.parameters()).device.type, enabled=False):  # in the precision of its weights
            _layerwise[network] = _of_llama_form(network) and _same_logits(model, network)
    return _layerwise[network]


def _network(model: Any) -> Any:
    return model.get_base_model() if hasattr(model, "mixed_rows") else model


def _of_llama_form(network: Any) -> bool:
    config = network.config
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type")
    return (
        config.model_type in _FORMS
        and config.hidden_act == "silu"
        and rope in ("default", "linear", "llama3")  # other kinds depend on the length
        and not getattr(config, "sliding_window", None)
    )


@torch.no_grad()
def _same_logits(model: Any, network: Any) -> bool:
    """Return whether the logits of two steps after a padded prompt equal the model's."""
    weight = network.lm_head.weight
    adapters = [None if model is network else "no adapter"] * 3
    ids = torch.arange(8, device=weight.device).view(2, 4) % network.config.vocab_size
    mask = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]], device=weight.device)
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    index = torch.tensor([0, 1, 1], device=weight.device)
    cache = cache_of(forward(model, adapters[:2], use_cache=True, **inputs))
    by_layers = LayerSteps(model, copy.deepcopy(cache), mask, index, 2)
    by_model = ModelSteps(model, cache, mask, index)
    tolerance = 1e-3 if weight.dtype in (torch.float32, torch.float64) else 5e-2
    for token in (1, 2):
        tokens = torch.full((3,), token, device=weight.device)
        expected, logits = (steps.step(tokens, adapters).float() for steps in (by_model, by_layers))
        if not (expected - logits).abs().max() <= tolerance * expected.abs().max():
            return False
    return True
