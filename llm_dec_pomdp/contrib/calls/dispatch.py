"""A dispatcher hears the user, and specialists call tools: what calls-v0 and bfcl-v0 share.

A user turn begins with the words of the user, which the dispatcher alone is told. It writes orders, a line
`application: what to do` each; every specialist with an order may write calls for some rounds, and then reports. The
dispatcher is told the reports, and goes on, until it answers the user in words without an order. One agent alone is
told the words and calls the tools itself.

Where `offers` has something, agents choose among texts by letter instead of writing (`grammar="choice"`).
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Literal, NamedTuple, Unpack, cast, get_args

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, Transition
from llm_dec_pomdp.envs.tools import Call, Kit, Limits, Toolbox, ToolState
from llm_dec_pomdp.registries import nearest
from llm_dec_pomdp.seeding import derive, generator
from llm_dec_pomdp.types import Event, Group, Message, Score, TaskItem, Tool

LEAD = "agent_0"
LETTERS = "ABCD"
CHOOSE = f"Choose {', '.join(LETTERS[:-1])} or {LETTERS[-1]}."
REFUSED = "I cannot do that."
MORE = "Give an order, or answer the user."
ROUNDS = 3  # texts with calls for an order
LONGEST = 100  # characters of a value that is looked for in what agents are told
Reward = Literal["outcome", "process", "call"]
Grammar = Literal["free", "choice"]


class PastCall(NamedTuple):
    """A call that was made."""

    user: int  # in which user turn
    tool: str
    arguments: str  # JSON, sorted by name
    answer: str
    valid: bool


class Work(NamedTuple):
    """A specialist that has an order."""

    agent: str
    rounds: int = 0  # texts with calls
    report: str | None = None


class State(NamedTuple):
    """The state of `Dispatch`."""

    item: TaskItem
    tools: ToolState
    user: int = 0  # user turns that have ended
    messages: tuple[tuple[str, Message], ...] = ()  # what is told next
    works: tuple[Work, ...] = ()
    calls: tuple[PastCall, ...] = ()
    right: tuple[bool, ...] = ()  # by user turn that has ended
    known: frozenset[str] = frozenset()  # instructions that specialists know
    values: frozenset[tuple[str, str]] = frozenset()  # agents, and values of the row that they were told
    offers: tuple[tuple[str, tuple[str, ...]], ...] = ()  # by agent the texts to choose among
    earned: float = 0.0


class DispatchOptions(TaskOptions, total=False):
    """The options that tasks with a dispatcher take beside `tasks`; see `Dispatch`."""

    reward: Reward
    grammar: Grammar
    single_agent: bool
    rows: Sequence[int]


class Dispatch(Task[State]):
    """Orders, calls and reports; say what the user says, which tools there are and what is right.

    Args:
        kits: Of the applications, whose names are the roles of the specialists.
        limits: Of tools, by name.
        reward: What is paid; see `values`.
        grammar: "free", or "choice": agents choose among texts by letter; see `offers`.
        single_agent: One agent has all tools.
        rows: Positions of the rows that are played, from 0 on; () for all.
        tasks, common: See `Task`; H is 60.
    """

    def __init__(
        self,
        kits: Sequence[Kit],
        limits: Mapping[str, Limits],
        tasks: Tasks = "sample",
        *,
        reward: Reward = "outcome",
        grammar: Grammar = "free",
        single_agent: bool = False,
        rows: Sequence[int] = (),
        **common: Unpack[TaskOptions],
    ) -> None:
        for name, value, values in (("reward", reward, get_args(Reward)), ("grammar", grammar, get_args(Grammar))):
            if value not in values:
                raise ValueError(f"{name} is {value!r}; {nearest(str(value), values)}")
        self.reward: Reward = reward
        self.grammar: Grammar = grammar
        self.chooses = grammar == "choice"
        self.rows = tuple(rows)
        self.single_agent = bool(single_agent)
        names = [kit.name for kit in kits]
        agents = [LEAD if single_agent else f"agent_{i}" for i in range(1, len(kits) + 1)]
        self.specialists = {} if single_agent else dict(zip(names, agents, strict=True))
        self.toolbox = Toolbox(kits, limits, {name: [agent] for name, agent in zip(names, agents, strict=True)})
        self._order = re.compile(rf"^[^\w\n]*({'|'.join(names)})[^\w\n]*:[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE)
        roles = ("assistant",) if single_agent else ("dispatcher", *names)
        self.declared = replace(
            self.declared, roles=roles, hierarchical=not single_agent, shares_texts=not single_agent
        )
        common.setdefault("max_turns", 60)
        super().__init__(tasks, **common)

    def prepare(self, items: tuple[TaskItem, ...]) -> tuple[TaskItem, ...]:
        """The rows at the given positions."""
        if wrong := [row for row in self.rows if not 0 <= row < len(items)]:
            raise ValueError(f"rows has {wrong[0]!r}; there are {len(items)} rows, the first is 0")
        return tuple(items[row] for row in self.rows) or items

    # --- what a task implements --------------------------------------------------------------------------------------

    @abstractmethod
    def words(self, item: TaskItem) -> Sequence[str]:
        """What the user says, by user turn."""

    @abstractmethod
    def tools_at_first(self, item: TaskItem) -> ToolState:
        """The states of the applications at the beginning."""

    @abstractmethod
    def right(self, state: State) -> bool:
        """Whether all is as it should be at the end of the present user turn."""

    @abstractmethod
    def missing(self, state: State, user: int) -> int:
        """How many calls of the row in a user turn were not made in it."""

    @abstractmethod
    def gold(self, item: TaskItem) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """The calls of the row: whose they are, by name of the application, and their arguments."""

    def applications(self, item: TaskItem) -> Sequence[str]:
        """The applications that the dispatcher is told of."""
        return [kit.name for kit in self.toolbox.kits]

    def offers(self, state: State, agent: str, observation: str) -> tuple[str, ...]:
        """The texts that an agent may choose among; () where it writes freely."""
        return ()

    def shown(self, item: TaskItem, user: int) -> Toolbox:
        """The tools that agents are told of in a user turn."""
        return self.toolbox

    # --- what follows from it ----------------------------------------------------------------------------------------

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Those of its application; none where agents choose by letter."""
        state = self._now.latest.transition.state
        box = self.toolbox if state is None else self.shown(state.item, state.user)
        return () if self.chooses else box.tools(agent)

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """The user has spoken."""
        state = State(item, self.tools_at_first(item), messages=((LEAD, self._greeting(item)),))
        return self._offered(self._heard(state, LEAD, "user", self.words(item)[0], []))

    def _greeting(self, item: TaskItem) -> Message:
        spoken = f"The user: {self.words(item)[0]}"
        if self.single_agent:
            notice = (
                "" if self.chooses else f"\n\n{self.shown(item, 0).notice(LEAD)}\nAnswer in words when all is done."
            )
            return Message("observation", f"{spoken}{notice}")
        return Message("observation", f"{told_first(self.applications(item))}\n\n{spoken}")

    def observations(self, state: State) -> Mapping[str, str | Message]:
        """What follows from the last texts."""
        return dict(state.messages)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """The letters, where agents choose."""
        return tuple(LETTERS) if self.chooses else ()

    def describe(self, state: State) -> Mapping[str, Any]:
        """The calls so far, and which user turns were done."""
        return {"calls": [list(call) for call in state.calls], "right": list(state.right)}

    # --- a joint action ----------------------------------------------------------------------------------------------

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """The dispatcher leads, or specialists work."""
        offered = dict(state.offers)
        texts = {agent: _chosen(text, offered[agent]) if agent in offered else text for agent, text in actions.items()}
        now, events = state._replace(messages=(), offers=()), list[Event]()
        now = self._work(now, texts, events) if state.works else self._lead(now, texts[LEAD], events)
        over = now.user == len(self.words(now.item))
        reset_history = (
            frozenset(agent for agent, _ in now.messages if agent != LEAD) if self.chooses else frozenset[str]()
        )
        values = self.values(now)
        earned = values[self.reward]
        paid, now = earned - state.earned, self._offered(now._replace(earned=earned))
        score = Score(earned, {"earned": earned}, {**values, "calls": float(len(now.calls))})
        return Transition(now, paid, score, terminated=over, events=tuple(events), reset_history=reset_history)

    def _lead(self, state: State, text: str, events: list[Event]) -> State:
        """Orders, calls of an agent that is alone, or the answer to the user."""
        if self.single_agent:
            if calls := self.toolbox.calls(LEAD, text):
                return self._called(state, LEAD, calls, events)
        elif orders := self._orders(text):
            works = tuple(Work(agent) for agent in orders)
            messages = tuple((agent, self._brief(state, agent, words)) for agent, words in orders.items())
            known = state.known if self.chooses else state.known | {self._instruction(state, agent) for agent in orders}
            for agent, words in orders.items():
                state = self._heard(state, agent, LEAD, words, events)
            return state._replace(works=works, messages=messages, known=known)
        if not text.strip():
            return state._replace(messages=((LEAD, Message("observation", MORE)),))
        right, words = (*state.right, self.right(state)), self.words(state.item)
        events.append(Event("answer", LEAD, {"text": text, "right": str(right[-1]).lower()}))
        following = state._replace(user=state.user + 1, right=right)
        if following.user == len(words):
            return following
        following = self._heard(following, LEAD, "user", words[following.user], events)
        return following._replace(messages=((LEAD, Message("observation", f"The user: {words[following.user]}")),))

    def _heard(self, state: State, agent: str, source: str, text: str, events: list[Event]) -> State:
        """The state in which an agent knows the values of the row that stand in a text."""
        known = {value for reader, value in state.values if reader == agent}
        new = [v for v in values_of(self.gold(state.item)) if v not in known and stands_in(v, text)]
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
        box = self.shown(state.item, state.user)
        notice = "" if self.chooses else f"\n\n{box.notice(agent)}\nThen report what they gave, in words."
        return f"You are the application {self.role(agent)}.{notice}\n\n"

    def _brief(self, state: State, agent: str, words: str) -> Message:
        instruction = self._instruction(state, agent)  # again where there are other tools
        return Message("observation", f"{'' if instruction in state.known else instruction}Order: {words}")

    def _work(self, state: State, texts: Mapping[str, str], events: list[Event]) -> State:
        """Specialists call and report; the dispatcher is told when the last one has."""
        works = list(state.works)
        for place, work in enumerate(works):
            if work.report is not None:
                continue
            calls = self.toolbox.calls(work.agent, texts[work.agent]) if work.rounds < ROUNDS else ()
            report: str | None = None if calls else texts[work.agent]
            if calls:
                state = self._called(state, work.agent, calls, events)
                if self.chooses:  # what its calls gave is its report
                    _, message = state.messages[-1]
                    state, report = state._replace(messages=state.messages[:-1]), message.text
            if report is not None:
                events.append(Event("return", work.agent, {"report": report}))
            works[place] = Work(work.agent, work.rounds + 1, report)
        if any(work.report is None for work in works):
            return state._replace(works=tuple(works))
        for work in works:
            state = self._heard(state, LEAD, work.agent, work.report or "", events)
        lines = "\n".join(f"{self.role(work.agent)} reports: {(work.report or '').strip()}" for work in works)
        return state._replace(works=(), messages=((LEAD, Message("observation", lines)),))

    def _called(self, state: State, agent: str, calls: Sequence[Call], events: list[Event]) -> State:
        """The state after calls, whose answers are told."""
        box = self.toolbox
        tools, answers = box.answer(state.tools, agent, calls)
        events += box.events(agent, answers)
        added = (PastCall(state.user, a.call.name, arguments_of(box, a.call), a.answer, a.valid) for a in answers)
        message = (agent, box.message(answers))
        state = state._replace(tools=tools, calls=(*state.calls, *added), messages=(*state.messages, message))
        return self._heard(state, agent, "tools", message[1].text, events)

    def _offered(self, state: State) -> State:
        """With texts to choose among, which end the messages."""
        if not self.chooses:
            return state
        offers, messages = list[tuple[str, tuple[str, ...]]](), list[tuple[str, Message]]()
        for agent, message in state.messages:
            texts = self.offers(state, agent, message.text)
            lines = "\n".join(f"{letter} {text}" for letter, text in zip(LETTERS, texts, strict=True))
            offers.append((agent, texts))
            messages.append((agent, message._replace(text=f"{message.text}\n\n{lines}\n{CHOOSE}")))
        return state._replace(offers=tuple(offers), messages=tuple(messages))

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """How agents call, and what they were told; see "Measured" in the manual of calls-v0."""
        tables = {"rewards": _paid(groups), "function calls": self._counted(groups), "values": self._passed(groups)}
        return {name: table for name, table in tables.items() if table}

    def _passed(self, groups: Sequence[Group]) -> Mapping[str, float]:
        """Shares of the values in the calls of the rows that the dispatcher, and who has to call with them, knew."""
        if self.single_agent:
            return {}
        by_id = {item.id: item for item in self.items}
        episodes = [episode for group in groups for episode in group.episodes]
        needed = lead = caller = 0
        for episode in episodes:
            item = by_id[episode.item_id]
            events = [event for turn in episode.turns for event in turn.events if event.kind == "knows"]
            knows = {(event.agent, event.details["value"]) for event in events}
            calls = self.gold(item)
            knows |= {(LEAD, value) for value in values_of(calls) if stands_in(value, self.words(item)[0])}
            pairs = {(name, value) for name, arguments in calls for value in values_of([(name, arguments)])}
            needed += len(pairs)
            lead += sum((LEAD, value) in knows for _, value in pairs)
            caller += sum((self.specialists[name], value) in knows for name, value in pairs)
        shares = {"dispatcher knew %": lead, "specialist knew %": caller}
        return {name: 100 * count / needed for name, count in shares.items()} if needed else {}

    def _counted(self, groups: Sequence[Group]) -> Mapping[str, float]:
        """Calls of an episode; shares of those of no tool, with wrong arguments, and made before by the same agent."""
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

    # --- what it is worth --------------------------------------------------------------------------------------------

    def values(self, state: State) -> dict[str, float]:
        """By name of the reward: the whole row, the share of user turns that were right, or of calls that were made."""
        count = len(self.words(state.item))
        outcome = float(len(state.right) == count and all(state.right))
        return {"outcome": outcome, "process": sum(state.right) / count, "call": self._helpful(state)}

    def _helpful(self, state: State) -> float:
        every = len(self.gold(state.item))
        missing = sum(self.missing(state, user) for user in range(len(self.words(state.item))))
        return (every - missing) / every if every else 0.0


