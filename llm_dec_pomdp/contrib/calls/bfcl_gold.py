"""The team `script:gold` of bfcl-v0.

Rows of several categories begin with the same words, so the dispatcher follows all rows that explain what it observed:
the words of the user, and what its calls gave. Where these differ in their next calls, it makes those of the row with
the most: where the row turns out to be one that waits for a function or an argument, they are made already, and in
the turn to which they belong a call that changes nothing is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from llm_dec_pomdp.registries import UnknownNameError
from llm_dec_pomdp.types import Message

from .bfcl import DONE, AnyCall, Instance, Row, attributes, calls_of, kits, played, row_of, written
from .dispatch import LEAD, before_choice, offered_in

if TYPE_CHECKING:
    from .bfcl import BFCL

_USER = "The user: "
_AT_ONCE = 16  # calls of an order


class _Made(NamedTuple):
    """A call of the team, its user turn, and what the dispatcher observed next."""

    call: AnyCall
    user: int
    following: str


class Gold:
    """Order the calls of the row; see `Script`.

    Args:
        env: Whose rows are played.
    """

    def __init__(self, env: BFCL) -> None:
        self._alone, self._chooses, self._characters = env.single_agent, env.chooses, env.characters
        self._rows: dict[str, list[Row]] = {}  # by what the dispatcher observes first
        for item in env.items:
            first = dict(env.initial_state(item, 0).messages)[LEAD].text
            self._rows.setdefault(first, []).append(row_of(item.fields["row"]))

    def __call__(self, agent: str, history: Sequence[Message]) -> str:
        """The next text of an agent."""
        if agent == LEAD:
            return self._lead(history)
        if history[-1].role == "tool":
            return f"Done. They gave:\n{history[-1].text}"
        text = before_choice(history[-1].text)
        return text.partition("\n\nOrder: ")[2] or text.removeprefix("Order: ")

    def _lead(self, history: Sequence[Message]) -> str:
        messages = [before_choice(message.text) for message in history]
        heard: list[str] = []
        made: list[_Made] = []
        for place, message in enumerate(history):
            if place and message.role == "observation" and message.text.startswith(_USER):
                heard.append(messages[place].removeprefix(_USER))
            if message.role == "action":
                following = messages[place + 1] if place + 1 < len(messages) else ""
                made += (_Made(call, len(heard), following) for call in self._called(history[place - 1], message))
        rows = [row for row in self._rows.get(history[0].text, ()) if list(row.words[1 : len(heard) + 1]) == heard]
        if not rows:
            raise UnknownNameError(f'no request {history[0].text[-60:]!r} is known; the team "gold" plays its tasks')
        if len(rows) > 1:
            rows = [row for row in rows if self._explains(row, made)] or rows
        if self._chooses:
            texts = [self._next([row], len(heard), made) for row in rows]
            offered = offered_in(history[-1].text)
            return next((text for text in texts if text in offered), texts[0])
        return self._next(rows, len(heard), made)

    def _called(self, before: Message, message: Message) -> Sequence[AnyCall]:
        """The calls of a text of the dispatcher."""
        letters = {letter: text for text, letter in offered_in(before.text).items()}
        text = letters.get(message.text, message.text)
        owner, _, order = ("", "", text) if self._alone else text.partition(": ")
        try:
            calls = calls_of(((order,),))
        except KeyError:  # a text of another team
            return ()
        return [call for call in calls if owner in ("", call[0])]

    def _explains(self, row: Row, made: Sequence[_Made]) -> bool:
        """Whether the calls would have given in a row what they gave."""
        gave = {name: iter(played(after)[1]) for name, after in _after(row, made).items()}
        return all(next(gave[m.call[0]]).strip()[: self._characters] in m.following for m in made if m.call[0] in gave)

    def _next(self, rows: Sequence[Row], user: int, made: Sequence[_Made]) -> str:
        left = sorted((_left(row, user, made) for row in rows), key=len, reverse=True)
        calls, *others = [calls for calls in left if calls] or [[]]
        waiting = [row for row in rows if row.gold[user]] if not any(m.user == user for m in made) else []
        if not calls and waiting:  # what is wanted was called before
            calls = [(call, written(call)) for call in _harmless(waiting[0], user, made)][:1]
        if not calls:
            return DONE
        owner = calls[0][0][0]
        order: list[str] = []
        for place, (call, text) in enumerate(calls[:_AT_ONCE]):
            alike = all([call] == [c for c, _ in other[place : place + 1]] for other in others)
            if place and not (alike and (self._alone or call[0] == owner)):
                break
            order.append(text)
        text = written(calls[0][0]) if self._chooses else f"[{', '.join(order)}]"
        return text if self._alone else f"{owner}: {text}"


def _left(row: Row, user: int, made: Sequence[_Made]) -> list[tuple[AnyCall, str]]:
    """The calls of a user turn that were not made so far, and how the row writes them."""
    further = Counter(m.call for m in made) - Counter(calls_of(row.gold[:user]))
    left: list[tuple[AnyCall, str]] = []
    for call, text in zip(calls_of(row.gold[user : user + 1]), row.gold[user], strict=True):
        if further[call]:
            further[call] -= 1
        else:
            left.append((call, text))
    return left


def _after(row: Row, made: Sequence[_Made]) -> dict[str, Instance]:
    """The objects of a row after calls."""
    lines: Mapping[str, str] = {
        name: "".join(f"{m.call[1]} {m.call[2]}\n" for m in made if m.call[0] == name) for name in row.classes
    }
    return {name: Instance(name, row.configs.get(name, ""), row.long, lines[name]) for name in row.classes}


def _harmless(row: Row, user: int, made: Sequence[_Made]) -> Iterator[AnyCall]:
    """Calls that change no object of a row: those of the user turn again, and functions without arguments."""
    now = _after(row, made)
    functions = [(kit.name, f.tool) for kit in kits() for f in kit.functions if kit.name in now]
    plain = [(name, tool.name, "{}") for name, tool in functions if not tool.json_schema.get("required")]
    for call in (*calls_of(row.gold[user : user + 1]), *plain):
        before: Any = attributes(played(now[call[0]])[0])
        changed = now[call[0]]._replace(calls=f"{now[call[0]].calls}{call[1]} {call[2]}\n")
        if attributes(played(changed)[0]) == before:
            yield call
