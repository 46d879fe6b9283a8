"""The five applications of calls-v0: typed functions, orders for them in words, and their states as values.

| application | looks up | changes |
|---|---|---|
| calendar | `find_event(person)` | `add_event(title, day)`, `move_event(person, day)` |
| bank | `last_payment(person)` | `pay(person, amount)` |
| mail | `read_mail(sender)` | `send_mail(to, text)` |
| shop | `price(item)` | `order(item, count)`, which returns the cost |
| files | `read_file(name)` | `write_file(name, text)` |

The last word of a result is its value. A state is a pair: the values that can be looked up, and the changes so far.
Both are sorted, so the order of changes does not matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

from llm_dec_pomdp.envs.tools import Call, Kit, Limits, kit

Pairs = tuple[tuple[Any, ...], ...]
AppState = tuple[Pairs, Pairs]
LONGEST = 300  # longest stored text, in characters
MOST = 100  # maximum number of changes in an application


def _found(pairs: Pairs, key: str, what: str) -> Any:
    table = dict(cast("Any", pairs))
    if key not in table:
        raise ValueError(f"there is no {what} {key!r:.60}; there are {', '.join(table)}")
    return table[key]


def _with(pairs: Pairs, *entry: Any) -> Pairs:
    if any(len(part) > LONGEST for part in entry if isinstance(part, str)):
        raise ValueError(f"a text is longer than {LONGEST} characters")
    if len(pairs) >= MOST:
        raise ValueError(f"there are {MOST} entries already")
    return tuple(sorted((*pairs, entry)))


def find_event(state: AppState, person: str) -> tuple[AppState, str]:
    """Look up the day of the event with a person.

    Args:
        person: Who takes part.
    """
    return state, f"The event with {person} is on day {_found(state[0], person, 'event with')}"


def add_event(state: AppState, title: str, day: int) -> tuple[AppState, str]:
    """Put a new event into the calendar.

    Args:
        title: A word.
        day: Of the month.
    """
    return (state[0], _with(state[1], title, day)), f"{title} is on day {day}"


def move_event(state: AppState, person: str, day: int) -> tuple[AppState, str]:
    """Move the event with a person to another day.

    Args:
        person: Who takes part.
        day: Of the month.
    """
    _found(state[0], person, "event with")
    rest = tuple(pair for pair in state[0] if pair[0] != person)
    return (_with(rest, person, day), state[1]), f"The event with {person} is on day {day}"


def last_payment(state: AppState, person: str) -> tuple[AppState, str]:
    """Look up how much a person paid last.

    Args:
        person: Who paid.
    """
    return state, f"The last payment of {person} was {_found(state[0], person, 'payment of')}"


def pay(state: AppState, person: str, amount: int) -> tuple[AppState, str]:
    """Pay an amount to a person.

    Args:
        person: Who gets it.
        amount: In whole euros, above 0.
    """
    if amount < 1:
        raise ValueError(f"the amount is {amount}; pay at least 1")
    return (state[0], _with(state[1], person, amount)), f"{person} was paid {amount}"


def read_mail(state: AppState, sender: str) -> tuple[AppState, str]:
    """Read the last mail of a person.

    Args:
        sender: Who wrote it.
    """
    return state, f"{sender} writes: {_found(state[0], sender, 'mail of')}"


def send_mail(state: AppState, to: str, text: str) -> tuple[AppState, str]:
    """Send a mail.

    Args:
        to: Who gets it.
        text: All that it says.
    """
    return (state[0], _with(state[1], to, text)), f"{to} was sent {text}"


def price(state: AppState, item: str) -> tuple[AppState, str]:
    """Look up the price of an item.

    Args:
        item: A word.
    """
    return state, f"The price of {item} is {_found(state[0], item, 'item')}"


def order(state: AppState, item: str, count: int) -> tuple[AppState, str]:
    """Order an item; answers with what it costs.

    Args:
        item: A word.
        count: How many, above 0.
    """
    cost = _found(state[0], item, "item")
    if count < 1:
        raise ValueError(f"the count is {count}; order at least 1")
    return (state[0], _with(state[1], item, count)), f"{count} of {item} cost {count * cost}"


def read_file(state: AppState, name: str) -> tuple[AppState, str]:
    """Read a file.

    Args:
        name: A word.
    """
    return state, f"{name} says: {_found(state[0], name, 'file')}"


def write_file(state: AppState, name: str, text: str) -> tuple[AppState, str]:
    """Write a new file.

    Args:
        name: A word.
        text: All that it says.
    """
    return (state[0], _with(state[1], name, text)), f"{name} now says {text}"


KITS: tuple[Kit, ...] = (
    kit("calendar", find_event, add_event, move_event, initial=((), ())),
    kit("bank", last_payment, pay, initial=((), ())),
    kit("mail", read_mail, send_mail, initial=((), ())),
    kit("shop", price, order, initial=((), ())),
    kit("files", read_file, write_file, initial=((), ())),
)
APPLICATIONS = tuple(k.name for k in KITS)
TOOLS: Mapping[str, str] = {f.tool.name: k.name for k in KITS for f in k.functions}  # tool -> application
LIMITS = {tool: Limits(seconds=0) for tool in TOOLS}
ORDERS = {
    "find_event": "find the event with {person}",
    "add_event": "add {title} on day {day}",
    "move_event": "move the event with {person} to day {day}",
    "last_payment": "find the last payment of {person}",
    "pay": "pay {amount} to {person}",
    "read_mail": "read the mail of {sender}",
    "send_mail": "send {text} to {to}",
    "price": "find the price of {item}",
    "order": "order {count} of {item}",
    "read_file": "read the file {name}",
    "write_file": "write {text} into the file {name}",
}
_READ = {name: re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>\\w+)", words)) for name, words in ORDERS.items()}
_NUMBERS = ("day", "amount", "count")


class Asked(NamedTuple):
    """A hashable call."""

    tool: str
    arguments: tuple[tuple[str, Any], ...]  # sorted by name

    @property
    def application(self) -> str:
        """The application that has the tool."""
        return TOOLS[self.tool]

    @property
    def text(self) -> str:
        """The call as a model writes it."""
        return f"{self.tool}({', '.join(f'{name}={json.dumps(value)}' for name, value in self.arguments)})"

    @property
    def order(self) -> str:
        """The order for the application, in words."""
        return ORDERS[self.tool].format(**dict(self.arguments))

    @property
    def call(self) -> Call:
        """The call for the toolbox."""
        return Call(self.tool, dict(self.arguments))


def asked(tool: str, **arguments: Any) -> Asked:
    """Return a hashable call."""
    return Asked(tool, tuple(sorted(arguments.items())))


def understood(application: str, words: str) -> Asked | None:
    """Return the call that an order contains; None if it contains no order for the application."""
    for tool, pattern in _READ.items():
        match = pattern.search(words)
        if match and TOOLS[tool] == application:
            given = match.groupdict()
            if all(value.isascii() and value.isdigit() for name, value in given.items() if name in _NUMBERS):
                return asked(tool, **{n: int(v[:9]) if n in _NUMBERS else v for n, v in given.items()})
    return None


def states_of(world: Mapping[str, Iterable[Iterable[Any]]]) -> dict[str, AppState]:
    """Return the initial state of each application.

    Args:
        world: The (key, value) entries of each application; an application without entries may be left out.
    """
    return {name: (tuple(sorted(tuple(pair) for pair in world.get(name, ()))), ()) for name in APPLICATIONS}


def run(states: Mapping[str, AppState], call: Asked) -> tuple[dict[str, AppState], str]:
    """Run a call and return the new states and the result.

    Raises:
        ValueError: The call fails; the message is the reason that agents observe.
    """
    functions: dict[str, Callable[..., Any]] = {f.tool.name: f.run for k in KITS for f in k.functions}
    after, answer = functions[call.tool](states[call.application], dict(call.arguments))
    return {**states, call.application: after}, answer
