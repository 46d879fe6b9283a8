"""Choice among candidate actions, for policies that choose from a list instead of writing, such as tables.

    env = Choices(make("coophumaneval-v2"), offers)

Each agent observes the candidates below its first observation, each under a letter, and acts with a letter. The task
receives the candidate in place of the letter. Any other action reaches the task unchanged. Under the protocol
"centralized", one agent chooses for each agent in turn (`PartByPart`).

`TurnChoices` is the base for tasks whose candidates depend on the state: it offers candidates in every turn.
"""

from __future__ import annotations

import re
import string
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, cast

from ...seeding import derive
from ...types import NO_CALL, Episode, Event, Group, Message, TaskItem, Tool, Turn
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
    """A task whose agents choose among candidate actions.

    The order of the letters depends only on the candidates, so it does not reveal their kinds. `measure` returns the
    measurements of the task, with letters replaced by the chosen candidates, and a table "choices": the share of each
    kind in the last actions of each role, in %.

    Args:
        env: A task without a protocol. Protocols wrap `Choices`. Rows without candidates are left out.
        offers: A function from a row and a role to the candidates by kind, at most 26 different ones. A role has the
            same number of candidates in all rows. A role with an empty mapping writes freely.

    Raises:
        TypeError: `env` is not a task.
        ValueError: No row has candidates, or a role has more than 26, has two equal ones, or has different numbers of
            candidates in two rows.
    """

    def __init__(self, env: TextDecPOMDP, offers: Offers) -> None:
        if not isinstance(env, Task):
            name = env.metadata["name"]
            raise TypeError(f"{name} is a {type(env).__name__}; Choices wraps a task, and protocols wrap Choices")
        offered = [item for item in env.items if any(offers(item, env.role(agent)) for agent in env.possible_agents)]
        if not offered:
            raise ValueError(f"{env.metadata['name']} has no candidate actions; leave the option `candidates` out")
        super().__init__(cast("Task[Any]", env.with_items(offered)), "choices")
        self._offers = offers
        self._letters = {agent: self._letters_of(agent) for agent in env.possible_agents}

    def _letters_of(self, agent: str) -> tuple[str, ...]:
        role, counts = self.role(agent), dict[int, str]()
        for item in self.items:
            texts = list(self._offers(item, role).values())
            if len(set(texts)) < len(texts) or len(texts) > len(string.ascii_uppercase):
                raise ValueError(
                    f"task {item.id!r} offers {len(texts)} candidates to {role!r}; give at most 26, no two equal"
                )
            counts[len(texts)] = item.id
        if len(counts) > 1:
            raise ValueError(
                f"{role!r} has different numbers of candidates (number: task): {counts}; offer the same number in each"
            )
        return tuple(string.ascii_uppercase[: next(iter(counts), 0)])

    @property
    def facts(self) -> Facts:
        """Return the facts of the task without `joined_as_module`: a single agent writes each part below its header."""
        return replace(super().facts, joined_as_module=False, default_model="")

    def lettered(self, item: TaskItem, agent: str) -> dict[str, str]:
        """Return the candidates of an agent by letter."""
        texts = sorted(self._offers(item, self.role(agent)).values(), key=lambda text: derive(0, text))
        return dict(zip(self._letters[agent], texts, strict=True))

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the letters of an agent; () if it writes freely."""
        return self._letters[agent]

    def single_agent(self) -> TextDecPOMDP | None:
        """Return the task for one agent that chooses for all; None if an agent writes freely."""
        return PartByPart(self) if all(self._letters.values()) else None

    def initial_state(self, item: TaskItem, seed: int) -> Offered:
        """Return the initial state of the task, with the row."""
        return Offered(self.env.initial_state(item, seed), item)

    def observations(self, state: Offered) -> Mapping[str, str | Message]:
        """Return the observations of the task; the first ones list the candidates."""
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
        """Pass the chosen candidates to the task."""
        step = self.env.transition(state.inner, self._written(state.item, actions), seed)
        return replace(step, state=Offered(step.state, state.item, is_first=False))

    def _written(self, item: TaskItem, actions: Mapping[str, str]) -> dict[str, str]:
        return {agent: self.lettered(item, agent).get(text.strip(), text) for agent, text in actions.items()}

    def script(self, name: str) -> Script:
        """Return a script of the task; it receives histories without the candidates."""
        say = self.env.script(name)

        def say_without_offer(agent: str, history: Sequence[Message]) -> str:
            return say(agent, [message._replace(text=message.text.partition(_REQUEST)[0]) for message in history])

        return say_without_offer

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the measurements of the wrapped task, and how often each kind of candidate was chosen, in %.

        The task measures the chosen candidates in place of their letters. The additional table is "choices".
        """
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
        """Return the episode with the chosen candidates as actions, split by agent if one agent wrote all parts."""
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

    It observes the observation of one agent at a time, below the header `[role]`; its history contains all of them. The
    joint action is scored when every part is chosen.

    Args:
        env: The task, in which all agents have different roles.
    """

    def __init__(self, env: TextDecPOMDP) -> None:
        super().__init__(env, phases=len(env.possible_agents), n_agents=1)

    @property
    def facts(self) -> Facts:
        """Return the facts of the task; the single agent receives the joint reward."""
        return replace(super().facts, joint_reward=True)

    def role(self, agent: str) -> str:
        """Return "team"."""
        return "team"

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the choices of the agent whose part is next; without a history, the longest list of any agent."""
        if not history:
            return max(map(self.env.choices, self.env.possible_agents), key=len)
        return self.env.choices(self._acts_for(history[-1].text))

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the measurements of the wrapped task.

        Each choice of the single agent counts as an action of the agent for which it was made.
        """

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
        return super()._advance(item, dict(zip([agent], actions.values(), strict=False)), seed)  # one action or none

    def _reads(self, told: Mapping[str, str]) -> tuple[Event, ...]:
        """Return (): no agent reads the text of another."""
        return ()

    def _roster(self) -> None:
        """Return None: the single agent stays live."""

    def _rewards(self, after: Transition[Any]) -> None:
        """Return None: the single agent receives the reward of the team."""


class TurnState(NamedTuple):
    """The state of `TurnChoices`."""

    inner: Any  # state of the task
    seed: int  # of the episode


class TurnChoices(TaskWrapper[TurnState]):
    """A task whose agents choose in every turn among candidates that depend on its state.

    Subclasses implement `offers`. An agent acts with the letter of a candidate, and the task receives the candidate. An
    action that does not begin with such a letter reaches the task as an empty text, except for `types.NO_CALL`.
    `make(..., candidates=True)` builds this wrapper if the task's `with_candidates` returns it.

    Args:
        env: The task.
    """

    letters: ClassVar[str]
    """One letter for each candidate."""

    def __init__(self, env: Task[Any]) -> None:
        super().__init__(env, "choices")
        *first, last = self.letters
        self._request = f"Choose {', '.join(first)} or {last}."

    @abstractmethod
    def offers(self, state: TurnState, agent: str, observation: str) -> Sequence[str]:
        """Return the candidates of an agent, one for each letter, each without a line break.

        Args:
            state: The state.
            agent: An agent that has to act.
            observation: Its observation, without the candidates.
        """

    def prompt(self, state: TurnState, agent: str, message: str | Message) -> str:
        """Return the observation of an agent without the candidates. Default: its observation in the task."""
        return message.text if isinstance(message, Message) else message

    def is_complete(self, agent: str) -> bool:
        """Return whether each prompt contains all information that the agent needs.

        If so, the agent's history is reset after each turn.
        """
        return False

    # --- the task ----------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> TurnState:
        """Return the initial state of the task, with the seed of the episode."""
        return TurnState(self.env.initial_state(item, seed), seed)

    def observations(self, state: TurnState) -> Mapping[str, str | Message]:
        """Return the prompts, each with the candidates."""
        observed: dict[str, str | Message] = {}
        for agent, prompt in self._prompts(state).items():
            offers = zip(self.letters, self.offers(state, agent, prompt), strict=True)
            observed[agent] = "\n".join([prompt, "", *map(" ".join, offers), self._request])
        return observed

    def _prompts(self, state: TurnState) -> dict[str, str]:
        return {
            agent: self.prompt(state, agent, message) for agent, message in self.env.observations(state.inner).items()
        }

    def transition(self, state: TurnState, actions: Mapping[str, str], seed: int) -> Transition[TurnState]:
        """Pass the chosen candidates to the task."""
        prompts, there = self._prompts(state), self.env.roster(state.inner)
        texts: dict[str, str] = {}
        for agent, action in actions.items():
            letter = re.match(rf"[\W_]*([{self.letters}])", action)
            offers = self.offers(state, agent, prompts[agent])
            written = action if action == NO_CALL else ""
            texts[agent] = offers[self.letters.index(letter[1])] if letter else written
        step = self.play(state.inner, texts, seed)
        following = state._replace(inner=step.state)
        acting = {*self.env.observations(step.state)} & {*there}
        return replace(
            step, state=following, reset_history=frozenset(agent for agent in acting if self.is_complete(agent))
        )

    def play(self, inner: Any, texts: Mapping[str, str], seed: int) -> Transition[Any]:
        """Return the transition of the task after the chosen candidates."""
        return self.env.transition(inner, texts, seed)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the letters."""
        return tuple(self.letters)

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return (): tool calls are among the candidates."""
        return ()

    def script(self, name: str) -> Script:
        """Return a script of the task that acts with letters.

        It chooses the letter of the script's text; if that is not a candidate, the letter of `instead`.
        """
        if name not in self.facts.scripts:
            return TextDecPOMDP.script(self, name)
        say = self.env.script(name)

        def say_letter(agent: str, history: Sequence[Message]) -> str:
            offers = self.offered_in(history[-1].text)
            text = say(agent, self.as_written(history))
            return offers[text if text in offers else self.instead(list(offers), text, history)]

        return say_letter

    def as_written(self, history: Sequence[Message]) -> list[Message]:
        """Return a history as it is in the task: candidates in place of letters, and observations without lists."""
        written: list[Message] = []
        for place, message in enumerate(history):
            if message.role == "action":
                texts = {letter: text for text, letter in self.offered_in(history[place - 1].text).items()}
                written.append(message._replace(text=texts.get(message.text, message.text)))
            else:
                lines = message.text.split("\n")
                written.append(message._replace(text="\n".join(lines[: -2 - len(self.letters)])))
        return written

    def offered_in(self, observation: str) -> dict[str, str]:
        """Return the letter of each candidate in an observation; the first letter if a candidate occurs twice."""
        letters: dict[str, str] = {}
        for line in observation.split("\n")[-1 - len(self.letters) : -1]:
            letters.setdefault(line[2:], line[0])
        return letters

    def instead(self, offers: Sequence[str], text: str, history: Sequence[Message]) -> str:
        """Return the candidate that a script chooses if its own text is not a candidate.

        Default: a pseudo-random one, derived from the history.
        """
        return offers[derive(0, *map(str, history)) % len(offers)]
