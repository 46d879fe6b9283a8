"""Base of calls-v0 and bfcl-v0: a dispatcher observes the messages of a user, and specialists call tools.

A user turn begins with a message, which only the dispatcher observes. It writes orders, a line
`application: what to do` each. A specialist with an order may write calls for some rounds, and then reports. The
dispatcher observes the reports and continues, until it answers the user in words without an order.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Literal, NamedTuple, Unpack, cast, get_args

from llm_dec_pomdp.envs import Facts, Task, TaskOptions, Tasks, Transition
from llm_dec_pomdp.envs.hierarchy.base import LEADER
from llm_dec_pomdp.envs.tools import Call, Kit, Limits, Toolbox, ToolState
from llm_dec_pomdp.registries import nearest
from llm_dec_pomdp.types import Event, Group, Message, Score, TaskItem, Tool

MORE = "Give an order, or answer the user."
ROUNDS = 3  # maximum number of texts with calls for an order
LONGEST = 100  # maximum length of an argument value that is searched for in observations, in characters
Reward = Literal["outcome", "process", "call"]


class PastCall(NamedTuple):
    """A call of the episode, with its result."""

    user: int  # user turn
    tool: str
    arguments: str  # JSON, sorted by name
    answer: str
    valid: bool  # whether the tool ran


class Work(NamedTuple):
    """A specialist that has an order."""

    agent: str
    rounds: int = 0  # texts so far
    report: str | None = None  # None while it works


class State(NamedTuple):
    """The state of `Dispatch`."""

    item: TaskItem
    tools: ToolState
    user: int = 0  # user turns that have ended
    messages: tuple[tuple[str, Message], ...] = ()  # next observations
    works: tuple[Work, ...] = ()
    calls: tuple[PastCall, ...] = ()
    right: tuple[bool, ...] = ()  # for each user turn that has ended
    known: frozenset[str] = frozenset()  # instructions that specialists have observed
    values: frozenset[tuple[str, str]] = frozenset()  # (agent, argument value that it has observed)
    earned: float = 0.0  # return so far


class DispatchOptions(TaskOptions, total=False):
    """Options of tasks with a dispatcher, except `tasks`; see `Dispatch`."""

    reward: Reward
    rows: Sequence[int]


class Dispatch(Task[State]):
    """Abstract base of tasks with orders, calls and reports.

    A subclass defines the messages of the user, the tools and the correct calls.

    Args:
        kits: The tools of each application; their names are the roles of the specialists.
        limits: The limits of tools, by name.
        reward: One of the rewards of `values`.
        rows: Positions of the rows to use, from 0; () for all.
        tasks, common: See `Task`; `max_turns` is 60 by default.
    """

    def __init__(
        self,
        kits: Sequence[Kit],
        limits: Mapping[str, Limits],
        tasks: Tasks = "sample",
        *,
        reward: Reward = "outcome",
        rows: Sequence[int] = (),
        **common: Unpack[TaskOptions],
    ) -> None:
        if reward not in get_args(Reward):
            raise ValueError(f"reward is {reward!r}; {nearest(str(reward), get_args(Reward))}")
        self.reward: Reward = reward
        self.rows = tuple(rows)
        names = [kit.name for kit in kits]
        self.specialists = {name: f"agent_{i}" for i, name in enumerate(names, 1)}
        self.toolbox = Toolbox(kits, limits, {name: [agent] for name, agent in self.specialists.items()})
        self._order = re.compile(rf"^[^\w\n]*({'|'.join(names)})[^\w\n]*:[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE)
        self.declared = replace(self.declared, roles=("dispatcher", *names))
        common.setdefault("max_turns", 60)
        super().__init__(tasks, **common)

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """Return the rows at the given positions.

        Raises:
            ValueError: There is no row at a position.
        """
        if wrong := [row for row in self.rows if not 0 <= row < len(items)]:
            raise ValueError(f"rows has {wrong[0]!r}, and there are {len(items)} rows; give positions from 0")
        return tuple(items[row] for row in self.rows) or items

    # --- abstract methods ---------------------------------------------------------------------------------------------

    @abstractmethod
    def words(self, item: TaskItem) -> Sequence[str]:
        """Return the messages of the user, one for each user turn."""

    @abstractmethod
    def tools_at_first(self, item: TaskItem) -> ToolState:
        """Return the initial states of the applications."""

    @abstractmethod
    def right(self, state: State) -> bool:
        """Return whether the current user turn is right at its end."""

    @abstractmethod
    def missing(self, state: State, user: int) -> Sequence[Any]:
        """Return the calls of the row in a user turn that were not made in it."""

    @abstractmethod
    def gold(self, item: TaskItem) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return the calls of the row: name of the application and arguments of each."""

    def applications(self, item: TaskItem) -> Sequence[str]:
        """Return the names of the applications that the dispatcher observes."""
        return [kit.name for kit in self.toolbox.kits]

    def shown(self, item: TaskItem, user: int) -> Toolbox:
        """Return the tools that agents observe in a user turn."""
        return self.toolbox

    # --- the task -----------------------------------------------------------------------------------------------------

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return the tools of the agent's application."""
        state = self._now.latest.transition.state
        return (self.toolbox if state is None else self.shown(state.item, state.user)).tools(agent)

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the state after the first message of the user."""
        words = self.words(item)[0]
        greeting = Message("observation", f"{introduction(self.applications(item))}\n\nThe user: {words}")
        state = State(item, self.tools_at_first(item), messages=((LEADER, greeting),))
        return self._record_knowledge(state, LEADER, "user", words, [])

    def observations(self, state: State) -> Mapping[str, str | Message]:
        """Return the observations of the agents that act next."""
        return dict(state.messages)

    def describe(self, state: State) -> Mapping[str, Any]:
        """Return the calls so far, and whether each ended user turn was right."""
        return {"calls": [list(call) for call in state.calls], "right": list(state.right)}

    # --- a joint action -----------------------------------------------------------------------------------------------

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Process the text of the dispatcher, or the texts of the specialists with orders."""
        now, events = state._replace(messages=()), list[Event]()
        now = self._work(now, actions, events) if state.works else self._lead(now, actions[LEADER], events)
        over = now.user == len(self.words(now.item))
        values = self.values(now)
        earned = values[self.reward]
        score = Score(earned, {"earned": earned}, {**values, "calls": float(len(now.calls))})
        following = now._replace(earned=earned)
        return Transition(following, earned - state.earned, score, terminated=over, events=tuple(events))

    def _lead(self, state: State, text: str, events: list[Event]) -> State:
        """Return the state after orders, or after the answer to the user."""
        if orders := self._orders(text):
            works = tuple(Work(agent) for agent in orders)
            messages = tuple((agent, self._brief(state, agent, words)) for agent, words in orders.items())
            known = state.known | {self._instruction(state, agent) for agent in orders}
            for agent, words in orders.items():
                state = self._record_knowledge(state, agent, LEADER, words, events)
            return state._replace(works=works, messages=messages, known=known)
        if not text.strip():
            return state._replace(messages=((LEADER, Message("observation", MORE)),))
        right, words = (*state.right, self.right(state)), self.words(state.item)
        events.append(Event("answer", LEADER, {"text": text, "right": str(right[-1]).lower()}))
        following = state._replace(user=state.user + 1, right=right)
        if following.user == len(words):
            return following
        following = self._record_knowledge(following, LEADER, "user", words[following.user], events)
        return following._replace(messages=((LEADER, Message("observation", f"The user: {words[following.user]}")),))

    def _record_knowledge(self, state: State, agent: str, source: str, text: str, events: list[Event]) -> State:
        """Record the argument values of the row that an agent observes in a text, and add `knows` events."""
        known = {value for reader, value in state.values if reader == agent}
        new = [v for v in argument_values(self.gold(state.item)) if v not in known and contains_token(v, text)]
        if source in self.possible_agents:
            events.append(Event("read", agent, {"of": source}))
            source = self.role(source)
        events += (Event("knows", agent, {"value": value, "from": source}) for value in new)
        return state._replace(values=state.values | {(agent, value) for value in new})

    def _orders(self, text: str) -> dict[str, str]:
        orders: dict[str, list[str]] = {}
        by_name = {name.lower(): agent for name, agent in self.specialists.items()}
        for name, words in self._order.findall(text):
            orders.setdefault(by_name[name.lower()], []).append(words.strip())
        return {agent: "\n".join(words) for agent, words in orders.items()}

    def _instruction(self, state: State, agent: str) -> str:
        notice = self.shown(state.item, state.user).notice(agent)
        return f"You are the application {self.role(agent)}.\n\n{notice}\nThen report what they gave, in words.\n\n"

    def _brief(self, state: State, agent: str, words: str) -> Message:
        instruction = self._instruction(state, agent)  # repeated if the tools have changed
        return Message("observation", f"{'' if instruction in state.known else instruction}Order: {words}")

    def _work(self, state: State, texts: Mapping[str, str], events: list[Event]) -> State:
        """Run the calls of specialists; when the last one has reported, the dispatcher observes all reports."""
        works = list(state.works)
        for place, work in enumerate(works):
            if work.report is not None:
                continue
            calls = self.toolbox.calls(work.agent, texts[work.agent]) if work.rounds < ROUNDS else ()
            report = None if calls else texts[work.agent]
            if report is None:
                state = self._called(state, work.agent, calls, events)
            else:
                events.append(Event("return", work.agent, {"report": report}))
            works[place] = Work(work.agent, work.rounds + 1, report)
        if any(work.report is None for work in works):
            return state._replace(works=tuple(works))
        for work in works:
            state = self._record_knowledge(state, LEADER, work.agent, work.report or "", events)
        lines = "\n".join(f"{self.role(work.agent)} reports: {(work.report or '').strip()}" for work in works)
        return state._replace(works=(), messages=((LEADER, Message("observation", lines)),))

    def _called(self, state: State, agent: str, calls: Sequence[Call], events: list[Event]) -> State:
        """Return the state after calls, with their results as the next observation."""
        box = self.toolbox
        tools, answers = box.answer(state.tools, agent, calls)
        events += box.events(agent, answers)
        added = (PastCall(state.user, a.call.name, arguments_of(box, a.call), a.answer, a.valid) for a in answers)
        message = (agent, box.message(answers))
        state = state._replace(tools=tools, calls=(*state.calls, *added), messages=(*state.messages, message))
        return self._record_knowledge(state, agent, "tools", message[1].text, events)

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the means of all rewards, and statistics of calls; see "Measured" on the page of calls-v0."""
        tables = {"rewards": _mean_values(groups), "function calls": self._call_statistics(groups)}
        return {name: table for name, table in tables.items() if table}

    def _call_statistics(self, groups: Sequence[Group]) -> Mapping[str, float]:
        """Return calls per episode, and the shares of unknown tools, wrong arguments and repeated calls."""
        known = {f.tool.name for kit in self.toolbox.kits for f in kit.functions}
        episodes = [episode for group in groups for episode in group.episodes]
        wrong = repeated = invalid = every = 0
        for episode in episodes:
            events = [event for turn in episode.turns for event in turn.events]
            calls = [(e.agent, e.details["tool"], e.details["input"]) for e in events if e.kind == "call"]
            results = [e.details for e in events if e.kind == "result"]
            every += len(calls)
            repeated += len(calls) - len(set(calls))
            wrong += sum(details["tool"] not in known for details in results)
            invalid += sum(details["valid"] == "false" and details["tool"] in known for details in results)
        if not every:
            return {}
        shares = {"wrong names %": wrong, "wrong arguments %": invalid, "repeated %": repeated}
        return {"calls": every / len(episodes), **{name: 100 * count / every for name, count in shares.items()}}

    # --- rewards ------------------------------------------------------------------------------------------------------

    def values(self, state: State) -> dict[str, float]:
        """Return the value of each reward, in [0, 1].

        "outcome" is 1 if all user turns were right, "process" is the share of right user turns, and "call" is the share
        of the row's calls that were made.
        """
        count = len(self.words(state.item))
        outcome = float(len(state.right) == count and all(state.right))
        return {"outcome": outcome, "process": sum(state.right) / count, "call": self._helpful(state)}

    def _helpful(self, state: State) -> float:
        every = len(self.gold(state.item))
        missing = sum(len(self.missing(state, user)) for user in range(len(self.words(state.item))))
        return (every - missing) / every if every else 0.0


DECLARED = Facts(
    name="dispatch",
    hierarchical=True,
    shares_texts=True,
    components=("earned",),
    diagnostics=("outcome", "process", "call", "calls"),
    score_range=(0.0, 1.0),
)


def introduction(applications: Sequence[str]) -> str:
    """Return the rules of the dispatcher, which precede the first message of the user."""
    return (
        f"You pass the wishes of a user on to applications: {', '.join(applications)}. Each knows only your orders, "
        f"and you know only its reports. An order is a line such as {applications[0]}: what to do. When all is done, "
        "answer in words."
    )


def arguments_of(toolbox: Toolbox, call: Call) -> str:
    """Return the arguments as JSON, sorted by name; positional arguments take the tool's names in order."""
    names: Sequence[str] = ()
    if call.places:
        tools = (f.tool for kit in toolbox.kits for f in kit.functions if f.tool.name == call.name)
        names = [name for tool in tools for name in tool.json_schema.get("properties", {})]
    placed = dict(zip(names, call.places, strict=False))
    return json.dumps({**placed, **call.arguments}, sort_keys=True)


def _mean_values(groups: Sequence[Group]) -> Mapping[str, float]:
    """Return the mean value of each reward, in %."""
    finals = [episode.final for group in groups for episode in group.episodes if episode.final]
    if not finals:
        return {}
    return {f"{name} %": 100 * fmean(final.diagnostics[name] for final in finals) for name in get_args(Reward)}


def argument_values(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return the texts and numbers among the arguments of calls, each once, without booleans and long texts."""
    every = (v for _, arguments in calls for value in arguments.values() for v in _flat(value))
    return list(dict.fromkeys(value for value in every if len(value) <= LONGEST and any(map(str.isalnum, value))))


def _flat(value: Any) -> Iterator[str]:
    if isinstance(value, (list, tuple)):
        for part in cast("Sequence[Any]", value):
            yield from _flat(part)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)


def contains_token(value: str, text: str) -> bool:
    """Return whether a text contains a value as a whole word."""
    return value in text and bool(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text))
