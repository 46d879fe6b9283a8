# pyright: basic
"""Driver side of policies that live in workers.

A `RemotePolicy` and its `RemoteUpdater` forward calls to their worker. So a team of them acts, is trained, saved and
restored like any other team.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from ...agents.base import ParameterGroup, Policy, Reading, Request, Sampling, WeightFile
from ...algorithms.base import Metrics
from ...algorithms.samples import Sample
from ...config import ConfigError
from ...types import Completion
from .base import Worker
from .policy import PolicyInfo


class RemotePolicy(Policy):
    """Proxy of a policy in a worker, for these agents; `again` starts another worker with the same policy."""

    def __init__(self, agents: Sequence[str], worker: Worker, again: Callable[[], Worker]) -> None:
        self.agents, self.worker, self._again = list(agents), worker, again

    @functools.cached_property
    def _about(self) -> PolicyInfo:
        return self.worker.call("about")

    @property
    def processor_load(self) -> int:
        """The load of the policy in its worker, so that it gets the same share of the cores as here."""
        return self._about.processor_load

    @property
    def accelerator(self) -> str | None:
        """The accelerator of its worker, which no other policy uses."""
        accelerator = self._about.accelerator
        return accelerator and f"{accelerator} of {self.worker.name}"

    @property
    def sampled_elsewhere(self) -> bool:
        """Whether another engine samples its completions."""
        return self._about.sampled_elsewhere

    @property
    def default_learning_rate(self) -> float:
        """See `Policy`."""
        return self._about.default_learning_rate

    # --- acting -------------------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """See `Policy`."""
        return self.worker.call("generate", list(requests), sampling)

    def to_completion(self, request: Request, text: str, limit: int, thought: str = "") -> Completion:
        """See `Policy`."""
        return self.worker.call("to_completion", request, text, limit, thought)

    def rollout_copy(self) -> Policy:
        """See `Policy`: a copy in another worker, to which its weights are sent.

        Raises:
            ConfigError: An engine samples its completions.
        """
        if not self._about.parameters:
            return self
        if self.sampled_elsewhere:
            raise ConfigError(
                f"training.staleness is above 0, but {self.worker.name} has an engine; set the executor to local, with "
                "which the engine samples during updates too"
            )
        twin = RemotePolicy(self.agents, self._again(), self._again)
        twin.source = self
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> RemotePolicy:
        """Return a copy in another worker, with the current weights."""
        twin = RemotePolicy(self.agents, self._again(), self._again)
        twin.load_state_dict(self.state_dict())
        return twin

    # --- learning -----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _stand_ins(self) -> list[torch.nn.Parameter]:
        return [
            torch.nn.Parameter(torch.empty(shape, dtype=dtype, device="meta"))
            for shape, dtype in self._about.parameters
        ]

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """Return placeholders for the trainable parameters, with their shapes and without values."""
        return list(self._stand_ins)

    def parameters_of(self, agent: str) -> Iterable[torch.nn.Parameter]:
        """Return the placeholders of the parameters that an agent uses."""
        return [self._stand_ins[place] for place in self._about.used_by[agent]]

    def token_logprobs(self, samples: Sequence[tuple[str, Completion]], temperature: float) -> Any:
        """Raise ValueError, since gradients do not leave their worker."""
        raise ValueError(
            f"the gradient of {', '.join(self.agents)} stays in the worker of its weights; use an updater "
            "(algorithms.updater.updaters_of), or train with the executor 'local'"
        )

    def updater(self, kind: Any, groups: Sequence[ParameterGroup], temperature: float, options: Any) -> RemoteUpdater:
        """See `Policy`."""
        places = {id(stand_in): place for place, stand_in in enumerate(self._stand_ins)}
        sent = [(g.agents, [places[id(p)] for p in g.parameters], g.learning_rate) for g in groups]
        return RemoteUpdater(self, self.worker.call("add_updater", kind, sent, temperature, options), groups)

    # --- saving and loading -------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the trainable tensors by name."""
        return self.worker.call("weights")

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Load the trainable tensors by name."""
        self.worker.call("load_weights", dict(state))

    def weight_files(self, agents: Sequence[str]) -> dict[str, WeightFile]:
        """See `Policy`."""
        return self.worker.call("weight_files", list(agents))


class RemoteUpdater:
    """Proxy of an `Updater` in the worker of its policy; `Updater` documents the methods.

    The parameters of its groups are placeholders.
    """

    def __init__(self, policy: RemotePolicy, number: int, groups: Sequence[ParameterGroup]) -> None:
        self.policy, self.number, self.groups = policy, number, groups
        self.agents = {agent for group in groups for agent in group.agents}
        self.logprobs: dict[int, list[float]] = {}

    def reset_optimizer(self) -> None:
        """See `Updater.reset_optimizer`."""
        self._ask("reset_optimizer")

    def expect(self, updates: int, *, stale: bool = False) -> None:
        """See `Updater.expect`."""
        self._ask("expect", updates, stale)

    def scale_learning_rate(self, factor: float) -> None:
        """See `Updater.scale_learning_rate`."""
        self._ask("scale_learning_rate", factor)

    def learning_rates(self) -> dict[str, float]:
        """See `Updater.learning_rates`."""
        return self._ask("learning_rates")

    def step(self, samples: Sequence[Sample], seed: int = 0) -> Metrics:
        """See `Updater.step`; only samples of its agents are sent."""
        places, mine = self._share(samples)
        metrics, logprobs = self.policy.worker.call("step", self.number, mine, seed)
        self.logprobs = {places[place]: values for place, values in logprobs.items()}
        return metrics

    def log_ratios(self, samples: Sequence[Sample]) -> dict[int, float]:
        """See `PairUpdater`."""
        places, mine = self._share(samples)
        return {places[place]: ratio for place, ratio in self._ask("log_ratios", mine).items()}

    def encode(self, asked: Sequence[tuple[Request, int]]) -> list[tuple[int, ...]]:
        """See `CriticUpdater`."""
        return self._ask("encode", asked)

    def observe(self, returns: Sequence[float]) -> None:
        """See `CriticUpdater`."""
        self._ask("observe", list(returns))

    def values(self, readings: Sequence[Reading]) -> list[float]:
        """See `CriticUpdater`."""
        return self._ask("values", readings)

    def token_values(self, spans: Sequence[tuple[Reading, int]]) -> list[list[float]]:
        """See `CriticUpdater`."""
        return self._ask("token_values", spans)

    def _ask(self, method: str, *arguments: Any) -> Any:
        return self.policy.worker.call("ask", self.number, method, *arguments)

    def _share(self, samples: Sequence[Sample]) -> tuple[list[int], list[Sample]]:
        places = [place for place, sample in enumerate(samples) if sample.agent in self.agents]
        return places, [samples[place] for place in places]

    def state_dict(self) -> dict[str, Any]:
        """See `Updater`."""
        return self.policy.worker.call("state", self.number)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Updater`."""
        self.policy.worker.call("load_state", self.number, dict(state))
