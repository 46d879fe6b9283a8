"""An exact solver of small Dec-POMDPs with two agents: branch and bound over joint decision rules, stage by stage.

What is kept of the past is P(history 1, history 2, state). Histories of an agent that leave the same distribution over
everything else are one (Oliehoek, Whiteson, Spaan, "Lossless clustering of histories in decentralized POMDPs", AAMAS
2009), and what remains to be earned is bounded by the team that would share its observations, which is a POMDP. The
decision rules of a stage are tried from the best bound down, until the bound is no better than what was reached.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from llm_dec_pomdp.envs.classics.model import Model

Array = npt.NDArray[np.float64]
History = tuple[int, ...]  # own observations
Rule = tuple[int, ...]  # an action for each type of an agent
Policy = dict[History, int]
CLOSE = 1e-9


class Past(NamedTuple):
    """What is known at a stage.

    Attributes:
        weights: P(type 1, type 2, state), shape (C1, C2, S).
        members: By agent, which histories are of each type.
    """

    weights: Array
    members: tuple[tuple[tuple[History, ...], ...], ...]


class Solver:
    """Optimal teams of a model at a horizon.

    Args:
        model: Two agents.
        horizon: Turns.
    """

    def __init__(self, model: Model, horizon: int) -> None:
        self.model, self.horizon = model, horizon
        first, second = (len(names) for names in model.actions)
        states = len(model.states)
        self.acting = (first, second)
        self.transitions = model.transitions.reshape(first * second, states, states)
        self.watching = model.joint_watching.reshape(first * second, states, -1)
        rewards = (model.transitions * model.rewards).sum(axis=-1)
        self.rewards: Array = rewards.reshape(first * second, states)
        self._bounds: dict[tuple[int, bytes], float] = {}

    def solve(self) -> tuple[float, tuple[Policy, Policy]]:
        """The value of an optimal team, and its policies for every history that can happen."""
        one_type: tuple[tuple[History, ...], ...] = (((),),)
        begin = Past(self.model.start[None, None, :], (one_type, one_type))
        solved = self._best(begin, 0, -np.inf)
        assert solved is not None
        return solved

    def _best(self, past: Past, stage: int, floor: float) -> tuple[float, Any] | None:
        """The best continuation, where it is worth more than `floor`."""
        best: tuple[float, Any] | None = None
        first, second, _ = past.weights.shape
        bounds = np.array(
            [[self._bound_of_actions(past.weights[i, j], stage) for j in range(second)] for i in range(first)]
        )
        for bound, rules in ordered_rules(bounds.reshape(first, second, *self.acting)):
            if bound <= floor + CLOSE:
                break
            named = self._named(past, rules)
            if stage == self.horizon - 1:
                return bound, named  # exact, and the first is the best
            now = self._reward(past, rules)
            later = self._best(self._following(past, rules), stage + 1, floor - now)
            if later is not None:
                floor = now + later[0]
                best = floor, tuple({**mine, **after} for mine, after in zip(named, later[1], strict=True))
        return best

    def _named(self, past: Past, rules: tuple[Rule, Rule]) -> tuple[Policy, ...]:
        return tuple(
            {history: action for histories, action in zip(types, rule, strict=True) for history in histories}
            for types, rule in zip(past.members, rules, strict=True)
        )

    def _joint(self, rules: tuple[Rule, Rule]) -> Iterator[tuple[int, int, int]]:
        for (i, a), (j, b) in itertools.product(enumerate(rules[0]), enumerate(rules[1])):
            yield i, j, a * self.acting[1] + b

    def _reward(self, past: Past, rules: tuple[Rule, Rule]) -> float:
        return float(sum(past.weights[i, j] @ self.rewards[joint] for i, j, joint in self._joint(rules)))

    def _following(self, past: Past, rules: tuple[Rule, Rule]) -> Past:
        """What is known after the joint action and what each agent observed then."""
        first, second, states = past.weights.shape
        seen = tuple(len(names) for names in self.model.observations)
        weights = np.zeros((first, seen[0], second, seen[1], states))
        for i, j, joint in self._joint(rules):
            following = past.weights[i, j] @ self.transitions[joint]
            weights[i, :, j] = (following[:, None] * self.watching[joint]).T.reshape(*seen, states)
        members = tuple(
            tuple(tuple((*history, o) for history in histories) for histories in types for o in range(count))
            for types, count in zip(past.members, seen, strict=True)
        )
        return clustered(Past(weights.reshape(first * seen[0], second * seen[1], states), members))

    # --- bounds --------------------------------------------------------------------------------------------------

    def _bound_of_actions(self, weights: Array, stage: int) -> Array:
        """For every joint action, the most that is earned from a stage on, weighted by how likely it is."""
        now = self.rewards @ weights
        if stage == self.horizon - 1:
            return now
        following = np.einsum("s,ast->at", weights, self.transitions)
        children = following[:, :, None] * self.watching  # (joint action, state, joint observation)
        if stage == self.horizon - 2:
            return now + (self.rewards @ children).max(axis=1).sum(axis=-1)
        return now + np.array(
            [
                sum(self._bound(child_type, stage + 1) for child_type in child.T if child_type.any())
                for child in children
            ]
        )

    def _bound(self, weights: Array, stage: int) -> float:
        mass = weights.sum()
        key = stage, np.round(weights / mass, 10).tobytes()
        if key not in self._bounds:
            self._bounds[key] = float(self._bound_of_actions(weights / mass, stage).max())
        return mass * self._bounds[key]


def ordered_rules(values: Array) -> Iterator[tuple[float, tuple[Rule, Rule]]]:
    """All joint decision rules with their values, the best first.

    Args:
        values: What pairs of types add under pairs of actions, shape (C1, C2, A1, A2).
    """
    first_types, second_types, actions, _ = values.shape
    rest = np.zeros((first_types + 1, *values.shape[1:2], values.shape[3]))  # the most that types from here on can add
    for place in reversed(range(first_types)):
        rest[place] = rest[place + 1] + values[place].max(axis=1)
    count = itertools.count(0, -1)  # of equals the latest first, so that ties go deep and not wide
    heap: list[Any] = [(-round(rest[0].max(axis=-1).sum(), 9), next(count), (), rest[0] * 0, ())]
    while heap:
        bound, _, first, sums, second = heapq.heappop(heap)
        if len(first) < first_types:
            after = sums + values[len(first)].transpose(1, 0, 2)  # (A1, C2, A2)
            most = (after + rest[len(first) + 1]).max(axis=-1).sum(axis=-1)
            for action in range(actions):
                heapq.heappush(heap, (-round(most[action], 9), next(count), (*first, action), after[action], ()))
        elif len(second) < second_types:
            row = sums[len(second)]
            for action, loss in enumerate(row.max() - row):
                heapq.heappush(heap, (round(bound + loss, 9), next(count), first, sums, (*second, action)))
        else:
            yield -bound, (first, second)


def clustered(past: Past) -> Past:
    """Types that leave the same distribution over everything else made one; what cannot happen left out."""
    weights, members = past.weights, list(past.members)
    while True:
        before = weights.shape
        for agent in (0, 1):
            rows = weights if agent == 0 else weights.transpose(1, 0, 2)
            groups: dict[bytes, list[int]] = {}
            for place, row in enumerate(rows):
                if (mass := row.sum()) > 1e-15:
                    groups.setdefault((np.round(row / mass, 9) + 0.0).tobytes(), []).append(place)
            merged = np.array([rows[places].sum(axis=0) for places in groups.values()])
            members[agent] = tuple(sum((members[agent][p] for p in places), ()) for places in groups.values())
            weights = merged if agent == 0 else merged.transpose(1, 0, 2)
        if weights.shape == before:
            return Past(weights, tuple(members))
