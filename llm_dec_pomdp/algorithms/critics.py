# pyright: basic
"""Critics beside policies: an updater whose policy has a critic, which learns in the same steps.

Of situations x with targets y, in the same gradient as the policy's objective J,

    L = -J + c mean of max((V(x) - y)^2, (V_old(x) + clip(V(x) - V_old(x), -eps, eps) - y)^2)                  (critic)

where V_old is the critic as the step finds it. A critic on the policy's own body moves that body with L; one with a
body of its own has nothing in common with J but the optimizer. Equal situations are read once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from ..agents.base import Critic, CriticPolicy, ParameterGroup, Reading, Request, TrainablePolicy
from ..config import NotNegative
from ..seeding import derive
from .base import Metrics
from .batches import in_minibatches
from .losses import value_loss
from .options import UpdaterOptions
from .samples import Sample, usable
from .updater import Updater


class CriticOptions(UpdaterOptions):
    """Options of learners with a critic: the critic, what is made of its values, and all of `UpdaterOptions`."""

    ratio: Literal["token", "sequence"] = "token"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Level of the likelihood ratio: token or sequence."""
    estimates: Literal["v", "q"] = "v"
    """What the critic tells: v, the value of a history; or q, of a history and the text that was said after it."""
    body: Literal["shared", "own"] = "shared"
    """Whose hidden state the critic's head reads: of the policy's own body, which then learns with it, or of one of its
    own: a copy of the model, or where policies are adapters a further adapter on the same base."""
    value_coef: NotNegative = 0.6
    """Weight of the critic's loss beside the policy's."""
    value_clip: NotNegative = 0.2
    """How far an update may take a value, in units of the return, before going further gains nothing; it matters with
    several `epochs` or `minibatches`."""
    critic_learning_rate: NotNegative | None = None
    """AdamW, of the head and of a body of its own; left out: the policy's."""
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount between turns."""
    gae_lambda: Annotated[float, Field(ge=0, le=1)] = 0.95
    """Lambda of generalized advantage estimation: 1 is unbiased whatever the critic, less trusts it more."""
    bootstrap: bool = True
    """An episode that ran out of turns, where agents were told what would have come next, is worth the critic's value
    of that beside what it earned. False: the number of turns is part of the task, and nothing follows the last."""
    normalise: bool = True
    """Advantages of an agent have mean 0 and standard deviation 1 over an update; all 0 where they are equal, and as
    they are where there is one alone."""


@dataclass(frozen=True, slots=True)
class Lesson(Sample):
    """What a critic learns of one situation, whose token ids are `completion.prompt_ids`; no policy learns from it.

    Attributes:
        target: y, what it turned out to be worth.
        value: V_old, what the critic said before.
    """

    target: float = 0.0
    value: float = 0.0

    @property
    def reading(self) -> Reading:
        """What the critic reads."""
        return self.agent, self.completion.prompt_ids


class CriticUpdater(Updater):
    """Moves the weights of one policy and those of a critic; override `make_critic` for one of your own.

    Args:
        policy: See `Updater`.
        groups: See `Updater`.
        temperature: See `Updater`.
        options: See `Updater`.

    Raises:
        ValueError: Nobody made a critic for such a policy; or see `Updater`.
    """

    options: CriticOptions

    def __init__(
        self, policy: TrainablePolicy, groups: Sequence[ParameterGroup], temperature: float, options: CriticOptions
    ) -> None:
        super().__init__(policy, groups, temperature, options)
        self.critic = self.make_critic()
        agents = tuple(agent for group in groups for agent in group.agents)
        rate = groups[0].learning_rate if options.critic_learning_rate is None else options.critic_learning_rate
        own = ParameterGroup(agents, list(self.critic.parameters()), rate)
        self.groups = [*groups, own]
        self.optimizer.add_param_group({"params": own.parameters, "lr": rate, "full_lr": rate})
        self._lessons: list[Lesson] = []  # of the step
        self._parts: Iterator[list[Lesson]] = iter(())  # of the gradients to come
        self._part: list[Lesson] = []  # of the present one

    def make_critic(self) -> Critic:
        """The critic of this policy: here a head for all agents that share weights, see `CriticOptions.body`."""
        return self.critic_for([group.agents for group in self.groups])

    def critic_for(self, groups: Sequence[Sequence[str]]) -> Critic:
        """A critic on this policy's model for some of its agents."""
        if not isinstance(self.policy, CriticPolicy):
            raise ValueError(
                f"{type(self.policy).__name__} has no critic; give an agent a language model or builtin:table, give "
                "the policy encode() and critic() (agents.base.CriticPolicy), or override make_critic()"
            )
        return self.policy.critic(groups, own=self.options.body == "own")

    def encode(self, requests: Sequence[Request]) -> list[tuple[int, ...]]:
        """Token ids of histories as the policy reads them."""
        policy: Any = self.policy
        return [tuple(policy.encode(request.history, ids=request.ids)) for request in requests]

    def values(self, readings: Sequence[Reading]) -> list[float]:
        """What the critic says now of each."""
        said: dict[Reading, float] = {}

        def say(size: int) -> None:
            with torch.no_grad():
                new = dict.fromkeys((r for r in readings if r not in said), 1)
                for batch in _of_length(new, size):
                    said.update(zip(batch, self.critic.values(batch).tolist(), strict=True))

        self.micro_batch.run(say)
        return [said[reading] for reading in readings]

    def step(self, samples: Sequence[Sample], seed: int = 0) -> Metrics:
        """As `Updater.step`, with the lessons among the samples for the critic.

        Returns:
            The same, and `value_loss`, the mean of what the critic's loss is before it is weighed.
        """
        self._lessons = [s for s in samples if isinstance(s, Lesson) and s.agent in self.agents]
        texts = usable(s for s in samples if s.agent in self.agents)
        steps = len(in_minibatches(texts, self.options.minibatches, seed)) or 1  # of a pass: fewer for few prompts
        parts: Any = in_minibatches(self._lessons, steps, derive(seed, "lessons", self.updates))
        self._parts = itertools.cycle(parts or [[]])
        return {"value_loss": 0.0} | super().step(samples, seed)

    def _worth_a_step(self, learning: list[Sample]) -> bool:
        """The critic learns too where no text has an advantage."""
        return bool(learning or self._lessons)

    def _gradient(self, samples: list[Sample]) -> Metrics:
        self._part = next(self._parts)
        return super()._gradient(samples)

    def _clip_gradients(self, agents: set[str]) -> float:
        """See `Updater`; an agent of whose texts nothing is learnt may share its body with the critic."""
        return super()._clip_gradients(agents | {lesson.agent for lesson in self._part})

    def _accumulate(self, batches: list[list[Sample]]) -> Metrics:
        """See `Updater`; and forward and backward passes of the critic, each for as many lessons as texts there."""
        terms = {"loss": 0.0, "clipped": 0.0} | super()._accumulate(batches)
        lessons: dict[Reading, list[Lesson]] = {}
        for lesson in self._part:
            lessons.setdefault(lesson.reading, []).append(lesson)
        terms["value_loss"] = 0.0
        counts = {reading: len(own) for reading, own in lessons.items()}
        for batch in _of_length(counts, self.micro_batch.size):
            values = self.critic.values(batch)
            rows = [row for row, reading in enumerate(batch) for _ in lessons[reading]]
            own = [lesson for reading in batch for lesson in lessons[reading]]
            targets, old = values.new_tensor([[s.target, s.value] for s in own]).unbind(1)
            loss = value_loss(values[rows], targets, old, self.options.value_clip).sum() / len(self._part)  # (critic)
            (self.options.value_coef * loss).backward()
            terms["value_loss"] += loss.item()
        return terms

    # --- restarts -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Those of an updater, and the critic."""
        return {**super().state_dict(), "critic": dict(self.critic.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        self.critic.load_state_dict(state["critic"])
        super().load_state_dict(state)


class CentralCriticUpdater(CriticUpdater):
    """Has a critic of the whole team, which reads in the name of the first agent."""

    def make_critic(self) -> Critic:
        """A single head."""
        return self.critic_for([self.groups[0].agents[:1]])


def _of_length(counts: Mapping[Reading, int], size: int) -> list[list[Reading]]:
    """Batches of similar length, in which the counts sum to at most `size`, or of one reading."""
    batches: list[list[Reading]] = []
    room = 0
    for reading in sorted(counts, key=lambda reading: len(reading[1])):
        if counts[reading] > room or not batches:
            batches.append([])
            room = size
        batches[-1].append(reading)
        room -= counts[reading]
    return batches
