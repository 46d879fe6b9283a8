"""The packages of `modules-v0` for one author, who chooses a version of every module by a letter, one in each turn.

It says as many letters as a team, whose authors choose at once and do not see each other's.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...types import Episode, Group, Message, TaskItem
from ..base import Script, TextDecPOMDP
from ..facts import Facts
from ..task import Transition
from ..wrappers.base import TaskWrapper
from .modules import Modules, State, recalled

AUTHOR = "agent_0"


class Chosen(NamedTuple):
    """The state of `OneAuthor`: that of the team, whose turn comes when all is chosen, and the letters so far."""

    inner: State
    letters: tuple[str, ...] = ()


class OneAuthor(TaskWrapper[Chosen]):
    """One author of all modules, who is told of a module when it is to choose it.

    Args:
        team: The task with candidates.
    """

    env: Modules

    def __init__(self, team: Modules) -> None:
        self._wrap(copy.copy(team), "alone")
        TextDecPOMDP.__init__(self, 1, len(team.possible_agents), team.render_mode)

    @property
    def facts(self) -> Facts:
        """As of the team."""
        return replace(super().facts, roles=("author",))

    def initial_state(self, item: TaskItem, seed: int) -> Chosen:
        """Nothing is chosen yet."""
        return Chosen(self.env.initial_state(item, seed))

    def observations(self, state: Chosen) -> Mapping[str, str]:
        """The module that is next; at first also what the package is."""
        place = len(state.letters)
        if place == len(self.env.possible_agents):
            return {}
        text = self.env.introduction(state.inner.item, place, "all written by you, one after the other")
        return {AUTHOR: text.partition("\n\n")[2] if place else text}

    def roster(self, state: Chosen) -> Sequence[str]:
        """The one author."""
        return self.possible_agents

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """The letters of the module that is next."""
        return self.env.choices(agent, history[-1:])

    def transition(self, state: Chosen, actions: Mapping[str, str], seed: int) -> Transition[Chosen]:
        """Take the letter; the tests run after the last one, and what is not chosen then stays a stub."""
        letters = (*state.letters, actions[AUTHOR])
        if len(letters) < min(self.max_turns, len(self.env.possible_agents)):
            return Transition(state._replace(letters=letters), 0.0)
        after = self.env.transition(state.inner, dict(zip(self.env.possible_agents, letters, strict=False)), seed)
        chosen = Chosen(after.state, letters)
        return Transition(chosen, after.reward, after.score, terminated=True, events=after.events)

    def script(self, name: str) -> Script:
        """The team "gold" says the modules of the solution."""
        if name != "gold":
            return super().script(name)
        known = {
            (AUTHOR, self.observations(Chosen(state, ("",) * place))[AUTHOR]): source
            for state in (self.env.initial_state(item, 0) for item in self.items)
            for place, source in enumerate(state.item.reference)
        }
        return lambda agent, history: recalled(known, agent, history[-1:])

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """As of the team, with a letter of each author."""
        return self.env.measure([replace(g, episodes=tuple(map(self._of_team, g.episodes))) for g in groups])

    def _of_team(self, episode: Episode) -> Episode:
        said = zip(self.env.possible_agents, episode.turns, strict=False)
        return replace(episode, turns=tuple(replace(t, actions={agent: t.actions[AUTHOR]}) for agent, t in said))
