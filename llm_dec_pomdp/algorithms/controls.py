"""What a learner has to be compared with before anyone believes that it learnt from the reward."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..seeding import generator
from ..types import Decision, Episode, Group
from .magrpo import MAGRPO
from .samples import Sample


class Shuffled(MAGRPO):
    """MAGRPO whose rewards change places within their group before anything is learnt from them.

    Rollouts, sizes of the advantages and number of updates are those of MAGRPO; only which text earned what is lost.
    Whatever such a team gains, it did not gain from the reward. Takes every option of MAGRPO.
    """

    def samples(self, groups: Sequence[Group]) -> list[Sample]:
        """Every trainable text with the advantage of another one."""
        return super().samples([shuffled(g, generator(self.updates, "shuffled", i)) for i, g in enumerate(groups)])


def shuffled(group: Group, random: np.random.Generator) -> Group:
    """The group with its rewards permuted: among the episodes turn by turn, and among the branches of a decision."""
    turns = itertools.zip_longest(*(episode.rewards for episode in group.episodes))
    moved = [_permuted([r for r in rewards if r is not None], random) for rewards in turns]

    def episode_paid(episode: Episode) -> Episode:
        paid = zip(episode.turns, moved, strict=False)  # other episodes of the group may be longer
        return replace(episode, turns=tuple(replace(turn, reward=next(rewards)) for turn, rewards in paid))

    def decision_paid(decision: Decision) -> Decision:
        order: list[int] = random.permutation(len(decision.branches)).tolist()
        rewards = [decision.branches[i].rewards for i in order]
        branches = [replace(b, rewards=r) for b, r in zip(decision.branches, rewards, strict=True)]
        return replace(decision, branches=tuple(branches))

    return replace(
        group, episodes=tuple(map(episode_paid, group.episodes)), decisions=tuple(map(decision_paid, group.decisions))
    )


def _permuted(rewards: Sequence[float], random: np.random.Generator) -> Iterator[float]:
    order: list[int] = random.permutation(len(rewards)).tolist()
    return (rewards[i] for i in order)
