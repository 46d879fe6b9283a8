"""Imitation: every policy learns to say what a teacher says in its place.

For the texts a that a teacher says after histories h, each agent descends the cross-entropy

    L = - mean of log pi(a | h)                                                                         (cross-entropy)

over the tokens of its own texts: behaviour cloning, the cold start that small models need before they can explore. That
is the gradient of `updater`'s objective with advantage 1 in its first pass, where rho is 1, so that the same updater
steps, on the tokens in which the policy itself would have said it.

`shares` weighs kinds of turn, so that rare ones are not forgotten. The kind of a turn is that of the events which it
caused ("spawn" where a sub-agent was called, "answer", "call" of a tool, ...), for a turn without any "say".

What a teacher knows are labels: script:optimal and script:gold know the answer; script:uniform, any well-formed text,
knows the form alone; recorded episodes know what their team knew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from ..agents.base import Sampling, Team
from ..rollout import Demonstrations, Rollout
from ..types import Group, Turn
from .base import Metrics, Prompting
from .mgrpo import called_agents
from .options import Sides, UpdaterOptions
from .samples import Sample, usable
from .updater import step_all, updaters_of


class ImitationConfig(UpdaterOptions):
    """Options of imitation: who is imitated, and those of `UpdaterOptions` that a single pass has."""

    source: str = "script:optimal"
    """Who is imitated: script:optimal, script:gold (reference texts), script:uniform (any well-formed text), or whoever
    spoke in recorded episodes of these tasks: a file like episodes.jsonl of a run's cell, or that cell's folder."""
    shares: dict[str, Annotated[float, Field(gt=0)]] = {}
    """Share of each kind of turn in every agent's mean, relative to each other; kinds that are not named weigh as often
    as they occur. Empty: all weigh as often as they occur."""
    train: Sides = ["main", "sub"]
    """Who learns: agents that nobody called (main), those that were called (sub), or both."""
    ratio: Literal["token"] = "token"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Nothing was sampled: there is no ratio."""
    importance: Literal["none"] = "none"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Nothing was sampled."""
    epochs: Literal[1] = 1  # pyright: ignore[reportIncompatibleVariableOverride]
    """In a second pass the ratio to the first would be clipped; give more steps instead."""
    minibatches: Literal[1] = 1  # pyright: ignore[reportIncompatibleVariableOverride]
    """The same."""


class Imitation(Prompting):
    """Trains every trainable member of a team on what a teacher says in its place.

    Args:
        team: Who learns; members that cannot be trained stay as they are.
        sampling: How the team speaks; its temperature is part of the policy that is trained.
        config: Options.
    """

    protocol = "parallel"
    individual_rewards = True  # learns from none
    Config: ClassVar[type[ImitationConfig]] = ImitationConfig  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, team: Team, sampling: Sampling, config: ImitationConfig | None = None) -> None:
        super().__init__(team, sampling)
        self.config = config or self.Config()
        self.updaters = updaters_of(team, sampling.temperature, self.config)
        teacher = Demonstrations(self.config.source)
        self.rollout: Rollout = teacher
        self._labels = float(teacher.labels)

    def samples(self, groups: Sequence[Group]) -> list[Sample]:
        """Every text with advantage 1, weighed by the kind of its turn.

        Raises:
            ValueError: Nothing that a policy of the team could have said was shown.
        """
        learning = {agent for updater in self.updaters for agent in updater.agents}
        shown = [
            ("sub" if agent in called else "main", _kind(turn, agent), Sample(agent, completion, 1.0, group=place))
            for place, group in enumerate(groups)
            for episode in group.episodes
            for called in [called_agents(episode)]
            for turn in episode.turns
            for agent, completion in turn.actions.items()
            if agent in learning
        ]
        if groups and not usable(sample for _, _, sample in shown):
            raise ValueError(
                "no policy of the team can be shown a text (agents.base.TeachablePolicy), so there is nothing to "
                "imitate; give a language model"
            )
        pairs = [(kind, sample) for side, kind, sample in shown if side in self.config.train]
        return usable(_weighed(pairs, self.config.shares))

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Let every policy step on the texts that were said in its place.

        Returns:
            What `Updater.step` returns; `cross_entropy`, the mean of -log p of the given tokens before the step; and
            `labels`, 1 where who is imitated may know what is right, else 0.
        """
        samples = self.samples(groups)
        seed = next((episode.seed for group in groups for episode in group.episodes), 0)
        metrics = step_all(self.updaters, samples, seed)
        logprobs = [p for updater in self.updaters for own in updater.logprobs.values() for p in own]
        metrics["cross_entropy"] = -float(np.mean(logprobs)) if logprobs else 0.0  # (cross-entropy)
        return metrics | {"labels": self._labels}


def _kind(turn: Turn, agent: str) -> str:
    """What a text of an agent caused: the first event that it did or that names it; "say" where there was none.

    What it reads afterwards is none.
    """
    named = (event.kind for event in turn.events if agent in (event.agent, event.details.get("by")))
    caused = (kind for kind in named if kind != "read")
    return next(caused, "say")


def _weighed(pairs: Sequence[tuple[str, Sample]], shares: Mapping[str, float]) -> list[Sample]:
    """The samples, of which those of each named kind weigh as much as `shares` says, agent by agent.

    Those of an agent that are of a named kind keep their weight in all, and share it out as told.
    """
    found: list[Sample] = []
    for agent in dict.fromkeys(s.agent for _, s in pairs):
        own = [(kind, s) for kind, s in pairs if s.agent == agent]
        counts = {name: sum(kind == name for kind, _ in own) for name in shares}
        named = sum(counts.values())
        total = sum(share for name, share in shares.items() if counts[name])
        weights = {name: named * shares[name] / total / count for name, count in counts.items() if count}
        found += [replace(s, share=weights.get(kind, 1.0)) for kind, s in own]
    return found