DECLARED = Facts(
    name="dispatch",
    components=("earned",),
    diagnostics=("outcome", "process", "call", "calls"),
    score_range=(0.0, 1.0),
)


def told_first(applications: Sequence[str]) -> str:
    """What a dispatcher is told before the words of the user."""
    return (
        f"You pass the wishes of a user on to applications: {', '.join(applications)}. Each knows only your orders, "
        f"and you know only its reports. An order is a line such as {applications[0]}: what to do. When all is done, "
        "answer in words."
    )


def arguments_of(toolbox: Toolbox, call: Call) -> str:
    """The arguments as JSON, sorted by name; those without one take the names of the tool in order."""
    names: Sequence[str] = ()
    if call.places:
        tools = (f.tool for kit in toolbox.kits for f in kit.functions if f.tool.name == call.name)
        names = [name for tool in tools for name in tool.json_schema.get("properties", {})]
    placed = dict(zip(names, call.places, strict=False))
    return json.dumps({**placed, **call.arguments}, sort_keys=True)


def _paid(groups: Sequence[Group]) -> Mapping[str, float]:
    """What each reward would have paid."""
    finals = [episode.final for group in groups for episode in group.episodes if episode.final]
    if not finals:
        return {}
    return {f"{name} %": 100 * fmean(final.diagnostics[name] for final in finals) for name in get_args(Reward)}


