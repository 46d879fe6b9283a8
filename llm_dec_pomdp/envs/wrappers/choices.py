"""Choice among offered texts, for policies that cannot write, such as tables.

    env = Choices(make("coophumaneval-v2"), offers)

Each agent observes the offered texts below its first observation, each under a letter, and acts with a letter. The task
receives the text in place of the letter. Any other action reaches the task unchanged.
Under the protocol "centralized" one agent chooses for each agent in turn (`PartByPart`).
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from ...seeding import derive
from ...types import Episode, Event, Group, Message, TaskItem, Turn
from ..base import Script, TextDecPOMDP
from ..episode import Outcome
from ..facts import Facts
from ..task import Task, Transition
from .base import TaskWrapper
from .protocols import ProtocolWrapper

Offers = Callable[[TaskItem, str], Mapping[str, str]]
_REQUEST = "\n\nAnswer with the letter of one of these texts, or write another text."


class Offered(NamedTuple):
    """The state of `Choices`."""

    inner: Any  # state of the task
    item: TaskItem
    is_first: bool = True


class Choices(TaskWrapper[Offered]):
    """A task whose agents choose among texts.

    The order of the letters depends only on the texts, so it does not reveal their kinds. `measure` returns the tables
    of the task for the chosen texts, and a table "choices": the share of each kind in the last actions of each role.

    Args:
        env: A task without a protocol. Protocols wrap `Choices`. Rows without offered texts are left out.
        offers: Returns for a row and a role the offered texts by kind, at most 26 different ones. The number of texts
            of a role is the same in all rows. Roles with an empty mapping write freely.

    Raises:
        TypeError: `env` is not a task.
        ValueError: No row has texts, or a role has a different number in two rows, more than 26, or the same twice.
    """

    def __init__(self, env: TextDecPOMDP, offers: Offers) -> None:
        if not isinstance(env, Task):
            name = env.metadata["name"]
            raise TypeError(f"{name} is a {type(env).__name__}; Choices wraps a task, and protocols wrap Choices")
        offered = [item for item in env.items if any(offers(item, env.role(agent)) for agent in env.possible_agents)]
        if not offered:
            raise ValueError(f"{env.metadata['name']} offers no texts to choose among; leave `candidates` out")
        super().__init__(cast("Task[Any]", env.with_items(offered)), "choices")
        self._offers = offers
        self._letters = {agent: self._letters_of(agent) for agent in env.possible_agents}

    def _letters_of(self, agent: str) -> tuple[str, ...]:
        role, counts = self.role(agent), dict[int, str]()
        for item in self.items:
            texts = list(self._offers(item, role).values())
            if len(set(texts)) < len(texts) or len(texts) > len(string.ascii_uppercase):
                raise ValueError(
                    f"task {item.id!r} offers {len(texts)} texts to {role!r}; give at most 26, no two equal"
                )
            counts[len(texts)] = item.id
        if len(counts) > 1:
            raise ValueError(f"{role!r} has a different number of texts in tasks ({counts}); offer as many in each")
        return tuple(string.ascii_uppercase[: next(iter(counts), 0)])

    @property
    def facts(self) -> Facts:
        """Letters of several agents in one action stand below headers, also where the task reads one module."""
        return replace(super().facts, joined_as_module=False, default_model="")

    def lettered(self, item: TaskItem, agent: str) -> dict[str, str]:
        """Return the offered texts of an agent by letter."""
        texts = sorted(self._offers(item, self.role(agent)).values(), key=lambda text: derive(0, text))
        return dict(zip(self._letters[agent], texts, strict=True))

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the letters of an agent; () for one that writes freely."""
        return self._letters[agent]

    def alone(self) -> TextDecPOMDP | None:
        """Return the task for one agent that chooses for all; None if an agent writes freely."""
        return PartByPart(self) if all(self._letters.values()) else None

    def initial_state(self, item: TaskItem, seed: int) -> Offered:
        """Return the initial state of the task, with the row."""
        return Offered(self.env.initial_state(item, seed), item)

    def observations(self, state: Offered) -> Mapping[str, str | Message]:
        """Return the observations of the task, the first ones with the offered texts."""
        observed: Mapping[str, str | Message] = super().observations(state)
        return (
            {agent: self._offer(state.item, agent, text) for agent, text in observed.items()}
            if state.is_first
            else observed
        )

    def _offer(self, item: TaskItem, agent: str, observed: str | Message) -> str | Message:
        listed = "".join(f"\n\n{letter}:\n{text.strip()}" for letter, text in self.lettered(item, agent).items())
        if not listed or isinstance(observed, Message) or not observed:
            return observed
        return observed + _REQUEST + listed

    def transition(self, state: Offered, actions: Mapping[str, str], seed: int) -> Transition[Offered]:
        """Pass the chosen texts to the task."""
        step = self.env.transition(state.inner, self._written(state.item, actions), seed)
        return replace(step, state=Offered(step.state, state.item, is_first=False))

    def _written(self, item: TaskItem, actions: Mapping[str, str]) -> dict[str, str]:
        return {agent: self.lettered(item, agent).get(text.strip(), text) for agent, text in actions.items()}

    def script(self, name: str) -> Script:
        """Return the script of the task, which observes no offered texts."""
        say = self.env.script(name)

        def say_without_offer(agent: str, history: Sequence[Message]) -> str:
            return say(agent, [message._replace(text=message.text.partition(_REQUEST)[0]) for message in history])

        return say_without_offer

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the tables of the task for the chosen texts, and "choices"; see the class."""
        items = {item.id: item for item in self.items}
        counts: dict[str, int] = {}
        written: list[Group] = []
        for group in groups:
            item = items[group.item_id]
            written.append(replace(group, episodes=tuple(self._with_texts(e, item) for e in group.episodes)))
            for episode in written[-1].episodes:
                for agent, text in episode.last_texts.items():
                    role = self.role(agent)
                    offered = self._offers(item, role)
                    kinds = [kind for kind, candidate in offered.items() if candidate == text]
                    for kind in [*offered, "other"]:
                        counts.setdefault(f"{role}: {kind} %", 0)
                    counts[f"{role}: {kinds[0] if kinds else 'other'} %"] += 1
        episodes = sum(len(group.episodes) for group in groups)
        shares = {"choices": {name: 100 * count / episodes for name, count in counts.items()}} if episodes else {}
        return {**self.env.measure(written), **shares}

    def _with_texts(self, episode: Episode, item: TaskItem) -> Episode:
        """Return the episode with the chosen texts as actions of their agents, also if one agent wrote all parts."""
        is_joint = len(episode.last_texts) == 1 < len(self.possible_agents)
        turns: list[Turn] = []
        for turn in episode.turns:
            completions = dict(turn.actions)
            if is_joint:
                [whole] = completions.values()
                parts = zip(self.possible_agents, self.facts.split(whole.text), strict=True)
                completions = {agent: replace(whole, text=part) for agent, part in parts}
            texts = self._written(item, {agent: completion.text for agent, completion in completions.items()})
            actions = {agent: replace(completions[agent], text=text) for agent, text in texts.items()}
            turns.append(replace(turn, actions=actions))
        return replace(episode, turns=tuple(turns))


class PartByPart(ProtocolWrapper):
    """A single agent that acts for each agent of a task in turn, with the choices of that agent.

    Each of its observations is that of one agent, below the header `[role]`. Its history has all observations and all
    its actions. The joint action is scored when every part is chosen.

    Args:
        env: The task, with different roles.
    """

    def __init__(self, env: TextDecPOMDP) -> None:
        super().__init__(env, phases=len(env.possible_agents), n_agents=1)

    @property
    def facts(self) -> Facts:
        """The facts of the task; the one agent receives the joint reward."""
        return replace(super().facts, joint_reward=True)

    def role(self, agent: str) -> str:
        """Return "team"."""
        return "team"

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the choices of the agent whose part is next; without a history the longest of all agents."""
        if not history:
            return max(map(self.env.choices, self.env.possible_agents), key=len)
        return self.env.choices(self._acts_for(history[-1].text))

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the tables of the task, in which each agent has its part."""

        def of_task(episode: Episode) -> Episode:
            turns: list[Turn] = []
            for turn in episode.turns:
                acts_for = {agent: self._acts_for(text) for agent, text in turn.observations.items()}
                turns.append(replace(turn, actions={acts_for[agent]: c for agent, c in turn.actions.items()}))
            return replace(episode, turns=tuple(turns))

        return self.env.measure([replace(group, episodes=tuple(map(of_task, group.episodes))) for group in groups])

    def _acts_for(self, observation: str) -> str:
        role = observation.partition("\n")[0].strip("[]")
        return next(agent for agent in self.env.possible_agents if self.env.role(agent) == role)

    def _ask(self, phase: int) -> Mapping[str, str]:
        agent = self.env.possible_agents[phase]
        observed = self._observed.get(agent)
        return {self.possible_agents[0]: f"[{self.env.role(agent)}]\n{observed}"} if observed else {}

    def _advance(self, item: TaskItem, actions: Mapping[str, str], seed: int) -> Outcome:
        agent = self.env.possible_agents[self.turn % self.phases]
        return super()._advance(item, dict(zip([agent], actions.values(), strict=False)), seed)  # or no action

    def _reads(self, told: Mapping[str, str]) -> tuple[Event, ...]:
        """Return (): no agent reads the text of another."""
        return ()

    def _roster(self) -> None:
        """Return None: the one agent stays."""

    def _rewards(self, after: Transition[Any]) -> None:
        """Return None: the one agent receives the reward of the team."""
