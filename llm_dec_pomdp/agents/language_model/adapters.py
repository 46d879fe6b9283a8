# pyright: basic
"""LoRA adapters of several agents in one forward pass.

peft splits the batch by adapter in every layer. Here the adapters of a layer are joined into one pair of matrices, and
a mask keeps for each row only the low-rank part of its own adapter:

    y = W x + B (m * (A x)),   A = [A_1; ...; A_n],   B = [s_1 B_1, ..., s_n B_n],   m = 1 on the row's own block

Modules and parameters remain those of peft, so that peft can load saved adapters.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import Linear as LoraLinear
from peft.tuners.lora import LoraLayer
from torch.nn.functional import linear
from transformers.pytorch_utils import Conv1D

from .names import BASE, adapter_of, with_adapter

_EXPERTS = ("gate", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3")  # layers that peft treats as experts
_PROBE = 3, 5  # number of texts, and of tokens per text, in tests of layers
_SPREAD = 0.3  # standard deviation of random factors B in the test of adapters
_LARGEST_ERROR = 0.05  # of log-probabilities, as a share of the effect of the adapters
_BEYOND = ("use_dora", "lora_bias", "modules_to_save", "trainable_token_indices")  # options beyond plain LoRA


class Rows:
    """The adapter of each row of the current batch, shared by all layers of a model.

    Args:
        names: The adapters of policies.
        rank: The rank of each adapter.

    Attributes:
        names: The adapters of the current batch: those of policies, or those of critics.
        critics: Adapters of critics on the same model, see `add_critic_adapters`.
    """

    def __init__(self, names: Sequence[str], rank: int) -> None:
        self.policies, self.critics = list(names), list[str]()
        self.names = self.policies
        self.rank = rank
        self.mask: torch.Tensor | None = None
        self._chosen: tuple[Any, ...] = ()

    def choose(self, adapters: Sequence[str | None], device: torch.device) -> None:
        """Set the adapters of the next batch; a row with an unknown adapter uses the base model."""
        wanted = (*adapters, device)
        if wanted == self._chosen:
            return
        self._chosen = wanted
        self.names = self.policies if set(self.critics).isdisjoint(adapters) else self.critics
        with torch.inference_mode(False):  # the next batch may be trained on
            mask = torch.zeros(len(adapters), len(self.names))
            for row, name in enumerate(adapters):
                if name in self.names:
                    mask[row, self.names.index(name)] = 1
            self.mask = mask.repeat_interleave(self.rank, dim=1)[:, None].to(device) if mask.any() else None

    def mask_of(self, x: torch.Tensor) -> torch.Tensor:
        """Return the mask for inputs of a layer, [B, ..., in] or, where a model flattens batch and length, [B L, in].

        Raises:
            ValueError: The inputs do not have all tokens in the order of the batch.
        """
        assert self.mask is not None
        mask = self.mask[:, 0].to(x.dtype)
        times, rest = divmod(len(x), len(mask))
        if rest or not times:
            raise ValueError(
                f"a layer has inputs of shape {tuple(x.shape)} for a batch of {len(mask)}, so adapters cannot be mixed"
            )
        if times > 1:
            mask = mask.repeat_interleave(times, dim=0)
        return mask.view(len(x), *[1] * (x.dim() - 2), -1)


class _LowRank(torch.autograd.Function):
    """B (m * (A x)), without additional memory for the backward pass.

    Products are in the type of x: float32 adapters on a bfloat16 base are cast to bfloat16. Autograd would keep A, B
    and A x for each pass. Here A x is recomputed, which is cheap compared to W x.
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, mask: torch.Tensor, scales: Sequence[float], *factors: torch.Tensor
    ) -> torch.Tensor:
        """Return B (m * (A x)); `factors` are A_1, ..., A_n, B_1, ..., B_n."""
        ctx.save_for_backward(x, mask, *factors)
        ctx.scales = scales
        down, up = _stack_factors(factors, scales, x.dtype)
        return linear(linear(x, down) * mask, up)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, mask, *factors = ctx.saved_tensors
        down, up = _stack_factors(factors, ctx.scales, x.dtype)
        outputs = gradients[0].to(x.dtype)  # of another type under autocast
        low = linear(x, down) * mask
        by_low = (outputs @ up) * mask
        by_down = (by_low.flatten(0, -2).T @ x.flatten(0, -2)).chunk(len(ctx.scales))
        by_up = (outputs.flatten(0, -2).T @ low.flatten(0, -2)).chunk(len(ctx.scales), dim=1)
        scaled = [part * scale for part, scale in zip(by_up, ctx.scales, strict=True)]
        by_factor = (part.to(factor.dtype) for part, factor in zip((*by_down, *scaled), factors, strict=True))
        return by_low @ down, None, None, *by_factor


