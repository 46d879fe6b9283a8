# pyright: basic
"""An updater that moves a policy and its critic in the same steps.

Returns are of any size, and of another size in each task. So the critic predicts u, in units of what was returned so
far, whose running mean is m and whose spread is s:

    V(x) = m + s u(x)                                                                                             (unit)

Where these change to m' and s', the critic's last layer changes too, so that its values do not (PopArt,
arXiv:1602.07714): u' = (s u + m - m') / s'. For situations x with targets y, and z = (y - m) / s, the loss adds the
critic's to minus the policy's objective J,

    L = -J + c mean of max((u(x) - z)^2, (u_old(x) + clip(u(x) - u_old(x), -eps, eps) - z)^2)                   (critic)

where u_old is what the critic says where it reads x first in a step. Then the critic alone passes over its lessons
again: policies learn little from advantages until it knows what a situation is worth, which one pass per update teaches
too late. A critic on the policy's body moves that body too; a critic with a body of its own shares only the optimizer.
Equal situations are read once, and with critic_level="token" all situations within a text in one pass.
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
    """Options of learners with a critic, beside those of `UpdaterOptions`."""

    estimates: Literal["v", "q"] = "v"
    """What the critic estimates: v, the value of a history; or q, of a history and the text that was said after it."""
    critic_level: Literal["turn", "token"] = "turn"
    """What has a value: a turn, whose text is one action; or each token of an agent's text, see
    `algorithms.actor_critic`."""
    body: Literal["own", "shared"] = "own"
    """The model whose hidden state the critic's head reads: own (a copy of the policy's, where that is an adapter on
    the same base) or shared (the policy's, which the critic's loss then moves too). The critic of `maac` takes the
    first policy for it."""
    value_coef: NotNegative = 0.6
    """Weight of the critic's loss beside the policy's."""
    value_clip: NotNegative = 0.2
    """How far an update may move a value before its loss is flat, in units of the returns' spread; only matters with
    several `epochs` or `minibatches`."""
    critic_learning_rate: NotNegative | None = None
    """Learning rate of the head, and of the critic's own body; the policy's when left out."""
    critic_epochs: Positive = 4
    """Passes over what an update teaches the critic: those of the policy, and beyond `epochs` the critic's alone."""
    gae_lambda: Annotated[float, Field(ge=0, le=1)] = 0.95
    """Lambda of generalized advantage estimation, over turns or tokens (`critic_level`): 1 is unbiased whatever the
    critic says, less trusts it more."""
    normalise: bool = True
    """Scale the advantages of an agent to mean 0 and standard deviation 1 over an update; equal ones become 0, and a
    single one stays as it is."""

    @model_validator(mode="after")
    def _refuse_texts_as_one_action(self) -> CriticOptions:
        given = {"estimates": (self.estimates, "v"), "ratio": (self.objective.ratio, "token")}
        for name, (value, needed) in given.items():
            if self.critic_level == "token" and value != needed:
                raise ValueError(
                    f"critic_level='token' has advantages of tokens, and {name}={value!r} takes a text for one action; "
                    f"set {name}={needed!r} or critic_level='turn'"
                )
        return self


@dataclass(slots=True)
class Unit:
    """Running mean and spread of returns, over some `MEMORY` updates."""

    updates: int = 0
    mean: float = 0.0
    variance: float = 0.0

    @property
    def spread(self) -> float:
        """The standard deviation; 1 where all returns are equal but for rounding."""
        spread = math.sqrt(self.variance)
        return spread if spread > _EQUAL * max(1.0, abs(self.mean)) else 1.0

    def add(self, returns: Array) -> None:
        """Take in the returns of one more update."""
        self.updates += 1
        rate = 1.0 / min(self.updates, MEMORY)
        change = float(returns.mean()) - self.mean
        self.mean += rate * change
        self.variance = (1 - rate) * (self.variance + rate * change**2) + rate * float(returns.var())


@dataclass(frozen=True, slots=True)
class Lesson(Sample):
    """One situation for a critic, with its token ids in `completion.prompt_ids`; policies do not learn from it.

    Attributes:
        after: How many of these ids, the last ones, come after the situation: those of the rest of a text.
        target: y, what the critic is to say.
        value: V(x), what the critic said before the step.
    """

    target: float = 0.0
    value: float = 0.0
    after: int = 0

    @property
    def reading(self) -> Reading:
        """What the critic reads in the pass from which it values the situation."""
        return self.agent, self.completion.prompt_ids


