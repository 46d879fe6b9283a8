"""Search over the policies of the only agent of a task, on the states that the agent cannot tell apart.

All rows count the same. The states of rows with equal histories form a group. After each history the search tries every
action of the agent on all states of the group, and divides their successors into groups by the next observation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

from llm_dec_pomdp.envs import Task, Transition
from llm_dec_pomdp.types import Message

S = TypeVar("S")


class Search(Generic[S]):
    """A search over the policies of the only agent of a deterministic task, on all rows.

    Args:
        env: The task. Its `choices` are the actions that are tried, the same after every history.
        key: Function from a state to the part on which future rewards and observations depend. The future rewards of a
            state sum to at most the highest score that the task declares.
    """

    def __init__(self, env: Task[Any], key: Callable[[S], Hashable]) -> None:
        self.env, self.key = env, key
        [self.agent] = env.possible_agents
        self._best: dict[Hashable, tuple[float, str]] = {}
        self._steps: dict[Hashable, Transition[S]] = {}

    def initial(self) -> list[S]:
        """Return the initial state of every row."""
        return [self.env.initial_state(item, 0) for item in self.env.items]

    def best(self, states: Sequence[S], turn: int = 0) -> tuple[float, str]:
        """Return the highest sum of the returns of states with the same history, and an action that reaches it.

        An action is skipped if it cannot be better than the best one so far, even if every next state reached the
        highest score.
        """
        known = turn, tuple(map(self.key, states))
        if known not in self._best:
            last, most = turn + 1 >= self.env.max_turns, self.env.declared.score_range[1]
            tried: list[tuple[float, str, float, list[S]]] = []
            for action in self.env.choices(self.agent):
                steps = [self._step(state, action, turn) for state in states]
                playing = [step.state for step in steps if not step.terminated and not last]
                reward = sum(step.reward for step in steps)
                tried.append((reward + most * len(playing), action, reward, playing))
            found = -math.inf, ""
            for bound, action, reward, playing in sorted(tried, key=lambda entry: -entry[0]):
                if bound > found[0]:
                    value = reward + sum(self.best(group, turn + 1)[0] for group in self.groups(playing))
                    found = max(found, (value, action), key=lambda pair: pair[0])
            self._best[known] = found
        return self._best[known]

    def _step(self, state: S, action: str, turn: int) -> Transition[S]:
        known = turn, self.key(state), action
        if known not in self._steps:
            self._steps[known] = self.env.transition(state, {self.agent: action}, 0)
        return self._steps[known]

    def groups(self, states: Sequence[S]) -> list[list[S]]:
        """Return the states, grouped by observation."""
        found: dict[Any, list[S]] = {}
        for state in states:
            found.setdefault(self.env.observations(state)[self.agent], []).append(state)
        return list(found.values())

    def after(self, history: Sequence[Message]) -> list[S]:
        """Return the states of the rows that are consistent with a history, which begins with an observation."""
        states = self.initial()
        for role, text, _ in history:
            if role == "action":
                steps = [self.env.transition(state, {self.agent: text}, 0) for state in states]
                states = [step.state for step in steps if not step.terminated]
            else:
                states = [state for state in states if self.env.observations(state)[self.agent] == text]
        return states
