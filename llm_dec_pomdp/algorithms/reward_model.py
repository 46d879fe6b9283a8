# pyright: basic
"""A reward model, trained on preference pairs of joint actions (Bradley and Terry).

The value of an episode is the sum of the values of its texts, r(h, a) of `agents.judges`, and w is preferred to l with
probability

    P(w > l) = sigmoid(sum over w of r(h, a) - sum over l of r(h, a))                                    (Bradley-Terry)

as in arXiv:1706.03741. The loss of a pair is - log P(w > l): the loss of MADPO with beta 1, and with values in place of
log-ratios to a reference. One agent writes all parts (`centralized`), so that its model reads all observations and
actions. Its reward can then train a team under any protocol: `envs.wrappers.LearnedReward`.

Pairs of held-out tasks are not trained on; the share of them that the model orders correctly is reported. A trained
reward model no longer writes good texts. So in evaluations the initial weights sample several texts, and the text with
the highest value is the action: a run measures best-of-n by the learned reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field, model_validator

from ..agents.base import ParameterGroup, Policy, Request, Sampling, Team
from ..agents.judges import ModelJudge, end_of, ended, value, values
from ..config import Positive
from ..rollout import Preferences
from ..seeding import derive, uniforms
from ..types import Completion, Group
from .base import Metrics
from .madpo import MADPO, MADPOConfig, PairUpdater
from .options import UpdaterOptions
from .samples import Sample


class RewardModelConfig(MADPOConfig):
    """Options of the reward model, and those of MADPO that apply."""

    beta: Annotated[float, Field(ge=1, le=1)] = 1.0
    """Fixed: the scale of the values is learned."""
    loss: Literal["dpo"] = "dpo"
    """Fixed: the loss of Bradley and Terry."""
    likelihood: Annotated[float, Field(ge=0, le=0)] = 0.0
    """Fixed: a reward model writes no texts."""
    refresh: Annotated[int, Field(ge=0, le=0)] = 0
    """Fixed: values are compared without a reference."""
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the tasks whose pairs are held out to measure accuracy."""
    best_of: Positive = 4
    """Number of completions that are sampled in evaluations; the one with the highest value is the action."""

    @model_validator(mode="after")
    def _check_own_episodes(self) -> RewardModelConfig:
        if not self.source:
            raise ValueError(
                "source is missing, but a reward model is trained on recorded pairs; set source to a file of pairs or "
                "traces, or to the folder of a run"
            )
        return self


class ValueUpdater(PairUpdater):
    """Updater that maximises the sum of the values of texts times their advantages."""

    def __init__(
        self, policy: Policy, groups: Sequence[ParameterGroup], temperature: float, options: UpdaterOptions
    ) -> None:
        super().__init__(policy, groups, temperature, options)
        self.end = end_of(policy, min(self.agents))

    def scores(self, samples: Sequence[Sample]) -> torch.Tensor:
        """Return r(h, a) of every text [N]."""
        return values(self.policy, [(s.agent, ended(s.completion, self.end)) for s in samples])

    def preferences(self, samples: Sequence[Sample]) -> torch.Tensor:
        """Return the values, since there is no reference."""
        return self.scores(samples)


class RewardModel(MADPO):
    """Reward model: values of joint actions, trained on preference pairs.

    Args:
        team: The team that becomes the reward model; its initial weights write the texts of evaluations.
        sampling: Sampling of these texts.
        config: Options.

    Raises:
        ValueError: A policy is in another process or cannot be trained on given texts, or no pairs are left to train
            on.
    """

    protocol = "centralized"
    Config = RewardModelConfig
    shows_texts = True
    updater = ValueUpdater

    def __init__(self, team: Team, sampling: Sampling, config: RewardModelConfig) -> None:
        super().__init__(team, sampling, config)
        if not all(isinstance(updater, ValueUpdater) for updater in self.updaters):
            raise ValueError("reward_model can only be trained in the process of its run; set --executor to local")
        self._held_out = config.held_out
        tasks = Preferences(config.source, config.pairs, config.margin).pairs()
        if all(map(self.held_out, tasks)):
            raise ValueError(
                f"held_out is {config.held_out}, so that all {len(tasks)} tasks of {config.source} are held out; "
                "record more tasks, or set held_out=0"
            )
        self._speakers = BestOf(team, self.updaters, config.best_of)

    @property
    def policy(self) -> Policy:
        """The initial weights, with the best of several samples."""
        return self._speakers

    def held_out(self, item_id: str) -> bool:
        """Return whether the pairs of a task are held out for testing."""
        return float(uniforms(derive(0, "held out", item_id), 1)[0]) < self._held_out

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Train on the pairs of the tasks that are not held out.

        Returns:
            The metrics of `MADPO.update`, where `preferred` is the share of pairs that are ordered correctly before the
            step; and `preferred_held_out`, the same share of the held-out tasks, where there are any.
        """
        metrics = super().update([group for group in groups if not self.held_out(group.item_id)])
        unseen = self.pairs([group for group in groups if self.held_out(group.item_id)])
        if unseen:
            metrics["preferred_held_out"] = float((self.gaps(unseen) > 0).mean())
        return metrics


class BestOf(Team):
    """A team that returns the text with the highest value of several samples; agents without an updater act as before.

    Args:
        team: The team.
        updaters: Value updaters; their reference samples the texts.
        count: Number of texts to choose from.
    """

    def __init__(self, team: Team, updaters: Sequence[Any], count: int) -> None:
        super().__init__(team.members, learning_rates=team.learning_rates, samplings=team.samplings)
        self._updater: dict[str, ValueUpdater] = {agent: updater for updater in updaters for agent in updater.agents}
        self._count = count

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Answer all requests; the seeds of the candidate texts follow from the seeds of the request."""
        answers: dict[int, list[Completion]] = {}
        plain = [number for number, request in enumerate(requests) if request.agent not in self._updater]
        if plain:
            answers |= zip(plain, super().generate([requests[n] for n in plain], sampling), strict=True)
        for updater in dict.fromkeys(self._updater.values()):
            numbers = [n for n, request in enumerate(requests) if self._updater.get(request.agent) is updater]
            wide: list[Request] = []
            for request in (requests[number] for number in numbers):
                seeds = tuple(derive(seed, "of several", k) for seed in request.seeds for k in range(self._count))
                wide.append(replace(request, seeds=seeds))
            several = self.ask(updater.reference, wide, sampling) if wide else []
            for number, texts in zip(numbers, several, strict=True):
                limit = self.sampling_of(requests[number].agent, sampling).max_new_tokens
                answers[number] = self._best(updater, requests[number], texts, limit)
        return [answers[number] for number in range(len(requests))]

    def _best(
        self, updater: ValueUpdater, request: Request, texts: Sequence[Completion], limit: int
    ) -> list[Completion]:
        judge = ModelJudge(updater.policy, agent=request.agent, limit=limit)
        likelihoods = judge.log_likelihoods([tuple(request.history)] * len(texts), [text.text for text in texts])
        table = np.array(list(map(value, likelihoods))).reshape(-1, self._count)
        return [texts[row * self._count + int(best)] for row, best in enumerate(table.argmax(1))]