def _stack_factors(
    factors: Sequence[torch.Tensor], scales: Sequence[float], dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return A and B of the equation in the module."""
    downs, ups = factors[: len(scales)], factors[len(scales) :]
    up = torch.cat([up * scale for up, scale in zip(ups, scales, strict=True)], dim=1)
    return torch.cat(list(downs)).to(dtype), up.to(dtype)


class MixedLinear(LoraLinear):
    """A linear layer of peft whose adapters are applied by the mask of `rows`."""

    rows: Rows

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Map [B, ..., in] or flattened [B L, in] to [B, ..., out] or [B L, out], each row with its own adapter."""
        result = self.base_layer(x)
        rows = self.rows
        if rows.mask is None:
            return result
        factors: list[Any] = [layer[name].weight for layer in (self.lora_A, self.lora_B) for name in rows.names]
        scales = [self.scaling[name] for name in rows.names]
        low: Any = _LowRank.apply(x, rows.mask_of(x), scales, *factors)
        return result + low.to(result.dtype)

    @staticmethod
    def stacked(
        base: Callable[[torch.Tensor], torch.Tensor], layers: Sequence[MixedLinear]
    ) -> Callable[..., torch.Tensor]:
        """Return a function from states [B, in] to the concatenated outputs [B, out] of layers, without gradient.

        The current adapters are joined once: one product of all layers into the low rank, and one out of it.

        Args:
            base: A function that returns the concatenated outputs without adapters.
            layers: Layers with the same input and the same `rows`.
        """
        rows = layers[0].rows
        pairs = []
        for layer in layers:
            factors: list[Any] = [part[name].weight for part in (layer.lora_A, layer.lora_B) for name in rows.policies]
            scales = [layer.scaling[name] for name in rows.policies]
            base_weight: Any = layer.base_layer.weight
            pairs.append(_stack_factors(factors, scales, base_weight.dtype))
        down, up = torch.cat([down for down, _ in pairs]), torch.block_diag(*(up for _, up in pairs))

        def function(x: torch.Tensor) -> torch.Tensor:
            result = base(x)
            if rows.mask is None:
                return result
            mask = rows.mask_of(x).repeat(1, len(layers))
            return result + linear(linear(x, down) * mask, up).to(result.dtype)

        return function


def new_adapters(network: Any, names: Sequence[str], rank: int, seed: int) -> Any:
    """Return the network with new trainable LoRA adapters, each of which starts as the base model.

    Adapters are on all linear layers that process every token of a batch in order. The routers and experts of a mixture
    of experts have no adapters.

    Args:
        network: A causal language model of transformers.
        names: Names of the adapters, see `names.adapter_name`.
        rank: The rank of each adapter.
        seed: The seed of their initial weights.
    """
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft asks transformers for an attribute under its old name
        targets = _mixable_layers(network)
        torch.manual_seed(seed)
        config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, bias="none")
        adapted: Any = get_peft_model(network, config, adapter_name=names[0])
        if getattr(config, "target_parameters", None):
            targets = [name for name in targets if name.rpartition(".")[2] not in _EXPERTS]
            torch.manual_seed(seed)
            config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, bias="none")
            adapted = get_peft_model(adapted.unload(), config, adapter_name=names[0])
        for name in names[1:]:
            adapted.add_adapter(name, config)
    for name, parameter in adapted.named_parameters():
        parameter.requires_grad_("lora_" in name)
    return adapted


