"""calls-v0: A dispatcher reads the requests of a user, and five specialists call the tools of their applications.

| fact | value |
|---|---|
| agents | agent_0 "dispatcher", then "calendar", "bank", "mail", "shop" and "files" |
| turns | `max_turns` H = 60: dispatcher and specialists alternate; 12 to 24 without mistakes |
| offline | 200 / 100 requests (train / test) of 2 to 6 calls in 1 to 3 user turns |
| options | `reward` "outcome", "process" or "call"; `rows`; `candidates` |
| files | rows of `prompt` (the user's text of the first turn), `world` and `turns` |
| `world` | initial state of the applications |
| `turns` | one JSON line per user turn, with the user's text and the reference calls |
| return | 0 to 1.0 |

Observation. Only the dispatcher observes the messages of the user and the names of the applications. A specialist
observes its orders, its own tools and the results of its calls. Later the dispatcher observes the specialist's report.
So a value that one application has and another needs passes through the messages of three agents.

Action. The dispatcher writes orders, one line such as `bank: pay 24 to Eva` each. If it writes an answer without an
order, the user turn ends. A specialist writes calls (docs/tools.md) in up to 3 texts for an order. Its first text
without calls is its report. A blank text of the dispatcher has no effect.

Reward (one float for the team). A user turn is right if all applications are in the state that results from the
reference calls of the task. Extra calls that only read do not matter. Extra calls that change an application make the
turn wrong. A mail or file that an agent writes must contain only the value, no other words.

| `reward` | rule |
|---|---|
| outcome | 1 at the end if all user turns were right |
| process | 1 / number of user turns, at the end of each user turn that was right |
| call | 1 / number of reference calls, for each of these calls when it is first made in its user turn |

Every score has all three as diagnostics (`outcome`, `process`, `call`), and the number of calls (`calls`).

Degenerate strategies. `call` also rewards calls that no meaningful order asked for. In one such strategy the dispatcher
writes "x" to all applications in every user turn, and the specialists look up everything. On the test rows this team
receives 38.8 % with `call` (50 % on the best row), and 0 % with `process` and `outcome`.

Options. `rows=[2, 3]` selects only the third and the fourth row. With `candidates=True` agents act with a letter:

| agent | chooses among |
|---|---|
| dispatcher | the order needed next, the same with a wrong value, an order to another application, the turn's end |
| specialist | the call that its order means, the same with a wrong argument, a call of another tool, no call |

The results of a specialist's calls are then its report, and its history is reset with each order. Which letter means
which text is fixed: for the dispatcher by the task and the call that is needed next, for a specialist by its order.

Teams. `script:gold` receives 1. In `script:parrot` the dispatcher passes the words of the user to all applications,
and these carry out the orders that they understand. `script:random` writes random orders and calls.

Measured (`env.measure`): the value of each of the three rewards, and the number of calls in an episode. Three shares of
calls are also measured: unknown tools, wrong arguments, and calls that the same agent repeats.

An event `knows` in a trace marks when an agent first observes a value that a reference call needs, and where the value
came from. The viewer uses these events to show which agent knew which value when.

Source: written for this package.

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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from llm_dec_pomdp.envs import Script, Tasks, TaskSource, TextDecPOMDP
from llm_dec_pomdp.envs.hierarchy.base import LEADER
from llm_dec_pomdp.envs.tools import ToolState
from llm_dec_pomdp.registries import UnknownNameError
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Message, TaskItem

from .applications import APPLICATIONS, KITS, LIMITS, TOOLS, AppState, Asked, asked, run, understood
from .dispatch import (
    DECLARED,
    Dispatch,
    DispatchOptions,
    State,
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
REFUSED = "I cannot do that."
VALUES: Mapping[str, Sequence[Any]] = {  # possible values of each argument
    **dict.fromkeys(("person", "sender", "to"), PEOPLE),
    "item": ITEMS,
    "title": TITLES,
    "day": DAYS,
    "amount": AMOUNTS,
    "count": COUNTS,
}


class Calls(Dispatch):
    """Environment with orders, calls and reports in five applications. See the module docstring.

    Args:
        tasks, common: See `Dispatch`.
    """

    source = TaskSource("calls", required=("prompt", "world", "turns"), sample=embedded)
    declared = replace(
        DECLARED, name="calls-v0", hidden_fields=("world", "turns"), scripts=("gold", "parrot", "random")
    )

    def __init__(self, tasks: Tasks = "sample", **common: Unpack[DispatchOptions]) -> None:
        super().__init__(KITS, LIMITS, tasks, **common)

    def with_candidates(self) -> TextDecPOMDP:
        """Return the task with agents that choose orders and calls by letter."""
        from .choices import CallsChoices  # here, since it imports this module

        return CallsChoices(self)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def problem(self, item: TaskItem) -> str:
        """Return why the world or the calls of a row are invalid; "" if they are valid."""
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
        return "" if turns else "field 'turns': has no user turn; give at least one line"

    def words(self, item: TaskItem) -> Sequence[str]:
        """Return the messages of the user, one for each user turn."""
        later = (turn.words for turn in turns_of(item.fields["turns"])[1:])
        return [" ".join(words.split()) for words in (item.prompt, *later)]

    def tools_at_first(self, item: TaskItem) -> ToolState:
        """Return the applications in the world of the row."""
        world = world_of(item.fields["world"])
        return ToolState(tuple((place, "", world[name]) for place, name in enumerate(APPLICATIONS)))

    # --- checks of user turns -----------------------------------------------------------------------------------------

    def right(self, state: State) -> bool:
        """Return whether the applications are in the state that results from the calls of the row."""
        place = {kit: state_of for kit, _, state_of in state.tools.states}
        now = {name: place[i] for i, name in enumerate(APPLICATIONS)}
        return now == states_after(state.item.fields["world"], state.item.fields["turns"])[state.user]

    def gold(self, item: TaskItem) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return the calls of the row; see `Dispatch.gold`."""
        return _gold(item.fields["turns"])

    def missing(self, state: State, user: int) -> list[Asked]:
        """Return the calls of the row in a user turn that were not made in it."""
        called = {(m.tool, m.arguments) for m in state.calls if m.valid and m.user == user}
        calls = turns_of(state.item.fields["turns"])[user].calls
        return [call for call in calls if (call.tool, json.dumps(dict(call.arguments), sort_keys=True)) not in called]

    # --- teams without a model ----------------------------------------------------------------------------------------

    def script(self, name: str) -> Script:
        """Return the team "gold", "parrot" or "random"; see the module docstring."""
        if name not in self.declared.scripts:
            return super().script(name)
        teams = {"gold": self._gold, "parrot": self._parrot, "random": self._random}
        return teams[name]

    @functools.cached_property
    def _known(self) -> Mapping[str, tuple[UserTurn, ...]]:
        return {self.words(item)[0]: turns_of(item.fields["turns"]) for item in self.items}

    def _gold(self, agent: str, history: Sequence[Message]) -> str:
        if agent != LEADER:
            return self._understood(agent, history)
        prompt = history[0].text.partition("The user: ")[2].partition("\n")[0]
        if prompt not in self._known:
            raise UnknownNameError(
                f'the team "gold" does not know the request {prompt[:60]!r}; play it on the tasks of its environment'
            )
        texts = [text for turn in self._known[prompt] for text in (*map(ordered, turn.calls), DONE)]
        spoken = sum(message.role == "action" for message in history)
        return texts[min(spoken, len(texts) - 1)]

    def _understood(self, agent: str, history: Sequence[Message]) -> str:
        """Act as a specialist that understands orders in their usual words: call, then report the result."""
        if history[-1].role == "tool":
            return history[-1].text
        call = understood(self.role(agent), history[-1].text.rpartition("Order: ")[2])
        return call.text if call else REFUSED

    def _parrot(self, agent: str, history: Sequence[Message]) -> str:
        """Pass the words of the user to all applications, once."""
        if agent != LEADER:
            return self._understood(agent, history)
        words = _heard(history)
        if "reports: " in history[-1].text:
            return DONE
        return "\n".join(f"{name}: {words}" for name in APPLICATIONS)

    def _random(self, agent: str, history: Sequence[Message]) -> str:
        """Choose a random application and call; the history is the seed."""
        label = derive(0, agent, *map(str, history))
        application = APPLICATIONS[label % len(APPLICATIONS)] if agent == LEADER else self.role(agent)
        call = drawn_call(application, label)
        if label % 4 == 0:
            return DONE
        return ordered(call) if agent == LEADER else call.text


