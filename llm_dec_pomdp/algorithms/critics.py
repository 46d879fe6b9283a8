# pyright: basic
"""An updater that trains a policy and its critic in the same optimizer steps.

Returns may have any scale, which differs between tasks. So the critic predicts a normalised value u. With the running
mean m and the standard deviation s of the returns so far:

    V(x) = m + s u(x)                                                                                             (unit)

When these change to m' and s', the critic's last layer is rescaled, so that its values stay the same (PopArt,
arXiv:1602.07714): u' = (s u + m - m') / s'. For prefixes x with targets y, and z = (y - m) / s, the loss is minus the
policy's objective J, plus the critic's:

    L = -J + c mean of max((u(x) - z)^2, (u_old(x) + clip(u(x) - u_old(x), -eps, eps) - z)^2)                   (critic)

where u_old is the critic's output at its first forward pass over x in a step. Then the critic is trained alone for
further epochs, because advantages are of little use before the critic is accurate. The loss of a critic on the policy's
body trains that body too. A critic with its own body shares only the optimizer. Equal prefixes share a forward pass,
and so do all prefixes within a completion with critic_level="token".
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch.nn import functional

from ..agents.base import Critic, ParameterGroup, Policy, Reading, Request, TokenCritic
from ..config import NotNegative, Positive
from ..seeding import derive
from ..types import grouped
from .advantages import Array
from .base import Metrics
from .batches import in_minibatches
from .losses import value_loss
from .options import TurnOptions
from .samples import Sample
from .updater import Updater

MEMORY = 20  # updates
_EQUAL = 1e-9


class CriticOptions(TurnOptions):
    """Options of learners with a critic, and all of `TurnOptions`."""

    estimates: Literal["v", "q"] = "v"
    """Value that the critic estimates: of a history (v), or of a history and the completion after it (q)."""
    critic_level: Literal["turn", "token"] = "turn"
    """Level of the values: turn (a completion is one action), or token (each of its tokens is one), see
    `algorithms.actor_critic`."""
    body: Literal["own", "shared"] = "own"
    """Model whose hidden state the value head reads: own (a copy of the policy's model, or of its adapter on the same
    base), or shared (the policy's model, which the critic's loss then trains too). The critic of `maac` uses the model
    of the first policy."""
    value_coef: NotNegative = 0.6
    """Weight of the critic's loss; the policy's loss has weight 1."""
    value_clip: NotNegative = 0.2
    """Clip range of the change of a value in an update, in units of the returns' standard deviation; the loss is flat
    beyond it. It matters only with several `epochs` or `minibatches`."""
    critic_learning_rate: NotNegative | None = None
    """Learning rate of the value head, and of the critic's own body; by default the policy's."""
    critic_epochs: Positive = 4
    """Epochs of the critic in an update: `epochs` together with the policy, the remaining ones without it."""
    gae_lambda: Annotated[float, Field(ge=0, le=1)] = 0.95
    """Lambda of generalized advantage estimation, over turns or tokens (`critic_level`): 1 is unbiased for any critic
    of histories, smaller values rely more on the critic."""
    normalise: bool = True
    """Scale the advantages of an agent to mean 0 and standard deviation 1 over an update. Equal ones become 0, and a
    single one is not changed."""

    @model_validator(mode="after")
    def _check_texts_as_one_action(self) -> CriticOptions:
        given = {"estimates": (self.estimates, "v"), "ratio": (self.objective.ratio, "token")}
        for name, (value, needed) in given.items():
            if self.critic_level == "token" and value != needed:
                raise ValueError(
                    f"critic_level='token' has an advantage for each token, but {name}={value!r} takes a completion "
                    f"for one action; set {name}={needed!r} or critic_level='turn'"
                )
        return self


@dataclass(slots=True)
class RunningReturnStats:
    """Running mean and standard deviation of returns, over about `MEMORY` updates."""

    updates: int = 0
    mean: float = 0.0
    variance: float = 0.0

    @property
    def spread(self) -> float:
        """The standard deviation; 1 where all returns are equal up to rounding."""
        spread = math.sqrt(self.variance)
        return spread if spread > _EQUAL * max(1.0, abs(self.mean)) else 1.0

    def add(self, returns: Array) -> None:
        """Add the returns of an update."""
        self.updates += 1
        rate = 1.0 / min(self.updates, MEMORY)
        change = float(returns.mean()) - self.mean
        self.mean += rate * change
        self.variance = (1 - rate) * (self.variance + rate * change**2) + rate * float(returns.var())


@dataclass(frozen=True, slots=True)
class ValueTarget(Sample):
    """A value-regression target for one prefix of a history, whose token ids are `completion.prompt_ids`.

    Policies ignore it, because its completion has no tokens.

    Attributes:
        target: y, the value to learn.
        value: V(x), the critic's value before the step.
        after: Number of the last ids that come after the prefix: the remaining tokens of a completion.
    """

    target: float = 0.0
    value: float = 0.0
    after: int = 0

    @property
    def reading(self) -> Reading:
        """The agent and the token ids of the forward pass that gives the value."""
        return self.agent, self.completion.prompt_ids


class CriticUpdater(Updater):
    """An `Updater` that also trains a critic; override `make_critic` for your own critic.

    Raises:
        ValueError: The policy has no critic, or critic_level is "token" and its critic has no values of tokens; or see
            `Updater`.
    """

    options: CriticOptions

    def __init__(
        self, policy: Policy, groups: Sequence[ParameterGroup], temperature: float, options: CriticOptions
    ) -> None:
        self._of_policy = list(groups)
        super().__init__(policy, groups, temperature, options)
        self._old_values: dict[Reading, torch.Tensor] = {}  # u_old of this step [L]

    def reset_optimizer(self) -> None:
        """See `Updater`. The critic is new too; its own body is a copy of the body of the current policy."""
        groups, rate = self._of_policy, self.options.critic_learning_rate
        self.groups = list(groups)
        self.critic = self.make_critic()
        if self.options.critic_level == "token" and not isinstance(self.critic, TokenCritic):
            raise ValueError(
                f"critic_level is 'token', and {type(self.critic).__name__}, the critic of "
                f"{type(self.policy).__name__}, has no values of tokens; implement token_values() "
                "(agents.base.TokenCritic), or set critic_level='turn'"
            )
        self.return_stats = RunningReturnStats()
        agents = tuple(agent for group in groups for agent in group.agents)
        parameters = list(self.critic.parameters())
        self.groups.append(ParameterGroup(agents, parameters, groups[0].learning_rate if rate is None else rate))
        super().reset_optimizer()

    def make_critic(self) -> Critic:
        """Make the critic of this policy: one head for all agents that share weights, see `CriticOptions.body`."""
        return self.critic_for([group.agents for group in self._of_policy])

    def critic_for(self, groups: Sequence[Sequence[str]]) -> Critic:
        """Make a critic on this policy's model for some of its agents."""
        return self.policy.critic(groups, separate=self.options.body == "own")

    def encode(self, asked: Sequence[tuple[Request, int]]) -> list[tuple[int, ...]]:
        """Return the token ids of each history as a prompt of the policy, with room for this number of new tokens."""
        return [tuple(self.policy.encode(request.history, room, request.ids)) for request, room in asked]

    def observe(self, returns: Sequence[float]) -> None:
        """Add the returns of an update to the statistics, and rescale the critic so that its values stay the same."""
        scored = np.array([value for value in returns if not math.isnan(value)])
        if not len(scored):
            return
        stats = self.return_stats
        mean, spread = stats.mean, stats.spread
        stats.add(scored)
        if stats.updates > 1:
            self.critic.rescale(spread / stats.spread, (mean - stats.mean) / stats.spread)

    def values(self, readings: Sequence[Reading]) -> list[float]:
        """Return the critic's current value of each reading, on the scale of returns."""
        return [value for [value] in self.token_values([(reading, 1) for reading in readings])]

    def token_values(self, spans: Sequence[tuple[Reading, int]]) -> list[list[float]]:
        """Return for each (reading, n) the n values of the reading without its last n - 1, ..., 1, 0 tokens."""
        counts = dict(sorted(spans, key=lambda span: span[1]))  # the largest of each reading
        known: dict[Reading, list[float]] = {}

        def read_rest(size: int) -> None:
            with torch.no_grad():
                new = dict.fromkeys((reading for reading, _ in spans if reading not in known), 1)
                for batch in _of_length(new, size):
                    values = self._read(batch, max(counts[reading] for reading in batch))
                    known.update(zip(batch, values.tolist(), strict=True))

        self.micro_batch.run(read_rest)
        m, s = self.return_stats.mean, self.return_stats.spread
        return [[m + s * u for u in known[reading][-count:]] for reading, count in spans]  # (unit)

    def _read(self, readings: list[Reading], count: int) -> torch.Tensor:
        """Return u [N, count] of each reading without its last count - 1, ..., 1, 0 tokens."""
        if self.options.critic_level == "token" and isinstance(self.critic, TokenCritic):
            return self.critic.token_values(readings, count)
        return self.critic.values(readings)[:, None]

    # --- one step -----------------------------------------------------------------------------------------------------

    def step(self, samples: Sequence[Sample], seed: int = 0) -> Metrics:
        """Run `Updater.step` on completions and value targets; then the remaining critic epochs on the value targets.

        Returns:
            The metrics of `Updater.step`, and `value_loss`, the critic's mean loss on standardised returns, before
            multiplication by its loss weight.
        """
        targets = [s for s in samples if isinstance(s, ValueTarget) and s.agent in self.agents]
        order = derive(seed, "lessons", self.updates)
        self.extra_targets = in_minibatches(targets, self.options.minibatches, order)  # the same in every epoch
        self._old_values = {}
        metrics = {"value_loss": 0.0} | super().step(samples, seed)
        if not all(map(math.isfinite, metrics.values())):
            return metrics
        extra_critic_epochs = self.options.critic_epochs - self.options.epochs
        for targets in filter(None, [*self.extra_targets] * extra_critic_epochs):
            result, _ = self.micro_batch.run(partial(self.gradient, [], targets))
            if not self.optimizer_step(result, {target.agent for target in targets}):
                return metrics | result
        return metrics

    def extra_loss(self, targets: Sequence[Any], size: int) -> Metrics:
        """Add the gradient of the critic's loss (critic), at most `size` value targets at a time."""
        by_reading = grouped(targets, lambda target: target.reading)
        counts = Counter(target.reading for target in targets if not target.after)  # as often as it was sampled
        total, stats = 0.0, self.return_stats
        for batch in _of_length(counts, size):
            count = 1 + max(target.after for reading in batch for target in by_reading[reading])
            values = self._read(batch, count)
            rows = [row for row, reading in enumerate(batch) for _ in by_reading[reading]]
            columns = [count - 1 - target.after for reading in batch for target in by_reading[reading]]
            y = values.new_tensor([(s.target - stats.mean) / stats.spread for r in batch for s in by_reading[r]])
            for reading, value in zip(batch, values.detach(), strict=True):
                self._old_values.setdefault(reading, value)
            known = [self._old_values[reading] for reading in batch]  # of another width in another batch
            old = torch.stack([functional.pad(value, (count - len(value), 0)) for value in known])
            loss = value_loss(values[rows, columns], y, old[rows, columns], self.options.value_clip).sum()
            loss = loss / len(targets)  # (critic)
            (self.options.value_coef * loss).backward()
            total += loss.item()
        return {"value_loss": total}

    # --- restarts -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the updater, of the critic, and of its return statistics."""
        return {
            **super().state_dict(),
            "critic": dict(self.critic.state_dict()),
            "return_stats": asdict(self.return_stats),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.critic.load_state_dict(state["critic"])
        self.return_stats = RunningReturnStats(**state["return_stats"])
        super().load_state_dict(state)


class CentralCriticUpdater(CriticUpdater):
    """A `CriticUpdater` with one critic for the whole team, which reads prompts of the first agent."""

    def make_critic(self) -> Critic:
        """Make a critic with a single head."""
        return self.critic_for([self._of_policy[0].agents[:1]])


def _of_length(counts: Mapping[Reading, int], size: int) -> list[list[Reading]]:
    """Return batches of readings of similar length, whose counts sum to at most `size` (a larger one is a batch)."""
    batches: list[list[Reading]] = []
    room = 0
    for reading in sorted(counts, key=lambda reading: len(reading[1])):
        if counts[reading] > room or not batches:
            batches.append([])
            room = size
        batches[-1].append(reading)
        room -= counts[reading]
    return batches
