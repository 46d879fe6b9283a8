# pyright: basic
"""A language model that is sharded over the ranks of a process group (FSDP2).

Each rank has a part of the weights, their gradient and the optimizer state. All ranks are called with the same
arguments at the same time. Each computes the log-probabilities of its share of the samples, and all ranks receive the
log-probabilities of all samples, so that every rank computes the same loss. Completions are sampled with a whole copy
of the model, which receives the weights after every change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from ...types import Completion
from ..base import Request, Sampling, Team
from ..io.save import check_shapes
from .policy import BASE, LanguageModel

_WHOLE = StateDictOptions(full_state_dict=True, strict=False)  # not strict, since frozen tensors are missing


def sharded(build: Callable[[], Team]) -> Team:
    """Return a team of one policy, sharded over all ranks.

    Args:
        build: A function that loads the team in one piece. It is called twice: for the sharded model, and for the copy
            that samples.

    Raises:
        ValueError: The policy is not a `LanguageModel`.
    """
    [whole] = build().policies
    if not isinstance(whole, LanguageModel):
        kind = type(whole).__name__
        raise ValueError(f"a {kind} cannot be sharded over ranks; use a language model, or leave ranks out")
    if whole.sampled_elsewhere:  # only the first rank calls the engine, and passes it files
        whole.model.to("cpu" if dist.get_rank() == 0 else "meta")
    elif whole.compute_dtype is not None:
        whole.model.to(whole.compute_dtype)
    team = build()
    [policy] = team.policies
    assert isinstance(policy, LanguageModel)
    return Team(dict.fromkeys(team.members, ShardedModel(policy, whole)))


class ShardedModel(LanguageModel):
    """A language model of which every rank has a part.

    Args:
        policy: The policy whose attributes this one takes over; its model is sharded.
        whole: The same model in one piece, with the engine that samples.

    Raises:
        ValueError: The model has no layers that can be sharded.
    """

    # Logits must come from the whole model, since only its forward pass gathers the shards of the output layer.
    _plain_head = False  # pyright: ignore[reportAssignmentType]

    def __init__(self, policy: LanguageModel, whole: LanguageModel) -> None:
        vars(self).update(vars(policy))
        self._elsewhere = whole.sampled_elsewhere
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        network = self.model if self.adapters is None else self.model.get_base_model()
        layers = getattr(network.base_model, "layers", None)
        if layers is None:
            raise ValueError(
                f"{type(network).__name__} has no `layers` that can be sharded over ranks; leave ranks out"
            )
        # Gradients of the ranks are summed in float32 for every compute type.
        precision = MixedPrecisionPolicy(param_dtype=self.compute_dtype, reduce_dtype=torch.float32)
        for part in (*layers, network):  # the root keeps tied embeddings
            fully_shard(part, reshard_after_forward=True, mp_policy=precision)
        self._whole = whole if self.rank == 0 or not self._elsewhere else None
        self._given = -1  # version of the weights that the whole copy has
        self._loads = 0

    @property
    def sampled_elsewhere(self) -> bool:
        """Return whether another engine samples."""
        return self._elsewhere

    @property
    def version(self) -> int:
        """Return the version of the trainable weights; see `LanguageModel`."""
        return super().version + self._loads

    # --- acting -------------------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Sample completions; see `LanguageModel`. The first rank returns all of them, other ranks return []."""
        if self._given != (version := self.version):
            state = self.state_dict()
            if self._whole is not None:
                self._whole.load_state_dict(state)
            self._given = version
        if self._elsewhere:
            return self._whole.generate(requests, sampling) if self._whole else []
        assert self._whole is not None
        here = self._whole.generate(requests[self.rank :: self.ranks], sampling)
        parts = _texts_of_all(here, self.ranks)
        if self.rank:
            return []
        return [parts[number % self.ranks][number // self.ranks] for number in range(len(requests))]

    # --- learning -----------------------------------------------------------------------------------------------------

    def token_logprobs(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities and mask of all samples, on every rank; see `LanguageModel`."""
        logprobs, mask = super().token_logprobs(self._share(samples), temperature)
        return self._of_all(logprobs, samples), self._of_all(mask, samples)

    def token_logprobs_and_entropies(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return log-probabilities, entropies and mask of all samples, on every rank; see `LanguageModel`."""
        parts = super().token_logprobs_and_entropies(self._share(samples), temperature)
        logprobs, entropies, mask = (self._of_all(values, samples) for values in parts)
        return logprobs, entropies, mask

    def _share(self, samples: Sequence[tuple[str, Completion]]) -> list[tuple[str, Completion]]:
        """Return this rank's samples: N / ranks, rounded up and padded, since all ranks need the same number."""
        here = list(samples[self.rank :: self.ranks])
        return here + [samples[0]] * (-(-len(samples) // self.ranks) - len(here))

    def _of_all(self, here: torch.Tensor, samples: Sequence[tuple[str, Completion]]) -> torch.Tensor:
        """Return the values of all samples [N, L] from the values of each rank's share."""
        length = max(len(completion.token_ids) for _, completion in samples)
        padded = torch.nn.functional.pad(here, (0, length - here.shape[1]))
        return _Gathered.apply(padded, self.rank, self.ranks)[: len(samples)]  # type: ignore[index]

    def _from_shared_prompts(self, *arguments: Any, body: bool) -> torch.Tensor:
        return self._from_whole_texts(*arguments, body=body)  # since the forward pass must go through the root module

    def __deepcopy__(self, memo: Any) -> ShardedModel:
        """Return the base below new adapters as a reference policy.

        Raises:
            ValueError: The adapters are not new, or there are none: sharded weights are never copied.
        """
        ups = [t for name, t in self.state_dict().items() if ".lora_B" in name]
        if self.adapters is None or any(bool(up.any()) for up in ups):
            raise ValueError(
                "beta is above 0, but a sharded model has a reference policy only if it starts with new adapters, "
                "whose base is the reference; set beta to 0, start with new adapters (sharing = 'lora'), or leave "
                "ranks out"
            )
        return _FrozenShards(self)

    # --- saving and loading -------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the trainable tensors by name, each in one piece; all ranks must call this."""
        return {name: gathered(tensor) for name, tensor in super().state_dict().items()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Load whole tensors, which any number of ranks may have saved; see `LanguageModel`."""
        check_shapes({name: p.shape for name, p in self.model.named_parameters() if p.requires_grad}, state)
        set_model_state_dict(self.model, dict(state), options=_WHOLE)
        self._loads += 1


def _texts_of_all(here: list[list[Completion]], ranks: int) -> list[list[list[Completion]]]:
    """Return the completions of every rank, exchanged as JSON, since torch would unpickle data of other processes."""
    data = torch.tensor(list(json.dumps([[asdict(text) for text in texts] for texts in here]).encode("ascii")))
    lengths = [torch.zeros(1, dtype=torch.long) for _ in range(ranks)]
    dist.all_gather(lengths, torch.tensor([len(data)]))
    padded = torch.nn.functional.pad(data.byte(), (0, int(max(lengths)) - len(data)))
    parts = [torch.empty_like(padded) for _ in range(ranks)]
    dist.all_gather(parts, padded)
    drawn = [json.loads(bytes(part[: int(length)].tolist())) for part, length in zip(parts, lengths, strict=True)]
    return [[[_completion(text) for text in texts] for texts in part] for part in drawn]


def _completion(fields: dict[str, Any]) -> Completion:
    fixed: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    return Completion(**fixed)


class _FrozenShards(ShardedModel):
    """A sharded model with its adapters switched off. It shares all memory and has no trainable tensors."""

    def __init__(self, adapted: ShardedModel) -> None:
        vars(self).update(vars(adapted))
        self.adapters = dict.fromkeys(adapted.adapters or (), BASE)

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """Return ()."""
        return ()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return {}."""
        return {}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Do nothing."""


class _Gathered(torch.autograd.Function):
    """Gathering of [n, L] of every rank into [n x ranks, L], with row i from rank i modulo ranks.

    Every rank computes the same loss of all rows, and FSDP2 averages the ranks' gradients. So the gradient of a rank's
    own rows is multiplied by the number of ranks.
    """

    @staticmethod
    def forward(ctx: Any, here: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
        ctx.rank, ctx.ranks = rank, ranks
        parts = [torch.empty_like(here) for _ in range(ranks)]
        dist.all_gather(parts, here.contiguous())
        return torch.stack(parts, dim=1).flatten(0, 1)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient[ctx.rank :: ctx.ranks] * ctx.ranks, None, None


# --- tensors in parts -------------------------------------------------------------------------------------------------


def gathered(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in one piece; a sharded one on the CPU. All ranks must call this."""
    return tensor.full_tensor().cpu() if isinstance(tensor, DTensor) else tensor


def spread(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return a whole tensor sharded like another tensor, if that is sharded."""
    if not isinstance(like, DTensor):
        return tensor
    moved = tensor.to(like.device, like.dtype)
    return distribute_tensor(moved, like.device_mesh, like.placements, src_data_rank=None)
