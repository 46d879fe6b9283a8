# pyright: basic
"""Worker side of a policy: the policy, and the updaters that train it.

Arguments and results of its methods can be pickled. Tensors are returned on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...agents.base import ParameterGroup, Request, Sampling, Team, WeightFile
from ...algorithms.base import Metrics
from ...algorithms.samples import Sample
from ...algorithms.updater import Updater
from ...storage.files import pack, unpack
from ...types import Completion

Group = tuple[tuple[str, ...], list[int], float]  # a `ParameterGroup` with indices of parameters


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """Properties of a policy that the driver needs; see `Policy`.

    Attributes:
        parameters: Shape and type of the trainable parameters; empty if the policy cannot be trained.
        used_by: For each agent, the indices of the parameters that it uses.
        processor_load, accelerator, sampled_elsewhere, default_learning_rate: See `Policy`.
    """

    parameters: list[tuple[torch.Size, torch.dtype]]
    used_by: Mapping[str, list[int]]
    processor_load: int
    accelerator: str | None
    sampled_elsewhere: bool
    default_learning_rate: float


class PolicyWorker:
    """Owner of a policy and its updaters.

    Args:
        agents: The agents of the policy.
        build: Makes a team of these agents with one policy.

    Raises:
        ValueError: The team has other agents, or several policies.
    """

    def __init__(self, agents: Sequence[str], build: Callable[[], Team]) -> None:
        team = build()
        if set(team.members) != set(agents) or len(team.policies) != 1:
            raise ValueError(
                f"a worker has one policy for all of {list(agents)}, but it was given a team of {len(team.policies)} "
                f"for {list(team.members)}; place every policy in its own worker"
            )
        self.agents = list(agents)
        self.policy = team.policies[0]
        self.updaters: list[Updater] = []

    def about(self) -> PolicyInfo:
        """Return the properties of the policy that the driver needs."""
        parameters = self._parameters()
        places = {id(parameter): place for place, parameter in enumerate(parameters)}
        used = {a: list(self.policy.parameters_of(a)) if parameters else [] for a in self.agents}
        return PolicyInfo(
            [(parameter.shape, parameter.dtype) for parameter in parameters],
            {agent: [places[id(parameter)] for parameter in theirs] for agent, theirs in used.items()},
            self.policy.processor_load,
            self.policy.accelerator,
            self.policy.sampled_elsewhere,
            self.policy.default_learning_rate,
        )

    def _parameters(self) -> list[torch.nn.Parameter]:
        return list(self.policy.parameters())

    # --- acting -------------------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """See `Policy`."""
        return self.policy.generate(requests, sampling)

    def to_completion(self, request: Request, text: str, limit: int, thought: str = "") -> Completion:
        """See `Policy`."""
        return self.policy.to_completion(request, text, limit, thought)

    # --- learning -----------------------------------------------------------------------------------------------------

    def add_updater(self, kind: type[Updater], groups: Sequence[Group], temperature: float, options: Any) -> int:
        """Build an updater of the policy; return its number."""
        parameters = self._parameters()
        grouped = [ParameterGroup(agents, [parameters[place] for place in places], r) for agents, places, r in groups]
        self.updaters.append(kind(self.policy, grouped, temperature, options))
        return len(self.updaters) - 1

    def step(self, updater: int, samples: Sequence[Sample], seed: int) -> tuple[Metrics, dict[int, list[float]]]:
        """Run a step of an updater; return its metrics, and log pi_old of every completion by index of the sample."""
        return self.updaters[updater].step(samples, seed), self.updaters[updater].logprobs

    def ask(self, updater: int, method: str, *arguments: Any) -> Any:
        """Call a method of an updater, such as `expect` or, in a subclass, `PairUpdater.log_ratios`."""
        return getattr(self.updaters[updater], method)(*arguments)

    # --- saving and loading -------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, torch.Tensor]:
        """Return the trainable tensors by name."""
        return _on_the_processor(self.policy.state_dict())

    def load_weights(self, state: Mapping[str, torch.Tensor]) -> None:
        """Load the trainable tensors by name."""
        self.policy.load_state_dict(state)

    def weight_files(self, agents: Sequence[str]) -> dict[str, WeightFile]:
        """See `agents.io.save`."""
        return self.policy.weight_files(agents)

    def state(self, updater: int) -> dict[str, Any]:
        """Return the state of an updater."""
        return _on_the_processor(self.updaters[updater].state_dict())

    def load_state(self, updater: int, state: Mapping[str, Any]) -> None:
        """Restore the state of an updater."""
        restored = self.updaters[updater]
        restored.load_state_dict(state)
        moments: Mapping[torch.Tensor, dict[str, Any]] = restored.optimizer.state
        for parameter, kept in moments.items():
            kept.update({k: _like(v, parameter) for k, v in kept.items()})


def _like(value: Any, parameter: torch.Tensor) -> Any:
    """Return a value of the optimizer's state, sharded in the same way as its parameter."""
    if not hasattr(parameter, "full_tensor") or not isinstance(value, torch.Tensor) or value.shape != parameter.shape:
        return value
    from ...agents.language_model.sharded import spread

    return spread(value, parameter)


def _on_the_processor(state: dict[str, Any]) -> dict[str, Any]:
    """Return nested values with their tensors copied to the CPU: unsharded, and no views of larger tensors."""
    tensors: dict[str, Any] = {}
    packed = pack(state, tensors)
    copies = {name: tensor.detach() for name, tensor in tensors.items()}
    copies = {name: t.full_tensor() if hasattr(t, "full_tensor") else t for name, t in copies.items()}
    return unpack(packed, {name: tensor.cpu().clone() for name, tensor in copies.items()})


def policy_worker(agents: Sequence[str], build: Callable[[], Team], ranks: int) -> Any:
    """Return a `PolicyWorker`, over several ranks if `ranks` is above 1."""
    if ranks == 1:
        return PolicyWorker(agents, build)
    from .ranks import Ranks

    return Ranks(agents, build, ranks)
