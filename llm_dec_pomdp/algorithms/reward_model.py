# pyright: basic
"""A reward that is learnt from pairs of joint texts, one preferred to the other (Bradley and Terry).

The value of an episode is the sum of the values of its texts, r(h, a) of `agents.values`, and w is preferred to l with
probability

    P(w > l) = sigmoid(sum over w of r(h, a) - sum over l of r(h, a))                                    (Bradley-Terry)

as in arXiv:1706.03741; the loss of a pair is - log P(w > l). It is that of MADPO with values in place of log-ratios to
a reference, and beta 1. One agent writes all parts (`centralized`), so that its model reads what everybody was told and
said, and what it has learnt can pay a team of any protocol: `envs.wrappers.LearnedReward`.

Pairs of held-out tasks are never learnt from; how often they are told right is reported. A model that values texts
speaks no more. So the first weights speak, and of several texts the one of the highest value is said: what a run
measures before and after is best-of-n by the learnt reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import Field, model_validator

from ..agents.base import PlacedPolicy, Policy, Request, Sampling, TeachablePolicy, Team
from ..agents.values import end_of, ended, values
from ..config import Positive
from ..rollout import Preferences
from ..seeding import derive, uniforms
from ..types import Completion, Group
from .base import Metrics
from .madpo import MADPO, MADPOConfig, PairUpdater
from .samples import Sample


class RewardModelConfig(MADPOConfig):
    """Options of the reward model: which pairs it learns from, and those of `UpdaterOptions` that it has."""

    beta: Annotated[float, Field(ge=1, le=1)] = 1.0
    """The scale of the values is learnt."""
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the tasks whose pairs are told apart and never learnt from."""
    best_of: Positive = 4
    """Texts of which the one of the highest value is said, in evaluations."""

    @model_validator(mode="after")
    def _refuse_own_episodes(self) -> RewardModelConfig:
        if not self.source:
            raise ValueError(
                "a reward model learns from what was recorded; set source to a file of pairs or traces, or to the "
                "folder of a run"
            )
        return self


class ValueUpdater(PairUpdater):
    """Moves weights by values of texts, each times what it is worth to the loss."""

    def __init__(self, policy: Any, *how: Any) -> None:
        if not isinstance(policy, TeachablePolicy):
            raise ValueError(f"a {type(policy).__name__} cannot be shown a text; give a language model")
        super().__init__(policy, *how)
        self.end = end_of(policy, min(self.agents))

    def scores(self, samples: Sequence[Sample]) -> torch.Tensor:
        """r(h, a) of every text [N]."""
        return values(self.policy, [(s.agent, ended(s.completion, self.end)) for s in samples])

    def preferences(self, samples: Sequence[Sample]) -> torch.Tensor:
        """The same: there is nothing to compare with."""
        return self.scores(samples)


class RewardModel(MADPO):
    """Learns what joint texts are worth from pairs, one preferred to the other.

    Args:
        team: Who becomes the reward model; its first weights speak.
        sampling: How they speak.
        config: Options.

    Raises:
        ValueError: A member lives elsewhere or cannot be shown a text, or nothing is left to learn from.
    """

    protocol = "centralized"
    Config: ClassVar[type[RewardModelConfig]] = RewardModelConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    updater = ValueUpdater

    def __init__(self, team: Team, sampling: Sampling, config: RewardModelConfig) -> None:
        if any(isinstance(policy, PlacedPolicy) for policy in team.trainable):
            raise ValueError("reward_model learns in the process of its run; leave --executor at local")
        super().__init__(team, sampling, config)
        self._held_out = config.held_out
        tasks = Preferences(config.source, config.pairs, config.margin).pairs()
        if all(map(self.held_out, tasks)):
            raise ValueError(
                f"held_out is {config.held_out}, and with it all {len(tasks)} tasks of {config.source} are held out; "
                "record more tasks, or set held_out=0"
            )
        self._speakers = BestOf(team, self.updaters, config.best_of)

    @property
    def policy(self) -> Policy:
        """The first weights, of whose texts the best is said."""
        return self._speakers

    def held_out(self, item_id: str) -> bool:
        """Whether pairs of a task are told apart only."""
        return float(uniforms(derive(0, "held out", item_id), 1)[0]) < self._held_out

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Learn from the pairs of the tasks that are not held out.

        Returns:
            What `MADPO.update` returns, of which `preferred` is the share of the pairs that are told right before the
            step; and of the held-out tasks, where there are any, `preferred_held_out`.
        """
        metrics = super().update([group for group in groups if not self.held_out(group.item_id)])
        unseen = self.pairs([group for group in groups if self.held_out(group.item_id)])
        if unseen:
            metrics["preferred_held_out"] = float((self.gaps(unseen) > 0).mean())
        return metrics


class BestOf(Team):
    """Says of several texts the one of the highest value; those who have no value speak as they are.

    Args:
        team: Who is to speak.
        updaters: Value updaters: of their values, and with the first weights as reference.
        count: Texts to choose from.
    """

    def __init__(self, team: Team, updaters: Sequence[Any], count: int) -> None:
        super().__init__(team.members, learning_rates=team.learning_rates)
        self._updater: dict[str, ValueUpdater] = {agent: updater for updater in updaters for agent in updater.agents}
        self._count = count

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer all requests; a sample's texts are drawn with seeds that follow from its own."""
        answers: dict[int, list[Completion]] = {}
        plain = [number for number, request in enumerate(requests) if request.agent not in self._updater]
        if plain:
            answers |= zip(plain, super().generate([requests[n] for n in plain], sampling), strict=True)
        for updater in dict.fromkeys(self._updater.values()):
            own = [number for number, request in enumerate(requests) if self._updater.get(request.agent) is updater]
            wide = [self._widened(requests[number]) for number in own]
            drawn = updater.reference.generate(wide, sampling) if wide else []  # type: ignore[union-attr]
            for number, texts in zip(own, drawn, strict=True):
                answers[number] = self._best(updater, requests[number].agent, texts)
        return [answers[number] for number in range(len(requests))]

    def _widened(self, request: Request) -> Request:
        seeds = tuple(derive(seed, "of several", k) for seed in request.seeds for k in range(self._count))
        return replace(request, seeds=seeds)

    def _best(self, updater: ValueUpdater, agent: str, texts: Sequence[Completion]) -> list[Completion]:
        worth = updater.log_ratios([Sample(agent, text, 0.0) for text in texts])
        table = np.array([worth[place] for place in range(len(texts))]).reshape(-1, self._count)
        return [texts[row * self._count + int(best)] for row, best in enumerate(table.argmax(1))]