class CriticUpdater(Updater):
    """An `Updater` that also moves a critic; override `make_critic` for a critic of your own.

    Raises:
        ValueError: The policy has no critic, or one without values of tokens where they are asked for; or see
            `Updater`.
    """

    options: CriticOptions

    def __init__(
        self, policy: Policy, groups: Sequence[ParameterGroup], temperature: float, options: CriticOptions
    ) -> None:
        self._of_policy = list(groups)
        super().__init__(policy, groups, temperature, options)
        self._old_values: dict[Reading, torch.Tensor] = {}  # u_old of this step [L]

    def begin(self) -> None:
        """See `Updater`; the critic is made anew too, so that a body of its own is a copy of the policy's."""
        groups, rate = self._of_policy, self.options.critic_learning_rate
        self.groups = list(groups)
        self.critic = self.make_critic()
        if self.options.critic_level == "token" and not isinstance(self.critic, TokenCritic):
            raise ValueError(
                f"critic_level is 'token', and {type(self.critic).__name__}, the critic of "
                f"{type(self.policy).__name__}, has no values of tokens; give it token_values() "
                "(agents.base.TokenCritic), or set critic_level='turn'"
            )
        self.unit = Unit()
        agents = tuple(agent for group in groups for agent in group.agents)
        parameters = list(self.critic.parameters())
        self.groups.append(ParameterGroup(agents, parameters, groups[0].learning_rate if rate is None else rate))
        super().begin()

    def make_critic(self) -> Critic:
        """The critic of this policy: one head for all agents that share weights, see `CriticOptions.body`."""
        return self.critic_for([group.agents for group in self._of_policy])

    def critic_for(self, groups: Sequence[Sequence[str]]) -> Critic:
        """A critic on this policy's model for some of its agents."""
        return self.policy.critic(groups, separate=self.options.body == "own")

    def encode(self, asked: Sequence[tuple[Request, int]]) -> list[tuple[int, ...]]:
        """Token ids of histories as the policy reads them, with room for so many tokens after each."""
        return [tuple(self.policy.encode(request.history, room, request.ids)) for request, room in asked]

    def observe(self, returns: Sequence[float]) -> None:
        """Take in what the decisions of an update returned; no value that the critic has learnt changes."""
        scored = np.array([value for value in returns if not math.isnan(value)])
        if not len(scored):
            return
        mean, spread = self.unit.mean, self.unit.spread
        self.unit.add(scored)
        if self.unit.updates > 1:
            self.critic.rescale(spread / self.unit.spread, (mean - self.unit.mean) / self.unit.spread)

    def values(self, readings: Sequence[Reading]) -> list[float]:
        """The critic's present value of each reading, in units of the return."""
        return [value for [value] in self.token_values([(reading, 1) for reading in readings])]

    def token_values(self, spans: Sequence[tuple[Reading, int]]) -> list[list[float]]:
        """For each reading, with a count n of at least 1, the values without its last n - 1, ..., 1, 0 tokens."""
        counts = dict(sorted(spans, key=lambda span: span[1]))  # the largest of each reading
        known: dict[Reading, list[float]] = {}

        def read_rest(size: int) -> None:
            with torch.no_grad():
                new = dict.fromkeys((reading for reading, _ in spans if reading not in known), 1)
                for batch in _of_length(new, size):
                    values = self._read(batch, max(counts[reading] for reading in batch))
                    known.update(zip(batch, values.tolist(), strict=True))

        self.micro_batch.run(read_rest)
        m, s = self.unit.mean, self.unit.spread
        return [[m + s * u for u in known[reading][-count:]] for reading, count in spans]  # (unit)

    def _read(self, readings: list[Reading], count: int) -> torch.Tensor:
        """u without the last count - 1, ..., 1, 0 tokens of each reading [N, count]."""
        if self.options.critic_level == "token" and isinstance(self.critic, TokenCritic):
            return self.critic.token_values(readings, count)
        return self.critic.values(readings)[:, None]

    # --- one step -----------------------------------------------------------------------------------------------------

    def step(self, samples: Sequence[Sample], seed: int = 0) -> Metrics:
        """Run `Updater.step` on texts and lessons; then run the remaining critic epochs on the lessons alone.

        Returns:
            The same, and `value_loss`, the mean loss of the critic without its weight, in squared spreads of returns.
        """
        lessons = [s for s in samples if isinstance(s, Lesson) and s.agent in self.agents]
        order = derive(seed, "lessons", self.updates)
        self.extra_targets = in_minibatches(lessons, self.options.minibatches, order)  # the same in every epoch
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
        """Add the gradient of the critic's loss (critic), reading at most `size` lessons at a time."""
        lessons = grouped(targets, lambda lesson: lesson.reading)
        total = 0.0
        counts = Counter(lesson.reading for lesson in targets if not lesson.after)  # as often as the text was sampled
        for batch in _of_length(counts, size):
            count = 1 + max(lesson.after for reading in batch for lesson in lessons[reading])
            values = self._read(batch, count)
            rows = [row for row, reading in enumerate(batch) for _ in lessons[reading]]
            columns = [count - 1 - lesson.after for reading in batch for lesson in lessons[reading]]
            y = values.new_tensor(
                [(s.target - self.unit.mean) / self.unit.spread for reading in batch for s in lessons[reading]]
            )
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
        """The state of the updater, and of the critic with its unit."""
        return {**super().state_dict(), "critic": dict(self.critic.state_dict()), "unit": asdict(self.unit)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        self.critic.load_state_dict(state["critic"])
        self.unit = Unit(**state["unit"])
        super().load_state_dict(state)


class CentralCriticUpdater(CriticUpdater):
    """A `CriticUpdater` with one critic for the whole team, which reads as the first agent."""

    def make_critic(self) -> Critic:
        """A critic with a single head."""
        return self.critic_for([self._of_policy[0].agents[:1]])


def _of_length(counts: Mapping[Reading, int], size: int) -> list[list[Reading]]:
    """Batches of readings of similar length, whose counts sum to at most `size`; a larger one is alone."""
    batches: list[list[Reading]] = []
    room = 0
    for reading in sorted(counts, key=lambda reading: len(reading[1])):
        if counts[reading] > room or not batches:
            batches.append([])
            room = size
        batches[-1].append(reading)
        room -= counts[reading]
    return batches
