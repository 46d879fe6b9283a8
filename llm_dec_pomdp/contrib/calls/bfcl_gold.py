"""The team `script:gold` of bfcl-v0.

Rows of several categories begin with the same words. So the dispatcher keeps all rows that are consistent with its
observations: the words of the user, and the results of its calls. If these rows have different next calls, it makes
the calls of the row with the most. The other rows may wait for a function or an argument before they need the same
calls. These are then made already, and in the later turn a call that changes nothing is enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from llm_dec_pomdp.envs import Task
from llm_dec_pomdp.envs.hierarchy.base import LEADER
from llm_dec_pomdp.registries import UnknownNameError
from llm_dec_pomdp.types import Message

from .bfcl import BFCL, DONE, AnyCall, Instance, Row, attributes, calls_of, kits, played, row_of, written

_USER = "The user: "
_AT_ONCE = 16  # maximum number of calls in an order


class _Made(NamedTuple):
    """A call of the team, its user turn, and the next observation of the dispatcher."""

    call: AnyCall
    user: int
    following: str


class Gold:
    """The team "gold", which orders the calls of the row. An instance is a `Script`.

    Args:
        env: The environment whose rows it knows.
    """

    def __init__(self, env: Task[Any]) -> None:
        self._rows: dict[str, list[Row]] = {}  # by the first observation of the dispatcher
        for item in env.items:
            first = env.observations(env.initial_state(item, 0))[LEADER]
            text = first.text if isinstance(first, Message) else first
            self._rows.setdefault(text, []).append(row_of(item.fields["row"]))

    def __call__(self, agent: str, history: Sequence[Message]) -> str:
        """Return the next text of an agent."""
        text = history[-1].text
        if agent == LEADER:
            return self._next(*self._situation(history[0].text, history))
        if history[-1].role == "tool":
            return f"Done. They gave:\n{text}"
        return text.partition("\n\nOrder: ")[2] or text.removeprefix("Order: ")

    def _situation(self, first: str, history: Sequence[Message]) -> tuple[list[Row], int, list[_Made]]:
        """Return the rows that are consistent with a history of the dispatcher, its user turn, and the calls so far.

        Args:
            first: The first observation, with the offered texts if there are any.
            history: The history, without offered texts.
        """
        messages = [message.text for message in history]
        heard: list[str] = []
        made: list[_Made] = []
        for place, message in enumerate(history):
            if place and message.role == "observation" and message.text.startswith(_USER):
                heard.append(messages[place].removeprefix(_USER))
            if message.role == "action":
                following = messages[place + 1] if place + 1 < len(messages) else ""
                made += (_Made(call, len(heard), following) for call in self._called(message.text))
        rows = [row for row in self._rows.get(first, ()) if list(row.words[1 : len(heard) + 1]) == heard]
        if not rows:
            raise UnknownNameError(
                f'the team "gold" does not know the request {first[-60:]!r}; play it on the tasks of its environment'
            )
        if len(rows) > 1:
            rows = [row for row in rows if self._explains(row, made)] or rows
        return rows, len(heard), made

    def _called(self, text: str) -> Sequence[AnyCall]:
        """Return the calls in a text of the dispatcher."""
        owner, _, order = text.partition(": ")
        try:
            calls = calls_of(((order,),))
        except KeyError:  # a text of another team
            return ()
        return [call for call in calls if owner == call[0]]

    def _explains(self, row: Row, made: Sequence[_Made]) -> bool:
        """Return whether the calls have the same results in a row as in the history."""
        gave = {name: iter(played(after)[1]) for name, after in _after(row, made).items()}
        return all(next(gave[m.call[0]]).strip()[: BFCL.characters] in m.following for m in made if m.call[0] in gave)

    def _next(self, rows: Sequence[Row], user: int, made: Sequence[_Made]) -> str:
        """Return the next text: an order with the calls on which the rows agree, or the end of the user turn."""
        calls = self._wanted(rows, user, made)
        return f"{calls[0][0][0]}: [{', '.join(text for _, text in calls)}]" if calls else DONE

    def _wanted(self, rows: Sequence[Row], user: int, made: Sequence[_Made]) -> list[tuple[AnyCall, str]]:
        left = sorted((_left(row, user, made) for row in rows), key=len, reverse=True)
        calls, *others = [calls for calls in left if calls] or [[]]
        waiting = [row for row in rows if row.gold[user]] if not any(m.user == user for m in made) else []
        if not calls and waiting:  # the needed calls were made in an earlier user turn
            calls = [(call, written(call)) for call in _harmless(waiting[0], user, made)][:1]
        for place, (call, _) in enumerate(calls[:_AT_ONCE]):
            alike = all([call] == [c for c, _ in other[place : place + 1]] for other in others)
            if place and not (alike and call[0] == calls[0][0][0]):
                return calls[:place]
        return calls[:_AT_ONCE]


def _left(row: Row, user: int, made: Sequence[_Made]) -> list[tuple[AnyCall, str]]:
    """Return the calls of a user turn that are not made yet, with their texts in the row."""
    further = Counter(m.call for m in made) - Counter(calls_of(row.gold[:user]))
    left: list[tuple[AnyCall, str]] = []
    for call, text in zip(calls_of(row.gold[user : user + 1]), row.gold[user], strict=True):
        if further[call]:
            further[call] -= 1
        else:
            left.append((call, text))
    return left


def _after(row: Row, made: Sequence[_Made]) -> dict[str, Instance]:
    """Return the objects of a row after the calls of the team."""
    lines: Mapping[str, str] = {
        name: "".join(f"{m.call[1]} {m.call[2]}\n" for m in made if m.call[0] == name) for name in row.classes
    }
    return {name: Instance(name, row.configs.get(name, ""), row.long, lines[name]) for name in row.classes}


def _harmless(row: Row, user: int, made: Sequence[_Made]) -> Iterator[AnyCall]:
    """Yield calls that change no object of a row: calls of the turn, and calls without required arguments."""
    now = _after(row, made)
    functions = [(kit.name, f.tool) for kit in kits() for f in kit.functions if kit.name in now]
    plain = [(name, tool.name, "{}") for name, tool in functions if not tool.json_schema.get("required")]
    for call in (*calls_of(row.gold[user : user + 1]), *plain):
        before: Any = attributes(played(now[call[0]])[0])
        changed = now[call[0]]._replace(calls=f"{now[call[0]].calls}{call[1]} {call[2]}\n")
        if attributes(played(changed)[0]) == before:
            yield call