@functools.lru_cache(maxsize=4096)
def _gold(turns: str) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    return tuple((call.application, dict(call.arguments)) for turn in turns_of(turns) for call in turn.calls)


@functools.lru_cache(maxsize=4096)
def states_after(world: str, turns: str) -> tuple[dict[str, AppState], ...]:
    """Return the states of the applications after every user turn of a row."""
    states, after = dict(world_of(world)), list[dict[str, AppState]]()
    for turn in turns_of(turns):
        for call in turn.calls:
            states, _ = run(states, call)
        after.append(states)
    return tuple(after)


def ordered(call: Asked) -> str:
    """Return the order of the dispatcher for a call."""
    return f"{call.application}: {call.order}"


def _heard(history: Sequence[Message]) -> str:
    """Return the last message of the user."""
    heard = (m.text.rpartition("The user: ")[2] for m in history if "The user: " in m.text)
    return [words.partition("\n")[0] for words in heard][-1]


def drawn_call(application: str, label: int, but: str = "") -> Asked:
    """Return a random call of an application, not of the tool `but`; `label` is the seed."""
    tools = [tool for tool, owner in TOOLS.items() if owner == application and tool != but]
    tool = tools[derive(label, "tool") % len(tools)]
    schema = next(f.tool.json_schema for kit in KITS for f in kit.functions if f.tool.name == tool)
    arguments: dict[str, Any] = {}
    for name in schema["properties"]:
        values = VALUES.get(name) or (DAYS if name == "text" else FILES if tool == "read_file" else PAPERS)
        value = values[derive(label, name) % len(values)]
        arguments[name] = str(value) if name == "text" else value
    return asked(tool, **arguments)
