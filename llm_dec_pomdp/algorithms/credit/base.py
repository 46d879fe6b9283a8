"""The contract of credit assignment, and the functions that several kinds of credit use.

Read `joint.py` first, the credit of MAGRPO.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from ...config import Config, Count
from ...rollout import Rollout, Trajectories
from ...types import Group, grouped
from ..advantages import (
    Array,
    Choices,
    Compare,
    Kind,
    exponential_baselines,
    group_advantages,
    returns,
    weighted_advantages,
)
from ..controls import BaselineScope
from ..samples import Sample

if TYPE_CHECKING:
    from ...envs.base import TextDecPOMDP


class Credit(Config, ABC):
    """Credit assignment of a learner: the rollout that it needs, and samples with advantages.

    Its fields are its options.
    """

    without_signal: Literal["count", "drop"] = "count"
    """Treatment of groups without signal, in which no completion has an advantage: they count in the mean of the
    objective (count), or are dropped from it (drop)."""
    replacements: Count = 0
    """Maximum number of times that a group without signal is replaced by a group of another task, sampled at random
    (dynamic sampling: DAPO, arXiv:2503.14476). Returns and costs of the update count all sampled groups."""

    @property
    def baseline_scope(self) -> BaselineScope:
        """The returns that the baseline is computed from; see `controls`."""
        return "group"

    @property
    def least_group_size(self) -> int:
        """Smallest useful number of episodes per task: without other completions to compare with, advantages are 0."""
        return 2

    @property
    @abstractmethod
    def rollout(self) -> Rollout:
        """The rollout that plays tasks for it."""

    def incompatibility(self, env: TextDecPOMDP) -> str:
        """Return the reason why an environment cannot be played in this way, else "" (the default)."""
        return ""

    @abstractmethod
    def advantages(self, returns: Array) -> Array:
        """Return the advantages [N] of returns [N] that this credit compares with each other."""

    @abstractmethod
    def samples(self, group: Group, gamma: float, advantages: Compare | None = None) -> Iterator[Sample]:
        """Return every completion of a group with its advantage, NaN if it could not be scored.

        Args:
            group: Played by `rollout`.
            gamma: Discount between turns.
            advantages: Function from returns [N] to advantages [N]; left out, `advantages` of this credit.
        """

    def over_update(self, samples: Sequence[Sample], baselines: MutableMapping[str, float]) -> Sequence[Sample]:
        """Return the samples of all groups of an update, with new advantages if the credit compares across groups.

        Args:
            samples: The samples of all groups.
            baselines: The baseline of each agent from earlier updates, which the credit may use and change.
        """
        return samples


_OVER_UPDATE = ("batch", "agent", "role")  # advantages that compare completions of different groups


class BaselineCredit(Credit):
    """Credit with the baseline as an option; MAGRPO and its relatives differ in it."""

    advantage: Literal[Kind, "batch", "agent", "role"] = "std"
    """Baseline and scale of the advantage: std, mean, leave_one_out, max or raw over a group; batch over all
    completions of an update; agent over all completions of the same agent in an update; or role, the return minus the
    exponential moving average of the same agent's returns in all earlier episodes. batch and role need no groups. batch
    (ReBN, arXiv:2510.01051) has one baseline for all tasks: if returns differ more between tasks than between
    completions, the signal is weak. With agent, the spread of one agent's returns does not change another agent's step
    size (Dr. MAS, arXiv:2602.08847). role is for self-play, where roles have different values (RAE of SPIRAL,
    arXiv:2506.24119)."""
    baseline_decay: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """Decay of the moving average of advantage = "role": the weight of the earlier mean."""

    @model_validator(mode="after")
    def _check_role_baseline(self) -> BaselineCredit:
        if self.advantage != "role" and "baseline_decay" in self.model_fields_set:
            raise ValueError(
                f"baseline_decay is for advantage='role', and advantage is {self.advantage!r}; leave baseline_decay out"
            )
        if self.advantage == "role" and not isinstance(self.rollout, Trajectories):
            raise ValueError(
                "advantage is 'role', whose baseline is a mean over trajectories, but this credit samples several "
                "joint actions at a decision point; use credit='joint' without a tree, or another advantage"
            )
        return self

    @model_validator(mode="after")
    def _check_replacements_over_an_update(self) -> BaselineCredit:
        if self.replacements and self.advantage in _OVER_UPDATE:
            raise ValueError(
                f"replacements is {self.replacements}, but advantage is {self.advantage!r}, which compares completions "
                "of different groups; set replacements to 0, or advantage to 'std'"
            )
        return self

    @property
    def baseline_scope(self) -> BaselineScope:
        """See `Credit`; raw, max and role do not centre the advantages of an update."""
        centred: dict[str, BaselineScope] = {"batch": "update", "agent": "update"}
        return "nothing" if self.advantage in ("raw", "max", "role") else centred.get(self.advantage, "group")

    @property
    def least_group_size(self) -> int:
        """See `Credit`; 1 if advantages do not depend on the group."""
        return 1 if self.advantage in ("raw", *_OVER_UPDATE) else 2

    @property
    def kind(self) -> Kind:
        """The baseline within a group; raw for batch, agent and role, whose baseline follows in `over_update`."""
        return "raw" if self.advantage in _OVER_UPDATE else self.advantage

    def advantages(self, returns: Array) -> Array:
        """Call `group_advantages` with the baseline `self.kind`."""
        return group_advantages(returns, self.kind)

    def over_update(self, samples: Sequence[Sample], baselines: MutableMapping[str, float]) -> Sequence[Sample]:
        """Compute advantages over all samples, which hold returns R, if advantage is batch, agent or role.

        | advantage | A |
        |---|---|
        | batch | (R - mean R) / std R over all samples, weighted by `Sample.weight` (ReBN) |
        | agent | the same over the samples of each agent |
        | role | R - `exponential_baselines`, with the returns from the first action of an agent in each episode |

        All tasks share a baseline. With batch and agent, equal returns have advantage 0. Texts without a score are left
        out of every mean.

        Args:
            samples: The samples of all groups.
            baselines: The mean of each agent for role, which is updated.
        """
        if self.advantage not in _OVER_UPDATE:
            return samples
        result = list(samples)
        if self.advantage == "role":
            for agent, places in grouped(range(len(samples)), lambda place: samples[place].agent).items():
                earned: dict[tuple[int, int], float] = {}  # return of each episode from the agent's first action on
                for s in (samples[place] for place in places):
                    earned.setdefault((s.group, s.trajectory), s.advantage)
                before, baselines[agent] = exponential_baselines(
                    [*earned.values()], baselines.get(agent, 0.0), self.baseline_decay
                )
                of = dict(zip(earned, before.tolist(), strict=True))
                for place in places:
                    s = samples[place]
                    result[place] = replace(s, advantage=s.advantage - of[s.group, s.trajectory])
            return result
        by_agent = self.advantage == "agent"
        for places in grouped(range(len(samples)), lambda place: samples[place].agent if by_agent else "").values():
            compared = [samples[place] for place in places]
            values = weighted_advantages([s.advantage for s in compared], [s.weight for s in compared])
            for place, value in zip(places, values.tolist(), strict=True):
                result[place] = replace(samples[place], advantage=value)
        return result


def at_decisions(group: Group, gamma: float, advantages: Callable[[Choices, Array, int], Array]) -> Iterator[Sample]:
    """Return the samples of decision points with several joint actions: one advantage per agent and completion.

    Args:
        group: A group with decision points.
        gamma: Discount between turns.
        advantages: Function from the indices of completions [B, n], the returns of each agent [n, B], and `width` to
            advantages [n, width]. There are B joint actions, n agents and `width` completions sampled per agent.

    Raises:
        ValueError: The group has no decision points.
    """
    if group.episodes and not group.decisions:
        raise ValueError(
            f"the group of task {group.item_id!r} holds only trajectories, and this learner gives credit at "
            "decision points; sample it with learner.rollout.play(...), as the trainer does"
        )
    for decision in group.decisions:
        branches, agents = decision.branches, list(decision.actions)
        choices: Choices = np.array([branch.choice for branch in branches], dtype=np.int64)
        values = np.array([[returns(b.rewards_of(agent), gamma)[0] for b in branches] for agent in agents])  # (return)
        shape = len(agents), len(branches)
        table = advantages(choices.reshape(shape[::-1]), values.reshape(shape), decision.width)
        for (agent, texts), row in zip(decision.actions.items(), table.tolist(), strict=True):
            for completion, advantage in zip(texts[: decision.width], row, strict=True):
                yield Sample(agent, completion, advantage, weight=decision.share)
