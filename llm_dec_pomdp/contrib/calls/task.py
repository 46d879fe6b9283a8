"""calls-v0: A dispatcher reads the requests of a user, and five specialists call the tools of their applications.

| fact | value |
|---|---|
| agents | agent_0 "dispatcher", then "calendar", "bank", "mail", "shop" and "files" |
| turns | `max_turns` H = 60: dispatcher and specialists alternate; 12 to 24 without mistakes |
| offline | 200 / 100 requests (train / test) of 2 to 6 calls in 1 to 3 user turns |
| options | `reward` "outcome", "process" or "call"; `grammar` "free" or "choice"; `single_agent`; `rows` |
| files | rows of `prompt`, `world`, and `turns`: words and calls of every user turn, a line of JSON each |
| return | 0 to 1.0 |

Observation. Only the dispatcher observes the messages of the user, and the names of the applications. A specialist
observes its orders, its own tools and the results of its calls. Later the dispatcher observes its report. So every
value that one application has and another needs passes through the messages of three agents.

Action. The dispatcher writes orders, a line `bank: pay 24 to Eva` each, or an answer in words, which ends the user
turn. A specialist writes calls (docs/tools.md) in up to 3 texts for an order, and a text without calls is its report. A
blank text of the dispatcher does nothing.

Reward (one float for the team). A user turn is right if all applications are in the state in which the calls of the row
leave them. Other look-ups do not matter. Texts that are sent or written have to be the bare value.

| `reward` | rule |
|---|---|
| outcome | 1 at the end if all user turns were right |
| process | 1 / number of user turns, at the end of each one that was right |
| call | 1 / number of calls of the row, for each one when it is first made in its user turn |

All three are diagnostics of every score, whichever is the reward: `outcome`, `process`, `call`; and `calls`, the number
of calls. `call` also rewards calls that no meaningful order asked for: if the dispatcher writes "x" to all applications
in every user turn and the specialists look up everything, the team receives 38.8 % on the test rows (50 % at most); 0 %
with `process` and `outcome`.

Options. With `grammar="choice"` agents act with a letter. The dispatcher chooses among the order that is needed next,
the same with a wrong value, an order to another application, and ending the user turn; a specialist among the call that
its order means, one with a wrong argument, another tool and none. The results of its calls are its report, and its
history is reset with each order. The letters depend only on row and order. `single_agent` (protocol "centralized")
gives one agent the messages of the user and all tools. `rows=[2, 3]` plays only the third and the fourth row.

Teams. `script:gold` receives 1. `script:parrot` passes the words of the user on to all applications, which do what they
understand. `script:random` orders and calls at random.

Measured (`env.measure`): the value of each of the three rewards; the calls of an episode; the shares of calls of
unknown tools, with wrong arguments, and repeated by the same agent. Of the values in the calls of the row: the share
that the dispatcher observed, and the share that the specialist with this call observed. Traces have an event `knows`
where an agent first observes such a value, with its source, so that the viewer shows which agent knew which value when.

Source: this suite's own.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("calls-v0")
    >>> env.reset(options={"index": 0})[0]["agent_0"].splitlines()[-1]
    'The user: Pay the amount in the mail of Eva to Eva.'
    >>> order = {**dict.fromkeys(env.agents, ""), "agent_0": "mail: what does Eva write?"}
    >>> env.step(order)[0]["agent_3"].splitlines()[-1]
    'Order: what does Eva write?'
    >>> call = {**dict.fromkeys(env.agents, ""), "agent_3": 'read_mail(sender="Eva")'}
    >>> env.step(call)[0]["agent_3"]
    'Eva writes: amount 24'
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from llm_dec_pomdp.envs import Script, Tasks, TaskSource, TextDecPOMDP, is_sample
from llm_dec_pomdp.envs.tools import ToolState
from llm_dec_pomdp.registries import UnknownNameError
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Message, TaskItem

from .applications import APPLICATIONS, KITS, LIMITS, ORDERS, TOOLS, AppState, Asked, asked, run, understood
from .dispatch import (
    CHOOSE,
    DECLARED,
    LEAD,
    LETTERS,
    MORE,
    REFUSED,
    Dispatch,
    DispatchOptions,
    State,
    by_letter,
    shuffled,
    told_first,
)
from .generator import (
    AMOUNTS,
    COUNTS,
    DAYS,
    FILES,
    ITEMS,
    PAPERS,
    PEOPLE,
    TITLES,
    UserTurn,
    embedded,
    turns_of,
    world_of,
)

DONE = "Done."
_VALUES: Mapping[str, Sequence[Any]] = {  # of arguments
    **dict.fromkeys(("person", "sender", "to"), PEOPLE),
    "item": ITEMS,
    "title": TITLES,
    "day": DAYS,
    "amount": AMOUNTS,
    "count": COUNTS,
}


class Calls(Dispatch):
    """Orders, calls and reports in five applications; the module is the manual.

    Args:
        tasks, common: See `Dispatch`.
    """

    source = TaskSource("calls", required=("prompt", "world", "turns"), sample=embedded)
    declared = replace(
        DECLARED, name="calls-v0", hidden_fields=("world", "turns"), scripts=("gold", "parrot", "random")
    )

    def __init__(self, tasks: Tasks = "sample", **common: Unpack[DispatchOptions]) -> None:
        if common.get("grammar") == "choice":  # words of the user are no option
            words = _vocabulary() if is_sample(tasks) else ()
            self.declared = replace(self.declared, scripts=("gold", "random"), vocabulary=words)
        super().__init__(KITS, LIMITS, tasks, **common)

    def alone(self) -> TextDecPOMDP:
        """The same rows for one agent."""
        options: dict[str, Any] = {"reward": self.reward, "grammar": self.grammar, "render_mode": self.render_mode}
        return Calls(self.items, split="all", single_agent=True, **options)

    # --- rows --------------------------------------------------------------------------------------------------------

    def problem(self, item: TaskItem) -> str:
        """A world or calls that cannot be read, or that fail."""
        try:
            states = world_of(item.fields["world"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return f'field \'world\': {error}; give a line of JSON such as {{"calendar": [["Ada", 12]]}}'
        try:
            turns = turns_of(item.fields["turns"])
            for call in (call for turn in turns for call in turn.calls):
                states, _ = run(states, call)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            return (
                f"field 'turns': {type(error).__name__}: {error}; give lines such as "
                '{"words": "Ask Ada.", "calls": [["send_mail", {"to": "Ada", "text": "12"}]]}'
            )
        return "" if turns else "field 'turns': holds no user turn"

    def words(self, item: TaskItem) -> Sequence[str]:
        """As the row has them."""
        later = (turn.words for turn in turns_of(item.fields["turns"])[1:])
        return [" ".join(words.split()) for words in (item.prompt, *later)]

    def tools_at_first(self, item: TaskItem) -> ToolState:
        """The world of the row."""
        world = world_of(item.fields["world"])
        return ToolState(tuple((place, "", world[name]) for place, name in enumerate(APPLICATIONS)))

    # --- what is right -----------------------------------------------------------------------------------------------

    def right(self, state: State) -> bool:
        """The applications are as the calls of the row leave them."""
        place = {kit: state_of for kit, _, state_of in state.tools.states}
        now = {name: place[i] for i, name in enumerate(APPLICATIONS)}
        return now == states_after(state.item.fields["world"], state.item.fields["turns"])[state.user]

    def gold(self, item: TaskItem) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """See `Dispatch`."""
        return _gold(item.fields["turns"])

    def missing(self, state: State, user: int) -> int:
        """See `Dispatch`."""
        return len(self._missing(state, user))

    def _missing(self, state: State, user: int) -> list[Asked]:
        """Calls of a user turn that were not made in it."""
        called = {(m.tool, m.arguments) for m in state.calls if m.valid and m.user == user}
        calls = turns_of(state.item.fields["turns"])[user].calls
        return [call for call in calls if (call.tool, json.dumps(dict(call.arguments), sort_keys=True)) not in called]

    # --- choices -----------------------------------------------------------------------------------------------------

    def offers(self, state: State, agent: str, observation: str) -> tuple[str, ...]:
        """See "Options" of the module."""
        if agent != LEAD:
            return offered_calls(self.role(agent), observation.rpartition("Order: ")[2])
        turn = turns_of(state.item.fields["turns"])[state.user] if state.user < len(self.words(state.item)) else None
        if turn is None:
            return ()
        call = next(iter(self._missing(state, state.user)), turn.calls[-1])
        label = derive(0, state.item.id, state.user, turn.calls.index(call))
        wrong, other = altered(call, label), another(APPLICATIONS, call.application, label)
        if self.single_agent:
            return shuffled((call.text, wrong.text, drawn_call(other, label).text, DONE), label)
        return shuffled((_ordered(call), _ordered(wrong), f"{other}: {call.order}", DONE), label)

    # --- teams without a model ---------------------------------------------------------------------------------------

    def script(self, name: str) -> Script:
        """The teams of the module."""
        if name not in self.declared.scripts:
            return super().script(name)
        teams = {"gold": self._gold, "parrot": self._parrot, "random": self._random}
        return by_letter(teams[name])

    @functools.cached_property
    def _known(self) -> Mapping[str, tuple[UserTurn, ...]]:
        return {self.words(item)[0]: turns_of(item.fields["turns"]) for item in self.items}

    def _gold(self, agent: str, history: Sequence[Message]) -> str:
        if agent != LEAD:
            return self._understood(agent, history)
        prompt = history[0].text.partition("The user: ")[2].partition("\n")[0]
        if prompt not in self._known:
            raise UnknownNameError(f'no request {prompt[:60]!r} is known; the team "gold" plays the tasks that it has')
        write = _written if self.single_agent else _ordered
        texts = [text for turn in self._known[prompt] for text in (*map(write, turn.calls), DONE)]
        spoken = sum(message.role == "action" for message in history)
        return texts[min(spoken, len(texts) - 1)]

    def _understood(self, agent: str, history: Sequence[Message]) -> str:
        """What a specialist does that understands orders by their usual words: a call, then what it gave."""
        if history[-1].role == "tool":
            return history[-1].text
        call = understood(self.role(agent), history[-1].text.rpartition("Order: ")[2])
        return call.text if call else REFUSED

    def _parrot(self, agent: str, history: Sequence[Message]) -> str:
        """The words of the user go to all applications, once."""
        if agent != LEAD:
            return self._understood(agent, history)
        words = _heard(history)
        if self.single_agent or "reports: " in history[-1].text:
            return DONE
        return "\n".join(f"{name}: {words}" for name in APPLICATIONS)

    def _random(self, agent: str, history: Sequence[Message]) -> str:
        """An application and a call by chance, which follows from the history."""
        label = derive(0, agent, *map(str, history))
        application = APPLICATIONS[label % len(APPLICATIONS)] if agent == LEAD else self.role(agent)
        call = drawn_call(application, label)
        if label % 4 == 0:
            return DONE
        return _ordered(call) if agent == LEAD and not self.single_agent else call.text


@functools.lru_cache(maxsize=4096)
def _gold(turns: str) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    return tuple((call.application, dict(call.arguments)) for turn in turns_of(turns) for call in turn.calls)


@functools.lru_cache(maxsize=4096)
def states_after(world: str, turns: str) -> tuple[dict[str, AppState], ...]:
    """The states of the applications after every user turn of a row."""
    states, after = dict(world_of(world)), list[dict[str, AppState]]()
    for turn in turns_of(turns):
        for call in turn.calls:
            states, _ = run(states, call)
        after.append(states)
    return tuple(after)


def _ordered(call: Asked) -> str:
    return f"{call.application}: {call.order}"


def _written(call: Asked) -> str:
    return call.text


def _heard(history: Sequence[Message]) -> str:
    """What the user said last."""
    heard = (m.text.rpartition("The user: ")[2] for m in history if "The user: " in m.text)
    return [words.partition("\n")[0] for words in heard][-1]


@functools.cache
def _vocabulary() -> tuple[str, ...]:
    """Every word of embedded rows where agents choose: what users say, orders, calls, and what these give."""
    texts = [told_first(APPLICATIONS), MORE, CHOOSE, REFUSED, DONE, " ".join(LETTERS)]
    texts += [
        "You are the application Order: reports: user: says says: there is no are event with payment of mail item file",
        *(re.sub(r"\{\w+\}", "", order) for order in ORDERS.values()),
    ]
    texts += [f"{name} {name}. {name}:" for name in APPLICATIONS] + [f"{tool}:" for tool in TOOLS]
    texts += [turn.words for item in embedded() for turn in turns_of(item.fields["turns"])]
    texts += ["The event is on last was paid writes: sent price of cost says: now day amount item person"]
    values = (*PEOPLE, *ITEMS, *TITLES, *FILES, *PAPERS, *map(str, range(1, max(COUNTS) * max(AMOUNTS) + 1)))
    texts += [f"{value} {value}, '{value}';" for value in values]
    for kit in KITS:
        for function in kit.functions:
            names = sorted(function.tool.json_schema["properties"])
            for place, name in enumerate(names):
                given = _VALUES.get(name) or (FILES if function.tool.name == "read_file" else PAPERS)
                if name == "text":
                    given = [*map(str, (*DAYS, *AMOUNTS)), *PAPERS, *ITEMS, *PEOPLE]
                start = "" if place else f"{function.tool.name}("
                end = "," if place < len(names) - 1 else ")"
                texts += [f"{start}{name}={json.dumps(value)}{end}" for value in given]
    return tuple(dict.fromkeys(word for text in texts for word in text.split()))


# --- calls that are offered -------------------------------------------------------------------------------------------


def another(values: Sequence[Any], value: Any, label: int) -> Any:
    """A value that is another one, decided by a number."""
    others = [other for other in values if other != value]
    return others[derive(label, "another") % len(others)]


def altered(call: Asked, label: int) -> Asked:
    """The call with another value of one argument."""
    place = derive(label, "argument") % len(call.arguments)
    name, value = call.arguments[place]
    if name == "text" and value.isdigit():
        values: Sequence[Any] = [str(number) for number in (*DAYS, *AMOUNTS)]
    else:
        values = _VALUES.get(name) or (FILES if call.tool == "read_file" else PAPERS)
    changed = (name, another(values, value, label))
    return call._replace(arguments=(*call.arguments[:place], changed, *call.arguments[place + 1 :]))


def drawn_call(application: str, label: int, but: str = "") -> Asked:
    """A call of an application, of another tool than `but`, decided by a number."""
    tools = [tool for tool, owner in TOOLS.items() if owner == application and tool != but]
    tool = tools[derive(label, "tool") % len(tools)]
    schema = next(f.tool.json_schema for kit in KITS for f in kit.functions if f.tool.name == tool)
    arguments: dict[str, Any] = {}
    for name in schema["properties"]:
        values = _VALUES.get(name) or (DAYS if name == "text" else FILES if tool == "read_file" else PAPERS)
        value = values[derive(label, name) % len(values)]
        arguments[name] = str(value) if name == "text" else value
    return asked(tool, **arguments)


@functools.lru_cache(maxsize=1 << 14)
def offered_calls(application: str, words: str) -> tuple[str, ...]:
    """The call that an order means, a wrong argument, another tool, and none; three calls where it means nothing."""
    label = derive(0, application, words)
    call = understood(application, words)
    meant = call or drawn_call(application, label)
    other = drawn_call(application, label, but=meant.tool)
    return shuffled((meant.text, altered(meant, label).text, other.text, REFUSED), label)
