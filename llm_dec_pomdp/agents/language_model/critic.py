# pyright: basic
"""A critic on a language model: a scalar head on the last hidden state.

    V(x) = w . h(x) + b,   h(x): the last hidden state of the last token of x

w and b start at 0. The network that computes h is the policy's, which the critic's loss then also trains, or the
critic's own: a copy of the model at that time, or of the adapter of each policy.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from ..base import Reading
from ..io.save import check_shapes
from .decoding import left_padded
from .names import adapter_of
from .recomputing import recomputed
from .stepping import forward

if TYPE_CHECKING:
    from .base import ModelPolicy


class HeadCritic:
    """A critic with one head per group of agents, on the policy's network or (`separate`) on its own; see `Critic`."""

    def __init__(self, policy: ModelPolicy, groups: Sequence[Sequence[str]], *, separate: bool) -> None:
        self._policy, self._model = policy, policy.model
        self._adapters: Mapping[str, str | None] = dict.fromkeys((a for agents in groups for a in agents), None)
        self._rows = {agent: row for row, agents in enumerate(groups) for agent in agents}
        self._body: dict[str, torch.nn.Parameter] = {}
        if policy.adapters is not None:
            self._adapters = {agent: policy.adapters[agent] for agent in self._rows}
        if separate and policy.adapters is not None:
            self._add_adapters()
        elif separate:
            head = policy.model.get_output_embeddings()
            self._model = copy.deepcopy(policy.model, {id(head): head})  # the output layer is not used
            self._body = {name: p.requires_grad_() for name, p in self._model.base_model.named_parameters()}
        width = policy.model.get_input_embeddings().weight.shape[1]
        self.weight = torch.nn.Parameter(torch.zeros(len(groups), width, device=policy.device))
        self.bias = torch.nn.Parameter(torch.zeros(len(groups), device=policy.device))

    def _add_adapters(self) -> None:
        from .adapters import add_critic_adapters  # loads peft

        names = add_critic_adapters(self._model, dict.fromkeys(filter(None, self._adapters.values())))
        self._adapters = {agent: names[adapter] for agent, adapter in self._adapters.items() if adapter}
        named = self._model.named_parameters()
        self._body = {name: p for name, p in named if adapter_of(name) in self._adapters.values()}

    def values(self, readings: Sequence[Reading]) -> torch.Tensor:
        """Return the values [N] of readings; see `Critic`."""
        return self.token_values(readings, 1)[:, 0]

    def token_values(self, readings: Sequence[Reading], count: int) -> torch.Tensor:
        """Return the values [N, count] of prefixes, with one causal forward pass; see `TokenCritic`."""
        policy = self._policy
        ids, mask = left_padded([ids_read for _, ids_read in readings], policy.device, policy.pad_id)
        keep = policy.gradient_checkpointing and torch.is_grad_enabled()
        with policy.precision(), recomputed(self._model) if keep else contextlib.nullcontext():
            states = forward(
                self._model,
                [self._adapters[agent] for agent, _ in readings],
                body=True,
                input_ids=ids,
                attention_mask=mask,
                position_ids=(mask.cumsum(1) - 1).clamp(min=0),
                use_cache=False,
            ).last_hidden_state[:, -count:]
        rows = [self._rows[agent] for agent, _ in readings]
        return (states.float() * self.weight[rows][:, None]).sum(-1) + self.bias[rows][:, None]

    def rescale(self, factor: float, shift: float) -> None:
        """Rescale all heads; see `Critic`."""
        with torch.no_grad():
            self.weight.mul_(factor)
            self.bias.mul_(factor).add_(shift)

    # --- its own parameters -------------------------------------------------------------------------------------------

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """Return the parameters of the heads, and of its own network if it has one."""
        return [self.weight, self.bias, *self._body.values()]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the parameters by name."""
        return {name: p.detach() for name, p in self._named().items()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore the parameters.

        Raises:
            ValueError: The tensors belong to another critic.
        """
        tensors = self._named()
        check_shapes({name: p.shape for name, p in tensors.items()}, state, "critic")
        with torch.no_grad():
            for name, parameter in tensors.items():
                parameter.copy_(state[name])

    def _named(self) -> dict[str, torch.nn.Parameter]:
        return {"head.weight": self.weight, "head.bias": self.bias, **self._body}
