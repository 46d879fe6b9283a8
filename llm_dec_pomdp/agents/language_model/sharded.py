# pyright: basic
"""A language model spread over the ranks of a process group (FSDP2).

Each rank holds a part of the weights, of their gradient, and of what an optimizer keeps of them. All ranks are asked
the same at the same time; each computes the log-probabilities of its share of the texts, and all of them see those of
every text, so that whatever learns from them computes the same loss everywhere. Texts are drawn by a whole copy of the
model, which is given the weights after every change.
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

_WHOLE = StateDictOptions(full_state_dict=True, strict=False)  # what is frozen is not among the tensors


def sharded(build: Callable[[], Team]) -> Team:
    """A team of one policy, over all ranks.

    Args:
        build: Loads it in one piece. Called twice, for the model whose weights are spread and the one that draws texts.

    Raises:
        ValueError: It is no language model of transformers.
    """
    [whole] = build().policies
    if not isinstance(whole, LanguageModel):
        raise ValueError(f"{type(whole).__name__} cannot be spread over ranks, as language models can; leave ranks out")
    if whole.sampled_elsewhere:  # the first rank asks who draws, and what it gives are files
        whole.model.to("cpu" if dist.get_rank() == 0 else "meta")
    elif whole.compute_dtype is not None:
        whole.model.to(whole.compute_dtype)
    team = build()
    [policy] = team.policies
    assert isinstance(policy, LanguageModel)
    return Team(dict.fromkeys(team.members, ShardedModel(policy, whole)))


class ShardedModel(LanguageModel):
    """A language model of which every rank holds a part.

    Args:
        policy: Of whom this is the rest; its model is spread and its memory given up.
        whole: The same model in one piece, with the engine that draws the texts.

    Raises:
        ValueError: The model has no layers that could be spread.
    """

    # Logits come from the model as a whole, where alone its parts are gathered.
    _plain_head = False  # pyright: ignore[reportAssignmentType]

    def __init__(self, policy: LanguageModel, whole: LanguageModel) -> None:
        vars(self).update(vars(policy))
        self._elsewhere = whole.sampled_elsewhere
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        network = self.model if self.adapters is None else self.model.get_base_model()
        layers = getattr(network.base_model, "layers", None)
        if layers is None:
            raise ValueError(
                f"{type(network).__name__} has no `layers` that could be spread over ranks; leave ranks out"
            )
        # Gradients of the ranks are added up in float32, whatever the model computes in.
        precision = MixedPrecisionPolicy(param_dtype=self.compute_dtype, reduce_dtype=torch.float32)
        for part in (*layers, network):  # tied embeddings stay in the root; a pass without gradient leaves it sharded
            fully_shard(part, reshard_after_forward=True, mp_policy=precision)
        self._whole = whole if self.rank == 0 or not self._elsewhere else None
        self._given = -1  # version of the weights that the whole copy has
        self._loads = 0

    @property
    def sampled_elsewhere(self) -> bool:
        """See `LanguageModel`."""
        return self._elsewhere

    @property
    def version(self) -> int:
        """See `LanguageModel`."""
        return super().version + self._loads

    # --- acting -------------------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """See `LanguageModel`. The first rank returns all texts, the others none."""
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
        """See `LanguageModel`."""
        logprobs, mask = super().token_logprobs(self._share(samples), temperature)
        return self._of_all(logprobs, samples), self._of_all(mask, samples)

    def token_logprobs_and_entropies(
        self, samples: Sequence[tuple[str, Completion]], temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """See `LanguageModel`."""
        parts = super().token_logprobs_and_entropies(self._share(samples), temperature)
        logprobs, entropies, mask = (self._of_all(values, samples) for values in parts)
        return logprobs, entropies, mask

    def _share(self, samples: Sequence[tuple[str, Completion]]) -> list[tuple[str, Completion]]:
        """What this rank computes: of N samples N / ranks, rounded up, since all ranks have to take part alike."""
        here = list(samples[self.rank :: self.ranks])
        return here + [samples[0]] * (-(-len(samples) // self.ranks) - len(here))

    def _of_all(self, here: torch.Tensor, samples: Sequence[tuple[str, Completion]]) -> torch.Tensor:
        """The values of all samples [N, L] from those of every rank's share."""
        length = max(len(completion.token_ids) for _, completion in samples)
        padded = torch.nn.functional.pad(here, (0, length - here.shape[1]))
        return _Gathered.apply(padded, self.rank, self.ranks)[: len(samples)]  # type: ignore[index]

    def _from_shared_prompts(self, *arguments: Any, body: bool) -> torch.Tensor:
        return self._from_whole_texts(*arguments, body=body)  # the only way that goes through the root

    def __deepcopy__(self, memo: Any) -> ShardedModel:
        """The base below adapters that are new; raises ValueError for all else, of which there is no copy."""
        ups = [t for name, t in self.state_dict().items() if ".lora_B" in name]
        if self.adapters is None or any(bool(up.any()) for up in ups):
            raise ValueError(
                "beta is above 0, and no copy of weights over several ranks is kept as a reference, other than that "
                "of new adapters, which is their base; set beta to 0, begin with new adapters (sharing = 'lora'), or "
                "leave ranks out"
            )
        return _FrozenShards(self)

    # --- what is saved and loaded -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The trainable tensors by name, each in one piece. All ranks have to ask."""
        return {name: gathered(tensor) for name, tensor in super().state_dict().items()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """See `LanguageModel`; the tensors are whole, whatever number of ranks they were saved by."""
        check_shapes({name: p.shape for name, p in self.model.named_parameters() if p.requires_grad}, state)
        set_model_state_dict(self.model, dict(state), options=_WHOLE)
        self._loads += 1


def _texts_of_all(here: list[list[Completion]], ranks: int) -> list[list[list[Completion]]]:
    """What every rank has drawn; as JSON, since torch would unpickle what comes from another process."""
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
    """A sharded model with its adapters switched off: shares all memory, and has nothing to train or to save."""

    def __init__(self, adapted: ShardedModel) -> None:
        vars(self).update(vars(adapted))
        self.adapters = dict.fromkeys(adapted.adapters or (), BASE)

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """None."""
        return ()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Nothing."""


class _Gathered(torch.autograd.Function):
    """[n, L] of every rank -> [n x ranks, L], row i from rank i modulo ranks.

    Every rank computes the same loss of all rows, and FSDP2 takes the mean of the ranks' gradients, so that the
    gradient of a rank's own rows counts as many times as there are ranks.
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
    """A tensor in one piece, on the processor where it was in parts. All ranks have to ask."""
    return tensor.full_tensor().cpu() if isinstance(tensor, DTensor) else tensor


def spread(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A whole tensor in parts like those of another one, where that is in parts."""
    if not isinstance(like, DTensor):
        return tensor
    moved = tensor.to(like.device, like.dtype)
    return distribute_tensor(moved, like.device_mesh, like.placements, src_data_rank=None)
