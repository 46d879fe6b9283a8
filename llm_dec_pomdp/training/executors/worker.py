# pyright: basic
"""What a worker does: it owns one policy and the updaters that move its weights.

An executor makes a `PolicyWorker` where the policy is to live, and calls its methods from afar, in another process by
way of an `AnsweringWorker`. Arguments and results can be pickled; tensors leave it on the processor.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ...agents.base import (
    AdaptedPolicy,
    ParameterGroup,
    Request,
    Sampling,
    TeachablePolicy,
    Team,
    TrainablePolicy,
    WeightFile,
)
from ...agents.weights import weight_files
from ...algorithms.base import Metrics
from ...algorithms.samples import Sample
from ...algorithms.updater import Updater
from ...storage.files import pack, unpack
from ...types import Completion
from ..loop import TrainingError

BUILD = "build"  # the first thing that an `AnsweringWorker` is asked
Group = tuple[tuple[str, ...], list[int], float]  # a `ParameterGroup` whose parameters are places among all


@dataclass(frozen=True, slots=True)
class About:
    """What can be told of a policy without its weights.

    Attributes:
        parameters: Shape and type of the trainable ones; none when the policy cannot be trained.
        used_by: By agent, the places of those that it uses.
        processor_load: See `LanguageModel`; 0 where a policy does not say.
        accelerator: See `LanguageModel`; None where a policy does not say.
        sampled_elsewhere: See `LanguageModel`; False where a policy does not say.
    """

    parameters: list[tuple[torch.Size, torch.dtype]]
    used_by: Mapping[str, list[int]]
    processor_load: int
    accelerator: str | None
    sampled_elsewhere: bool


class PolicyWorker:
    """Owns a policy, and whatever moves its weights.

    Args:
        agents: Who plays with it.
        build: Makes a team of these agents, all of them played by one policy.

    Raises:
        ValueError: The team has other agents, or several policies.
    """

    def __init__(self, agents: Sequence[str], build: Callable[[], Team]) -> None:
        team = build()
        if set(team.members) != set(agents) or len(team.policies) != 1:
            raise ValueError(
                f"a worker has one policy for all of {list(agents)}, and it was given a team of {len(team.policies)} "
                f"for {list(team.members)}; place every policy on its own"
            )
        self.agents = list(agents)
        self.policy: Any = team.policies[0]
        self.updaters: list[Updater] = []

    def about(self) -> About:
        """What its driver has to know."""
        parameters = self._parameters()
        places = {id(parameter): place for place, parameter in enumerate(parameters)}
        adapted = parameters and isinstance(self.policy, AdaptedPolicy)
        used = {a: list(self.policy.parameters_of(a)) if adapted else parameters for a in self.agents}
        return About(
            [(parameter.shape, parameter.dtype) for parameter in parameters],
            {agent: [places[id(parameter)] for parameter in own] for agent, own in used.items()},
            getattr(self.policy, "processor_load", 0),
            getattr(self.policy, "accelerator", None),
            getattr(self.policy, "sampled_elsewhere", False),
        )

    def _parameters(self) -> list[torch.nn.Parameter]:
        return list(self.policy.parameters()) if isinstance(self.policy, TrainablePolicy) else []

    # --- acting -------------------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """See `Policy`."""
        return self.policy.generate(requests, sampling)

    def written(self, request: Request, text: str, limit: int) -> Completion:
        """See `TeachablePolicy`; without tokens, of which nothing is learnt, where the policy is none."""
        teachable = isinstance(self.policy, TeachablePolicy)
        return self.policy.written(request, text, limit) if teachable else Completion(text)

    # --- learning -----------------------------------------------------------------------------------------------------

    def add_updater(self, kind: type[Updater], groups: Sequence[Group], temperature: float, options: Any) -> int:
        """Build an updater beside the policy; returns its number."""
        own = self._parameters()
        given = [ParameterGroup(agents, [own[place] for place in places], rate) for agents, places, rate in groups]
        self.updaters.append(kind(self.policy, given, temperature, options))
        return len(self.updaters) - 1

    def improve(self, updater: int, samples: Sequence[Sample], seed: int) -> tuple[Metrics, dict[int, list[float]]]:
        """Step with an updater; returns its metrics, and log pi_old of every text by its place among the samples."""
        return self.updaters[updater].step(samples, seed), self.updaters[updater].logprobs

    def ask(self, updater: int, what: str, things: Sequence[Any]) -> Any:
        """What an updater of a kind of its own says of things: `PairUpdater.log_ratios`, `CriticUpdater.values`."""
        return getattr(self.updaters[updater], what)(things)

    def expect(self, updater: int, updates: int) -> None:
        """See `Updater.expect`."""
        self.updaters[updater].expect(updates)

    # --- what is saved and loaded -------------------------------------------------------------------------------------

    def weights(self) -> dict[str, torch.Tensor]:
        """The trainable tensors by name."""
        return _on_the_processor(self.policy.state_dict())

    def load_weights(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restore them."""
        self.policy.load_state_dict(state)

    def weight_files(self, agents: Sequence[str]) -> dict[str, WeightFile]:
        """How they are kept, see `agents.weights`."""
        return weight_files(self.policy, agents)

    def state(self, updater: int) -> dict[str, Any]:
        """That of an updater."""
        return _on_the_processor(self.updaters[updater].state_dict())

    def load_state(self, updater: int, state: Mapping[str, Any]) -> None:
        """Restore it."""
        own = self.updaters[updater]
        own.load_state_dict(state)
        moments: Mapping[torch.Tensor, dict[str, Any]] = own.optimizer.state
        for parameter, kept in moments.items():
            kept.update({k: _like(v, parameter) for k, v in kept.items()})