@torch.no_grad()
def _mixable_layers(network: Any) -> list[str]:
    """Return the names of linear layers on which adapters can be mixed, found by a test batch; not the output layer."""
    texts, tokens = _PROBE
    head = network.get_output_embeddings()
    layers = {n: m for n, m in network.named_modules() if isinstance(m, (torch.nn.Linear, Conv1D)) and m is not head}
    unlike = set[str]()

    def note(name: str, inputs: Any, output: Any) -> None:
        if not isinstance(output, torch.Tensor) or inputs[0].shape[:-1].numel() != texts * tokens:
            unlike.add(name)

    hooks = [
        layer.register_forward_hook(lambda _, inputs, output, name=name: note(name, inputs, output))
        for name, layer in layers.items()
    ]
    try:
        if network.device.type != "meta":
            network(input_ids=_probe_ids(network), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return [name for name in layers if name not in unlike]


def _probe_ids(network: Any) -> torch.Tensor:
    """Return token ids [B, L] of different short texts."""
    texts, tokens = _PROBE
    rows = network.get_input_embeddings().weight.shape[0]
    return (torch.arange(texts * tokens, device=network.device) % rows).view(texts, tokens)


def mix_adapters(model: Any) -> Rows:
    """Let one forward pass mix all linear adapters of a peft model; return the `Rows` that choose among them.

    Raises:
        ValueError: The adapters have different ranks or are not linear LoRA, or a test batch does not use the adapter
            of each row.
    """
    layers: list[Any] = [module for module in model.modules() if isinstance(module, LoraLayer)]
    unlike = [
        type(layer).__name__
        for layer in layers
        if not isinstance(layer, LoraLinear) and not isinstance(layer.get_base_layer(), torch.nn.Linear)  # quantized
    ]
    if unlike:
        raise ValueError(
            f"adapters on {unlike[0]} layers cannot be mixed in a batch of this {model.config.model_type!r} model; put "
            "LoRA on linear layers only, or train all weights (sharing = 'separate' or 'shared')"
        )
    _refuse_more_than_lora(model, layers)
    mixed_before = next((layer.rows for layer in layers if isinstance(layer, MixedLinear)), None)
    if mixed_before is not None:
        return mixed_before
    ranks = {rank for layer in layers for rank in layer.r.values()}
    if len(ranks) != 1:
        raise ValueError(f"the adapters have ranks {sorted(ranks)}; give all the same rank to mix them in a batch")
    rows = Rows(list(layers[0].lora_A), ranks.pop())
    for layer in layers:
        layer.__class__ = MixedLinear  # the parameters and their names stay as they are
        layer.rows = rows
    _refuse_unmixed(model, rows)
    return rows


@torch.no_grad()
def _refuse_unmixed(model: Any, rows: Rows) -> None:
    """Raise ValueError if texts in a batch have other log-probabilities than each text on its own.

    During the test the adapters have random weights, since new adapters have no effect.
    """
    network = model.get_base_model()
    if network.device.type == "meta":
        return
    ids = _probe_ids(network)
    names = [rows.names[0], rows.names[-1], BASE]

    def read(texts: slice, adapters: Sequence[str]) -> torch.Tensor:
        rows.choose(adapters, ids.device)
        return network(input_ids=ids[texts], use_cache=False).logits.float().log_softmax(-1)

    factors = {name: parameter for name, parameter in model.named_parameters() if ".lora_B." in name}
    kept = [parameter.clone() for parameter in factors.values()]
    draw = torch.Generator().manual_seed(0)
    try:
        for parameter in factors.values():
            parameter.copy_(_SPREAD * torch.randn(parameter.shape, generator=draw))
        single = torch.cat([read(slice(row, row + 1), [name]) for row, name in enumerate(names)])
        effect = (single - read(slice(None), [BASE] * len(names))).abs().mean()
        error = (single - read(slice(None), names)).abs().mean()
    except Exception as failure:  # layers of some model families raise exceptions of many kinds
        raise _unmixable(network, f"{type(failure).__name__}: {failure}") from failure
    finally:
        for parameter, before in zip(factors.values(), kept, strict=True):
            parameter.copy_(before)
    if not error <= _LARGEST_ERROR * effect:
        raise _unmixable(network, f"log-probabilities differ by {error:.2g} nats from those of one text at a time")


def _unmixable(network: Any, reason: str) -> ValueError:
    return ValueError(
        f"the adapters of several agents cannot be mixed in a batch of this {network.config.model_type!r} model "
        f"({reason}); train all weights (sharing = 'separate' or 'shared'), or use a model of another family"
    )


def add_critic_adapters(model: Any, adapters: Iterable[str]) -> dict[str, str]:
    """Add an adapter for a critic next to each of these adapters; return the new names.

    It starts with the current weights of the policy's adapter. Policies do not use, train or save it. If the adapter of
    a critic exists already, it is reused.
    """
    rows: Rows = model.mixed_rows
    names = {adapter: _critic_name(adapter, rows.policies) for adapter in adapters}
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft asks transformers for an attribute under its old name
        torch.manual_seed(0)
        for adapter, critic in names.items():
            if critic not in rows.critics:
                model.add_adapter(critic, copy.deepcopy(model.peft_config[adapter]))
                rows.critics.append(critic)
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in parameters.items():
            if (adapter := adapter_of(name)) in names:
                whole: Any = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter  # a DTensor
                parameters[with_adapter(name, names[adapter])].copy_(whole)
    for name, parameter in parameters.items():  # peft makes only its active adapter trainable
        parameter.requires_grad_(name in trained or adapter_of(name) in rows.critics)
    return names


def _critic_name(adapter: str, policies: Sequence[str]) -> str:
    """Return a name for the adapter of a critic that no adapter of a policy has."""
    name = f"{adapter}_critic"
    while name in policies:
        name += "_"
    return name


def _refuse_more_than_lora(model: Any, layers: Sequence[Any]) -> None:
    """Raise ValueError if an adapter is more than plain LoRA."""
    unsupported = {
        (name, f"{option}={value!r}")
        for name, config in model.peft_config.items()
        for option in _BEYOND
        if (value := getattr(config, option, None))
    }
    unsupported |= {(name, type(variant).__name__) for layer in layers for name, variant in layer.lora_variant.items()}
    for name, reason in sorted(unsupported, key=lambda pair: "=" not in pair[1]):
        raise ValueError(
            f"adapter {name!r} has {reason}, but adapters mixed in a batch must be plain LoRA; train it without this"
        )
