"""support-v0: An assistant with a manual helps a user who has a goal, limited patience and a short memory.

| fact | value |
|---|---|
| agents | agent_0 "assistant"; with `user="agent"` also agent_1 "user" |
| turns | 6 (`max_turns`), one for each text of the assistant; with `user="agent"` 12, assistant and user alternately |
| options | `user` "scripted"; `goals` in the manual, 3 (2 to 4); `turn_cost` 0.1 |
| data | all combinations of persona, goal, phone and account: 111 with the defaults, in every split |
| files | rows of `prompt`, `persona`, `goal`, `later` (the last goal), `phone` and `account`: `pack on` |
| return | at most 1.0; optimum 0.884 with the defaults, for a scripted user |

Observation. Each side observes something else:

| agent | observes |
|---|---|
| assistant | the manual: the values that each goal needs; whether the account has the pack; the words of the user |
| user | its goal, the settings of its phone, its patience, how much it remembers, and the words of the assistant |

The user's first words depend on its persona:

| persona | first words | patience, in texts of the assistant | remembers of a message | optimum |
|---|---|---|---|---|
| calm | its goal | 6 | everything | 0.957 |
| hurried | no goal | 3 | everything | 0.871 |
| forgetful | its goal | 6 | the first request | 0.900 |
| undecided | a goal that it changes after the second text of the assistant | 6 | everything | 0.850 |

Action. The assistant may call one tool: `pack_on()` or `pack_off()`. Other texts are messages with requests: `goal?`,
`phone?` (all settings), or `SET roaming on`. Questions in a message with `SET` are not answered. The user changes
settings of its phone by the same words, its own tool: `SET roaming on`. Other words of the user, at most 40, are only
read. `LEAVE` ends the episode.

A scripted user answers and does what it is asked, as far as it remembers the message. With `user="agent"` a policy
acts in its place, such as a language model or a person. It receives the same observations, and `script:optimal`
plays the scripted user.

Reward (one float for the team). The goal is reached when phone and account have the values of the manual; then the
episode ends. A goal that the user will still change does not count. The user leaves when its patience ends.

| part | value |
|---|---|
| solved 0 or 1 | the goal is reached |
| turns | -`turn_cost` for every text of the assistant, except one that reaches the goal |

Satisfaction is measured and not rewarded: 0 if the goal is not reached, otherwise 1 - 0.25 for each annoyance, at least
0. Annoyances are a question that the user has already answered or been asked, a `SET` of a value that the phone has,
and a message without a request.

Optimum. The search goes over all policies of the assistant on the rows that share its observations: after each
observation it tries every action, and keeps the one with the highest expected return. `env.best_returns()` has the
value of each persona. The first words show the persona, so one assistant can reach all of them.

| team | plays | mean return | satisfaction |
|---|---|---|---|
| `script:optimal` | the policy of the search | 0.884 | 0.80 |
| `script:careful` | asks for what it does not know, then requests only what has to change | 0.832 | 0.99 |

Measured (`env.measure`): return, share of solved episodes, satisfaction and number of turns for each persona.

Source: written for this package, after the users of tau2-bench.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("support-v0")
    >>> print(env.reset(options={"task_id": "hurried-0-1-0"})[0]["agent_0"].splitlines()[-2])
    User: Something does not work. I have little time.
    >>> print(env.step({"agent_0": "goal?"})[0]["agent_0"].splitlines()[0])
    User: I want to work abroad.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Literal, NamedTuple, Unpack, get_args

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, TaskSource, Transition, check_int
from llm_dec_pomdp.envs.tools import read_calls
from llm_dec_pomdp.registries import nearest
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Group, Message, Scale, Score, TaskItem, Tool

from .search import Search

User = Literal["scripted", "agent"]
ASSISTANT, USER = "agent_0", "agent_1"
SETTINGS = ("roaming", "data")
GOALS = ("work abroad", "save money", "watch films", "play games")
ON = ("off", "on")
CALLS = ("pack_off", "pack_on")
LEAVE = "LEAVE"
WORDS = 40  # longest message of the user, in words
LONGEST = 600  # longest text that the other side observes, in characters
ANNOYANCE = 0.25
CHANGE = 2  # texts of the assistant before an undecided user changes its mind
_CALLED = "(works on your account)"  # shown to the user in place of a call
_CHANGED = "You have changed your mind."
_REQUEST = re.compile(rf"(goal|phone)\s?\?|\bSET\s+({'|'.join(SETTINGS)})\s+(on|off)\b", re.IGNORECASE | re.ASCII)
_PAIR = re.compile(rf"\b({'|'.join(SETTINGS)}|pack) (on|off)\b", re.ASCII)


class Persona(NamedTuple):
    """A kind of user.

    Attributes:
        opening: The first words; `{}` is replaced by the goal.
        patience: The number of texts of the assistant after which it leaves.
        memory: The number of requests of a message that it remembers; None for all.
    """

    opening: str
    patience: int = 6
    memory: int | None = None


PERSONAS: Mapping[str, Persona] = {
    "calm": Persona("I want to {}."),
    "hurried": Persona("Something does not work. I have little time.", patience=3),
    "forgetful": Persona("I want to {}. Please one thing at a time.", memory=1),
    "undecided": Persona("I think I want to {}, but I am not sure yet."),
}


class State(NamedTuple):
    """The state of `Support`."""

    item: TaskItem
    goal: str  # the current goal
    phone: tuple[bool, ...]  # whether each setting is on
    pack: bool  # whether the pack of the account is on
    texts: int = 0  # texts of the assistant so far
    asked: frozenset[str] = frozenset()  # questions that the user has answered or been asked
    annoyed: int = 0  # annoyances so far
    said: str = ""  # words of the assistant that the user reads next; "" after a call
    heard: str = ""  # result of the last turn, for the assistant
    waiting: bool = False  # whether the user acts next
    solved: bool = False
    over: bool = False


@functools.cache
def manual(goals: int) -> Mapping[str, tuple[bool, ...]]:
    """Return for each goal the values of all settings and of the pack; no two goals have the same values."""
    codes = generator(0, "support", goals).permutation(8)[:goals]
    return {
        goal: tuple(bool(int(code) >> bit & 1) for bit in range(3)) for goal, code in zip(GOALS, codes, strict=False)
    }


@functools.cache
def _sample(goals: int) -> tuple[TaskItem, ...]:
    """Return all rows of a size whose goal is not yet reached."""
    rows: list[TaskItem] = []
    needs = manual(goals)
    values = itertools.product((False, True), repeat=3)
    for persona, (place, goal), (number, now) in itertools.product(PERSONAS, enumerate(needs), enumerate(values)):
        for later in [other for other in needs if other != goal] if persona == "undecided" else [goal]:
            if needs[later] == now and persona != "undecided":
                continue
            name = f"{persona}-{place}-{number}-{[*needs].index(later)}"
            phone = " ".join(f"{setting} {ON[on]}" for setting, on in zip(SETTINGS, now[:-1], strict=True))
            fields = {
                "persona": persona,
                "goal": goal,
                "later": later,
                "phone": phone,
                "account": f"pack {ON[now[-1]]}",
            }
            rows.append(TaskItem(name, "A user of a phone company needs help.", "train", fields=fields))
    return tuple(rows)


def requests(text: str) -> list[tuple[str, str]]:
    """Return the requests of a message in order: ("goal", ""), ("phone", "") or a setting and its value.

    If there is a setting, questions are left out.
    """
    found = [(question or setting, value) for question, setting, value in _REQUEST.findall(text)]
    found = [(what.lower(), value.lower()) for what, value in found]
    return [pair for pair in found if pair[1]] or found


def reply(observation: str) -> str:
    """Return the reply of the scripted user to its observation.

    Raises:
        ValueError: The observation is not that of a user of support-v0.
    """
    parts = (line.partition(": ") for line in observation.splitlines())
    fields = {name: value for name, _, value in parts}
    if missing := {"You want to", "Your phone", "You remember", "Assistant"} - fields.keys():
        raise ValueError(f"the scripted user needs the line {min(missing)!r}, and observes {observation[:60]!r}")
    asked = requests(fields["Assistant"])
    remembered = asked if fields["You remember"] == "all" else asked[: int(fields["You remember"])]
    words = [f"SET {what} {value}" for what, value in remembered if value]
    words += [f"I want to {fields['You want to']}." for what, _ in remembered if what == "goal"]
    words += [f"My phone: {fields['Your phone']}." for what, _ in remembered if what == "phone"]
    if _CHANGED in observation.splitlines():
        words.append(f"I have changed my mind: I want to {fields['You want to']}.")
    return " ".join(words) or ("I wait." if fields["Assistant"] == _CALLED else "What shall I do?")


class Support(Task[State]):
    """Environment in which an assistant helps a user. See the module docstring.

    Args:
        user: "scripted", or "agent" for a policy in its place.
        goals: The number of goals, 2 to 4.
        turn_cost: The cost of a text of the assistant, at least 0.
        tasks, common: See `Task`; `max_turns` is 6 by default, and 12 with `user="agent"`.
    """

    declared = Facts(
        name="support-v0",
        roles=("assistant",),
        components=("solved", "turns"),
        diagnostics=("satisfaction", "texts"),
        score_range=(-1.0, 1.0),
        silence_is_lowest=False,
        shares_texts=True,
        scripts=("optimal", "careful"),
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        user: User = "scripted",
        goals: int = 3,
        turn_cost: float = 0.1,
        **common: Unpack[TaskOptions],
    ) -> None:
        if user not in get_args(User):
            raise ValueError(f"user is {user!r}; {nearest(user, get_args(User))}")
        if isinstance(turn_cost, bool) or not isinstance(turn_cost, (int, float)) or not 0 <= turn_cost < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"turn_cost is {turn_cost!r}; a cost is a finite number, give at least 0")
        self.user, self.turn_cost = user, float(turn_cost)
        self.needs = manual(check_int("goals", goals, 2, len(GOALS)))
        required = ("persona", "goal", "later", "phone", "account")
        sample = functools.partial(_sample, goals)
        self.source = TaskSource("support", required=("prompt", *required), sample=sample, every_split=True)  # type: ignore[misc]
        self._per_text = 1 + (user == "agent")  # turns for each text of the assistant
        if user == "agent":
            self.declared = replace(self.declared, roles=("assistant", "user"))
        self._known: tuple[int, tuple[TaskItem, ...], Facts] | None = None  # cached facts, with their H and tasks
        common.setdefault("max_turns", 6 * self._per_text)
        super().__init__(tasks, **common)

    @property
    def facts(self) -> Facts:
        """The facts; the optimum is known for a scripted user on all rows of the package."""
        if self._known is None or self._known[0] != self.max_turns or self._known[1] is not self.items:
            self._known = self.max_turns, self.items, self._facts()
        return self._known[2]

    def _facts(self) -> Facts:
        goals, cost, texts = self._size()
        best = None
        if self.user == "scripted" and self.items == _sample(goals):
            best = fmean(self.best_returns()[item.fields["persona"]] for item in self.items)
        scale = Scale(0.0, best if best and best > 0 else 1.0)
        low = -cost * texts
        return replace(self.declared, score_range=(low, 1.0), turn_range=(-cost, 1.0), optimum=best, scale=scale)

    def problem(self, item: TaskItem) -> str:
        """Return why a row has no such user; "" if it has one."""
        for field, names in {"persona": PERSONAS, "goal": self.needs, "later": self.needs}.items():
            if item.fields[field] not in names:
                return f"field {field!r}: {nearest(item.fields[field], names)}"
        for field, names in {"phone": SETTINGS, "account": ("pack",)}.items():
            found = _PAIR.findall(item.fields[field])
            if [name for name, _ in found] != [*names]:
                given, needed = item.fields[field][:60], " and ".join(names)
                return f"field {field!r}: is {given!r}; give {needed} the value on or off, in this order"
        return ""

    # --- the task -----------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the state before the first text of the assistant."""
        phone, [pack] = ([v == "on" for _, v in _PAIR.findall(item.fields[f])] for f in ("phone", "account"))
        opening = PERSONAS[item.fields["persona"]].opening
        asked = frozenset(["goal"] if "{}" in opening else [])
        heard = f"User: {opening.format(item.fields['goal'])}"
        return State(item, item.fields["goal"], tuple(phone), pack, asked=asked, heard=heard)

    def observations(self, state: State) -> Mapping[str, str]:
        """Return the words of the user for the assistant, or the words of the assistant for the user."""
        if state.over:
            return {}
        if state.waiting:
            return {USER: self._card(state)}
        left = f"Texts left: {self._size()[-1] - state.texts}"
        if state.texts:
            return {ASSISTANT: f"{state.heard}\n{left}"}
        lines = [f"To {goal}: {self._values(values)}" for goal, values in self.needs.items()]
        request = (
            "You are the assistant of a phone company. Ask the user `goal?` or `phone?`, ask it to `SET "
            f"{SETTINGS[0]} on`, or call {CALLS[1]}() or {CALLS[0]}(). The manual says what a goal needs:"
        )
        return {ASSISTANT: "\n".join([request, *lines, f"Account: pack {ON[state.pack]}", state.heard, left])}

    def _values(self, values: Sequence[bool]) -> str:
        return ", ".join(f"{name} {ON[on]}" for name, on in zip((*SETTINGS, "pack"), values, strict=False))

    def _card(self, state: State) -> str:
        """Return the observation of the user."""
        persona = PERSONAS[state.item.fields["persona"]]
        changed = [_CHANGED] if self._changes(state) else []
        return "\n".join(
            [
                "You are a user of a phone company. Answer the assistant. You change your phone by words such as "
                f"`SET {SETTINGS[0]} on`, and end the talk by {LEAVE}.",
                f"You want to: {state.goal}",
                f"Your phone: {self._values(state.phone)}",
                f"You remember: {persona.memory or 'all'}",
                f"Your patience: {persona.patience - state.texts}",
                *changed,
                f"Assistant: {state.said or _CALLED}",
            ]
        )

    def _changes(self, state: State) -> bool:
        """Return whether the user changes its mind after the latest text of the assistant."""
        return state.texts == CHANGE and state.item.fields["persona"] == "undecided"

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Run the call of the assistant or deliver its message, then apply the reply of the user."""
        if state.waiting:
            return self._answered(state, actions[USER])
        state = self._heard(state, actions[ASSISTANT])
        if self.user == "scripted":
            return self._answered(state, reply(self._card(state)))
        return Transition(state, 0.0, self._score(state))

    def _heard(self, state: State, text: str) -> State:
        """Return the state after a text of the assistant: its call is run, or its message is delivered to the user."""
        state = state._replace(texts=state.texts + 1, waiting=True, said="", heard="")
        if self._changes(state):
            state = state._replace(goal=state.item.fields["later"])
        if calls := read_calls(text, CALLS):
            pack = state.pack if calls[0].name not in CALLS else calls[0].name == CALLS[1]
            return state._replace(pack=pack, heard=f"pack {ON[pack]}")
        memory = PERSONAS[state.item.fields["persona"]].memory
        asked = requests(text)[:memory]
        phone: dict[str, bool] = dict(zip(SETTINGS, state.phone, strict=True))
        annoying = sum(
            phone[what] == (value == "on") if value else what in state.asked
            for what, value in asked
            if what in (*phone, "goal", "phone")
        )
        known = state.asked | {what for what, value in asked if not value}
        said = " ".join(text.split())[:LONGEST]
        return state._replace(said=said or "...", asked=known, annoyed=state.annoyed + annoying + (not asked))

    def _answered(self, state: State, text: str) -> Transition[State]:
        """Return the transition after the words of the user, by which it may change its phone or leave."""
        phone: dict[str, bool] = dict(zip(SETTINGS, state.phone, strict=True))
        phone |= {what: value == "on" for what, value in requests(text) if what in phone and value}
        values = (*phone.values(), state.pack)
        undecided = state.item.fields["persona"] == "undecided"
        solved = values == self.needs[state.goal] and not (undecided and state.texts < CHANGE)
        left = text.strip() == LEAVE or state.texts >= PERSONAS[state.item.fields["persona"]].patience
        words = " ".join(text.split()[:WORDS])[:LONGEST]
        heard = "\n".join(filter(None, [state.heard, f"User: {words}"]))
        after = state._replace(phone=values[:-1], heard=heard, waiting=False, solved=solved, over=solved or left)
        return Transition(after, float(solved) or -self.turn_cost, self._score(after), terminated=after.over)

    def _score(self, state: State) -> Score:
        charged = state.texts - state.solved - state.waiting  # a text is charged when the user has answered
        parts = {"solved": float(state.solved), "turns": -self.turn_cost * charged}
        satisfaction = max(0.0, 1 - ANNOYANCE * state.annoyed) if state.solved else 0.0
        return Score(sum(parts.values()), parts, {"satisfaction": satisfaction, "texts": float(state.texts)})

    def describe(self, state: State) -> Mapping[str, Any]:
        """Return the goal of the user, its phone and the account."""
        return {"goal": state.goal, "values": self._values((*state.phone, state.pack)), "annoyed": state.annoyed}

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """Return the tools of the assistant, which switch the pack of the account."""
        if agent == USER:
            return ()
        return tuple(Tool(name, f"Switches the pack of the account {on}.") for name, on in zip(CALLS, ON, strict=True))

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the return, the share of solved episodes, satisfaction and turns, by persona."""
        persona = {item.id: item.fields["persona"] for item in self.items}
        tables: dict[str, dict[str, float]] = {}
        for name in PERSONAS:
            final = [e.final for g in groups if persona[g.item_id] == name for e in g.episodes if e.final]
            if final:
                tables[f"{name} user"] = {
                    "return": fmean(score.total for score in final),
                    "solved %": 100 * fmean(score.components["solved"] for score in final),
                    "satisfaction %": 100 * fmean(score.diagnostics["satisfaction"] for score in final),
                    "texts": fmean(score.diagnostics["texts"] for score in final),
                }
        return tables

    # --- choices, the optimum, and teams without a model --------------------------------------------------------------

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the calls, the questions and all combinations of settings; for the user all replies without words."""
        values = itertools.product(("", *ON), repeat=len(SETTINGS))
        sets = [" ".join(f"SET {n} {v}" for n, v in zip(SETTINGS, of, strict=True) if v) for of in values]
        if agent == USER:
            goals = [f"I want to {goal}." for goal in self.needs]
            phones = itertools.product((False, True), repeat=len(SETTINGS))
            return [*sets[1:], *goals, *(f"My phone: {self._values(of)}." for of in phones), LEAVE]
        return ["goal?", "phone?", "goal? phone?", *(f"{name}()" for name in CALLS), *sets[1:]]

    def best_returns(self) -> Mapping[str, float]:
        """Return the highest expected return of an assistant for each persona, with a scripted user."""
        return _best_returns(*self._size())

    def _size(self) -> tuple[int, float, int]:
        """Return the number of goals, the cost of a text, and the number of texts of the assistant."""
        return len(self.needs), self.turn_cost, -(-self.max_turns // self._per_text)

    def script(self, name: str) -> Script:
        """Return the team "optimal" or "careful"; both have the scripted user."""
        plays = {"optimal": self._optimal, "careful": self._careful}
        if name not in plays:
            return super().script(name)
        return lambda agent, history: reply(history[-1].text) if agent == USER else plays[name](history)

    def _optimal(self, history: Sequence[Message]) -> str:
        """Return the best action on the rows of the package that give the same history."""
        search = _search(*self._size())
        if not (states := search.after(history)):
            raise ValueError(
                f"no row of support-v0 leads to the observation {history[-1].text[:60]!r} here; play the script on its "
                "own environment, with the scripted user"
            )
        return search.best(states, len(history) // 2)[1]

    def _careful(self, history: Sequence[Message]) -> str:
        """Ask for the goal and the phone, change the account, and then request the missing changes of the phone."""
        lines = [line for message in history if message.role == "observation" for line in message.text.splitlines()]
        known = [re.findall(rf"User: .*?want to ({'|'.join(self.needs)})", line) for line in lines]
        goal = next((found[-1] for found in reversed(known) if found), "")
        phone = next((dict(_PAIR.findall(line)) for line in reversed(lines) if "My phone: " in line), None)
        if not goal or phone is None:
            return " ".join([*([] if goal else ["goal?"]), *([] if phone else ["phone?"])])
        for line in lines:  # what the user has changed since
            phone |= {what: value for what, value in requests(line) if value} if line.startswith("User: ") else {}
        pack = next(
            value
            for line in reversed(lines)
            for name, value in _PAIR.findall(line)
            if name == "pack" and "To " not in line
        )
        *wanted, wanted_pack = (ON[on] for on in self.needs[goal])
        if pack != wanted_pack:
            return f"pack_{wanted_pack}()"
        return " ".join(f"SET {n} {v}" for n, v in zip(SETTINGS, wanted, strict=True) if phone[n] != v)


@functools.cache
def _search(goals: int, turn_cost: float, texts: int) -> Search[State]:
    """Return the search for the best policy of the assistant with a scripted user."""
    env = Support(goals=goals, turn_cost=turn_cost, max_turns=texts)
    return Search(env, key=lambda state: (state.item.id, state.goal, state.phone, state.pack))


@functools.cache
def _best_returns(goals: int, turn_cost: float, texts: int) -> Mapping[str, float]:
    search, found = _search(goals, turn_cost, texts), dict[str, float]()
    for name in PERSONAS:
        states = [state for state in search.initial() if state.item.fields["persona"] == name]
        found[name] = sum(search.best(group)[0] for group in search.groups(states)) / len(states)
    return found