def _like(value: Any, parameter: torch.Tensor) -> Any:
    """What an optimizer keeps of a parameter, in parts where that is in parts."""
    if not hasattr(parameter, "full_tensor") or not isinstance(value, torch.Tensor) or value.shape != parameter.shape:
        return value
    from ...agents.transformers.sharded import spread

    return spread(value, parameter)


def _on_the_processor(state: dict[str, Any]) -> dict[str, Any]:
    """Nested values with copies of their tensors, none of which is part of a larger one."""
    tensors: dict[str, torch.Tensor] = {}
    packed = pack(state, tensors)
    return unpack(packed, {name: _whole(tensor.detach()).cpu().clone() for name, tensor in tensors.items()})


def _whole(tensor: Any) -> torch.Tensor:
    """In one piece; that of a model over several ranks lies in parts."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


# --- in another process -----------------------------------------------------------------------------------------------


class WorkerTraceback(Exception):  # noqa: N818  # a text that stands below an error, none itself
    """Where in its worker an error came from."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Answer(NamedTuple):
    """What a call came to: a value, or an error and where it came from."""

    value: Any = None
    error: Exception | None = None
    trace: str = ""

    @classmethod
    def of(cls, error: Exception) -> Answer:
        """That of an error that is being handled; one that cannot be sent is told by its message."""
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return cls(None, TrainingError(f"{type(error).__name__}: {error}"), traceback.format_exc())
        return cls(None, error, traceback.format_exc())

    def get(self) -> Any:
        """The value; raises the error."""
        if self.error is not None:
            raise self.error from WorkerTraceback(self.trace)
        return self.value


def _built(agents: Sequence[str], build: Callable[[], Team], ranks: int = 1) -> Any:
    """A `PolicyWorker`, or what passes on to several."""
    if ranks == 1:
        return PolicyWorker(agents, build)
    from .ranks import Ranks

    return Ranks(agents, build, ranks)


class AnsweringWorker:
    """A `PolicyWorker` behind one method, which raises nothing."""

    _worker: Any

    def answer(self, method: str, given: Sequence[Any], threads: int) -> Answer:
        """Build the worker (`BUILD`, with its arguments), or call a method of it, with so many threads to compute."""
        try:
            torch.set_num_threads(threads)
            if method == BUILD:
                self._worker = _built(*given)
                return Answer()
            return Answer(getattr(self._worker, method)(*given))
        except Exception as error:
            return Answer.of(error)