def values_of(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The words and numbers that calls are made with, each once: not whether, and no long texts."""
    every = (v for _, arguments in calls for value in arguments.values() for v in _flat(value))
    return list(dict.fromkeys(value for value in every if len(value) <= LONGEST and any(map(str.isalnum, value))))


def _flat(value: Any) -> Iterator[str]:
    if isinstance(value, (list, tuple)):
        for part in cast("Sequence[Any]", value):
            yield from _flat(part)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)


def stands_in(value: str, text: str) -> bool:
    """Whether a value stands in a text, with no letter or digit beside it."""
    return value in text and bool(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text))


def _chosen(text: str, offered: Sequence[str]) -> str:
    """The text that a letter stands for; "" where it is none."""
    letter = text.strip()[:1].upper()
    return offered[LETTERS.index(letter)] if letter and letter in LETTERS[: len(offered)] else ""


def shuffled(texts: tuple[str, ...], label: int) -> tuple[str, ...]:
    """The texts in an order that a number decides."""
    return tuple(texts[int(i)] for i in generator(label, "order").permutation(len(texts)))


def by_letter(team: Script) -> Script:
    """A team that says the letter of its text where it is offered some, by chance where its text is not there."""

    def say(agent: str, history: Sequence[Message]) -> str:
        offered, text = offered_in(history[-1].text), team(agent, history)
        if not offered:
            return text
        return offered.get(text) or sorted(offered.values())[derive(0, *map(str, history)) % len(offered)]

    return say


def before_choice(observation: str) -> str:
    """A message without the texts that are offered at its end."""
    return "\n".join(observation.splitlines()[: -2 - len(LETTERS)]) if observation.endswith(CHOOSE) else observation


def offered_in(observation: str) -> dict[str, str]:
    """The texts in a message that ends with a choice, and their letters; {} in another."""
    if not observation.endswith(CHOOSE):
        return {}
    lines = observation.splitlines()[-1 - len(LETTERS) : -1]
    return {line[2:]: line[0] for line in lines}
