"""Imitation (behaviour cloning): each policy is trained on the texts of a teacher.

For the texts a of a teacher after histories h, each agent descends the cross-entropy

    L = - mean of log pi(a | h)                                                                         (cross-entropy)

over the tokens of its own texts. Small models need such a cold start before they can explore. The gradient equals the
gradient of the objective of `updater` with advantage 1 and rho 1. So the same updater is used; the text is tokenized by
the policy.

`shares` weights kinds of turns, so that rare kinds are not forgotten. The kind of a turn is the event that it caused
("spawn" for the call of a sub-agent, "answer", "call" of a tool, ...), or "say" if it caused none.

The teachers script:optimal and script:gold know the answer. script:uniform samples well-formed texts and does not know
it. Recorded episodes may contain the answer or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from ..agents.base import Sampling, Team
from ..config import Kinds, Single
from ..rollout import Demonstrations, Rollout
from ..types import Group, Turn, grouped
from .base import Metrics
from .controls import shuffle_texts
from .learner import PolicyLearner
from .objectives import Objective, OfTeachers
from .options import Sides, UpdaterOptions
from .samples import Sample, called_agents, usable


class ImitationConfig(UpdaterOptions):
    """Options of imitation: the teacher, and the options of `UpdaterOptions` that apply to a single pass."""

    source: str = "script:optimal"
    """Teacher: script:optimal, script:gold (reference texts), script:uniform (any well-formed text), or recorded
    episodes: a file of traces with their texts, or the folder of a run or of one of its cells."""
    shares: dict[str, Annotated[float, Field(gt=0)]] = {}
    """Relative shares of kinds of turns in the mean of every agent. A turn of another kind has weight 1; by default
    all turns have."""
    train: Sides = ["main", "sub"]
    """Agents that are trained: main agents, which no agent called (main), sub-agents (sub), or both."""
    objective: Objective = OfTeachers()
    kinds: ClassVar[Kinds] = {"objective": {"clipped": OfTeachers}}
    epochs: Single = 1
    """Fixed: in a second pass the ratio to the first would be clipped; give more steps instead."""
    minibatches: Single = 1
    """Fixed, as `epochs`."""


class Imitation(PolicyLearner):
    """Behaviour cloning: trains each policy of a team on the texts of a teacher."""

    shows_texts = True
    Config = ImitationConfig
    config: ImitationConfig

    def __init__(self, team: Team, sampling: Sampling, config: ImitationConfig | None = None) -> None:
        super().__init__(team, sampling, config)
        self._teacher = Demonstrations(self.config.source)

    @property
    def rollout(self) -> Rollout:
        """The rollout of the teacher's episodes."""
        return self._teacher

    @classmethod
    def incompatibility(cls, config: Any, env: Any) -> str:
        """See `Algorithm`; the teacher must also be able to act in the environment."""
        why = Demonstrations(config.source).incompatibility(env)
        return f"the teacher {config.source} cannot act there: {why}" if why else ""

    def shuffle_rewards(self, groups: Sequence[Group]) -> list[Group]:
        """Return groups with the teacher's texts of other tasks, for its control."""
        return shuffle_texts(groups)

    def samples(self, groups: Sequence[Group]) -> list[Sample]:
        """Return every text with advantage 1 and the weight of the kind of its turn.

        Raises:
            ValueError: No policy of the team can be trained on given texts.
        """
        texts = [
            ("sub" if agent in called else "main", _kind(turn, agent), Sample(agent, completion, 1.0, group=place))
            for place, group in enumerate(groups)
            for episode in group.episodes
            for called in [called_agents(episode)]
            for turn in episode.turns
            for agent, completion in turn.actions.items()
            if agent in self.learning
        ]
        if groups and not usable(sample for _, _, sample in texts):
            raise ValueError(
                "no policy of the team can be trained on given texts (`to_completion` of agents.Policy); give at least "
                "one agent a language model"
            )
        pairs = [(kind, sample) for side, kind, sample in texts if side in self.config.train]
        return usable(_weighed(pairs, self.config.shares))

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Run a step of every policy on the teacher's texts.

        Returns:
            The metrics of `Updater.step`; `cross_entropy`, the mean of -log p of the given tokens before the step; and
            `labels`, 1 if the teacher may know the answer, else 0.
        """
        metrics = self.step(self.samples(groups), groups)
        logprobs = [p for updater in self.updaters for text in updater.logprobs.values() for p in text]
        metrics["cross_entropy"] = -float(np.mean(logprobs)) if logprobs else 0.0  # (cross-entropy)
        return metrics | {"labels": float(self._teacher.labels)}


def _kind(turn: Turn, agent: str) -> str:
    """Return the kind of the first event, other than "read", of the agent or that names it; "say" if there is none."""
    named = (event.kind for event in turn.events if agent in (event.agent, event.details.get("by")))
    caused = (kind for kind in named if kind != "read")
    return next(caused, "say")


def _weighed(pairs: Sequence[tuple[str, Sample]], shares: Mapping[str, float]) -> list[Sample]:
    """Distribute the weight of each agent's samples of the named kinds among these kinds, in proportion to `shares`."""
    weighed: list[Sample] = []
    for of_agent in grouped(pairs, lambda pair: pair[1].agent).values():
        counts = {name: sum(kind == name for kind, _ in of_agent) for name in shares}
        named = sum(counts.values())
        total = sum(share for name, share in shares.items() if counts[name])
        weights = {name: named * shares[name] / total / count for name, count in counts.items() if count}
        weighed += [replace(s, weight=weights.get(kind, 1.0)) for kind, s in of_agent]
    return weighed
