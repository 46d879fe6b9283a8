"""meeting-v0: People with private calendars agree on a time to meet.

| fact | value |
|---|---|
| agents | agent_0 "person 1" ... agent_{n-1} "person n", n from 2 to 5 (`n_agents`, 3) |
| turns | up to 6 (`max_turns`); all agents act at once |
| options | `days` 3 (1 to 5), `hours` a day 4 (1 to 8), `common` hours at which all are free, 2 |
| costs | `turn_cost` 0.05 of a turn without a meeting, `word_cost` 0 of a word |
| data | 300 / 100 tasks (`count`: training tasks), generated from different seeds; `words`: "fixed" or "paraphrased" |
| files | rows of `prompt` and `calendars`, a line for each person: `Monday 9 11 Tuesday 10 best Tuesday 10` |
| return | at most 1.0 minus the cost of one turn; optimum 0.95 |

Observation. In the first turn an agent observes the task, the hours at which it is free, and the hour that it likes
best. No teammate knows these hours. Later it observes the messages of its teammates and the results of the bookings. At
every turn it observes the number of turns left.

Action. A text with words such as `BOOK Monday 9`, in any case, is a booking. The last such words count, and the
remaining text is ignored. Any other text is a message to all teammates, who observe its first 40 words. The text `TELL`
stands for the whole private calendar of its author. A text without a letter or a digit is no message. In the first turn
a booking does not count. `choices` are such messages and bookings.

Reward (one float for the team). A turn in which all agents book the same hour, at which all are free, ends the episode:

| part | value |
|---|---|
| plan 0..1 | (1 + number of agents that like the hour best) / (the same number for the best common hour) |
| turns | -`turn_cost` for every turn except the last one of an episode with a meeting |
| words | -`word_cost` for every word of a message |

After other bookings all agents observe who has booked which hour. An agent whose hour is past or not in the calendar
observes this, too. If all agents book the same hour, they observe that it is not free for all.

Optimum. All agents send their calendars in the first turn. In the second turn they book the best common hour; of equal
hours the earliest. The return is 1 minus the cost of one turn. No team can do better, because a booking in the first
turn does not count. A single agent observes all calendars, books at once and receives 1. With `word_cost` above 0 the
optimum is not known. `script:optimal` and `script:tells_all` play the optimum. In `script:silent` no agent sends
messages, and each books its own free hours one after another, the best one first.

Measured (`env.measure`): turns, words, and the shares of episodes with a meeting and with the best meeting.

What it tests. Agents have to share private knowledge in few words, and then to coordinate on one hour.

Source: written for this package, after the calendar task of NATURAL PLAN (arXiv:2406.04520). A model behind a server
can act as one person (`agents.io.load`).

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("meeting-v0", n_agents=2, days=1, hours=3, common=1)
    >>> print(env.reset(options={"index": 0})[0]["agent_0"].splitlines()[1])
    You know: Monday 10 best Monday 10
    >>> _ = env.step({"agent_0": "TELL", "agent_1": "When can you?"})
    >>> env.history("agent_1")[-1].text.splitlines()[0]
    'Person 1: Monday 10 best Monday 10'
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

from llm_dec_pomdp.envs import Tasks, check_int
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Message, TaskItem

from .base import DECLARED, LABELS, NOTHING, TELL, ActResult, Dialogue, DialogueOptions, check_length

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
FIRST_HOUR = 9
_DAY = "|".join(DAYS)
_BOOKING = re.compile(rf"\bBOOK\s+({_DAY})\s+(\d{{1,2}})(?!\w)", re.IGNORECASE | re.ASCII)
_TIMES = re.compile(rf"(best\s+)?\b({_DAY})((?:\s+\d{{1,2}}\b)+)(\s+is\s+best)?", re.IGNORECASE | re.ASCII)
Slot = tuple[int, int]  # (number of the day, hour)


class Calendar(NamedTuple):
    """The calendar of a person: its free hours and the hour that it likes best."""

    free: frozenset[Slot]
    best: Slot | None


class World(NamedTuple):
    """All calendars, and the reward of a meeting at each common hour, in [0, 1]."""

    calendars: tuple[Calendar, ...]
    worth: Mapping[Slot, float]


class Meeting(Dialogue):
    """Environment in which agents find an hour to meet. See the module docstring.

    Args:
        n_agents: The number of agents, 2 to 5.
        days: Days of the calendar, 1 to 5.
        hours: Hours of a day, 1 to 8.
        common: The number of hours at which all agents are free, at least 1.
        tasks, common_options: See `Dialogue`; `max_turns` is 6 by default.
    """

    row_fields = ("calendars",)
    declared = replace(
        DECLARED,
        name="meeting-v0",
        size="n_agents",
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        n_agents: int = 3,
        days: int = 3,
        hours: int = 4,
        common: int = 2,
        **common_options: Unpack[DialogueOptions],
    ) -> None:
        check_int("n_agents", n_agents, 2, 5)
        self.days, self.hours = check_int("days", days, 1, len(DAYS)), check_int("hours", hours, 1, 8)
        self.common = common
        slots = [(day, FIRST_HOUR + hour) for day in range(days) for hour in range(hours)]
        if check_int("common", common, 1) > len(slots):
            raise ValueError(f"common is {common}, and {days} days of {hours} hours have {len(slots)}; reduce common")
        check_length(_in_words(Calendar(frozenset(slots), slots[0])), f"a calendar of {days} days of {hours} hours")
        self.slots = tuple(slots)
        roles = tuple(f"person {number}" for number in range(1, n_agents + 1))
        numbers = (*map(str, range(FIRST_HOUR + hours)), *(f"{number}:" for number in range(1, n_agents + 1)))
        words = f"{LABELS} Person BOOK is best free for me I cannot on".split()
        self.declared = replace(self.declared, roles=roles, vocabulary=(*words, *numbers, *DAYS[:days]))
        common_options.setdefault("max_turns", 6)
        super().__init__(tasks, **common_options)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def size(self) -> tuple[int, ...]:
        """Return the numbers of agents, days, hours and common hours."""
        return len(self.declared.roles), self.days, self.hours, self.common

    @staticmethod
    def sample_instance(people: int, days: int, hours: int, common: int, split: str, number: int) -> TaskItem:
        """Sample a task.

        The common hours are random. Each other hour is free for some agents, but not for all. An agent likes a common
        hour best with probability at least 1/2.
        """
        random = generator(0, "meeting", people, days, hours, common, split, number)
        slots = [(day, FIRST_HOUR + hour) for day in range(days) for hour in range(hours)]
        order = [slots[int(place)] for place in random.permutation(len(slots))]
        free = [set(order[:common]) for _ in range(people)]
        chances = random.random((len(slots), people))
        chances[range(len(slots)), random.integers(people, size=len(slots))] = 1  # not free for all
        for slot, row in zip(order[common:], chances.tolist(), strict=False):
            for private, chance in zip(free, row, strict=True):
                if chance < 0.5:
                    private.add(slot)
        lines: list[str] = []
        for private in free:
            liked = order[:common] if random.integers(2) else sorted(private)
            lines.append(_in_words(Calendar(frozenset(private), liked[int(random.integers(len(liked)))])))
        return TaskItem(f"{split}-{number}", "Find an hour to meet.", split, fields={"calendars": "\n".join(lines)})

    def problem(self, item: TaskItem) -> str:
        """Return why the calendars are invalid for this environment; "" if they are valid."""
        lines = item.fields["calendars"].splitlines()
        people = len(self.declared.roles)
        if len(lines) != people:
            return f"field 'calendars': has {len(lines)} lines, one for each of n_agents = {people} people"
        for line in lines:
            if problem := self._problem(line):
                return f"field 'calendars': {line[:60]!r} {problem}"
        return "" if _world(item.fields["calendars"]).worth else "field 'calendars': share no hour; add one to all"

    def _problem(self, line: str) -> str:
        calendar = read_calendar(line)
        if calendar.best is None or _in_words(calendar) != " ".join(line.split()):
            return "is no calendar such as 'Monday 9 11 Tuesday 10 best Monday 9', in the order of time"
        if outside := sorted(calendar.free.difference(self.slots)):
            return f"has {_slot(outside[0])}, which {self.days} days of {self.hours} hours do not; set days and hours"
        return ""

    # --- the task -----------------------------------------------------------------------------------------------------

    def optimal_turns(self, item: TaskItem) -> int:
        """Return 1: the turn of the bookings."""
        return 1

    def knows(self, item: TaskItem, agent: str) -> str:
        """Return the calendar of a person."""
        return item.fields["calendars"].splitlines()[self.possible_agents.index(agent)]

    def introduction(self, item: TaskItem, agent: str, variant: int) -> str:
        """Return the description of the team and of bookings."""
        me = f"{self.role(agent)} of {len(self.possible_agents)}"
        return (
            f"You are {me}. Each knows its own free hours, and which of them it likes best. Send a message, or say "
            "BOOK and an hour: all must book the same one, free for all, in the same turn.",
            f"As {me} you plan a meeting. Nobody sees another calendar. Write to the others, or BOOK an hour; it takes "
            "place if everybody books it at once and nobody is busy then.",
            f"The others want to meet you, {me}. Tell them when you can and what suits you best, and once it is clear "
            "BOOK the hour, all of you in one turn.",
        )[variant]

    def read(self, item: TaskItem, agent: str, text: str) -> tuple[Slot | None, str]:
        """Return the last booking of a text, or None and a note."""
        found = _BOOKING.findall(text)
        if not found:
            return None, "BOOK needs a day and an hour, such as BOOK Monday 9." if "BOOK" in text else ""
        slot = DAYS.index(found[-1][0].capitalize()), int(found[-1][1])
        return slot, ""

    def act(self, item: TaskItem, plan: Any, acts: Mapping[str, Slot]) -> ActResult:
        """Return a meeting if all book the same hour and all are free; otherwise the answers to the bookings."""
        answers = {agent: self._outside(slot) for agent, slot in acts.items()}
        wanted = set(acts.values())
        if len(acts) == len(self.possible_agents) and len(wanted) == 1:
            [slot] = wanted
            worth = _world(item.fields["calendars"]).worth.get(slot)
            if worth is not None:
                return ActResult((slot,), {}, worth)
            refused = {agent: answers[agent] or f"{_slot(slot)} is not free for all." for agent in acts}
            return ActResult((), refused)
        booked = "Bookings: " + ", ".join(f"{self.role(agent)} {_slot(slot)}" for agent, slot in acts.items()) + "."
        return ActResult((), {agent: f"{answers.get(agent, '')} {booked}".strip() for agent in self.possible_agents})

    def _outside(self, slot: Slot) -> str:
        """Return the answer to a booking outside of the calendar; "" for an hour in the calendar."""
        if slot in self.slots:
            return ""
        if slot < self.slots[0]:
            return f"{_slot(slot)} is past, it is {_slot(self.slots[0])}."
        return f"{_slot(slot)} is not in the calendar, which ends on {_slot(self.slots[-1])}."

    # --- teams without a model ----------------------------------------------------------------------------------------

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return messages about hours and days, bookings, all knowledge (`TELL`), and no message."""
        slots = list(map(_slot, self.slots))
        free, best = [f"{slot} is free for me" for slot in slots], [f"{slot} is best for me" for slot in slots]
        days = [f"I cannot on {day}" for day in DAYS[: self.days]]
        return [TELL, *free, *best, *days, *(f"BOOK {slot}" for slot in slots), NOTHING]

    def plays(self, agent: str, private: str, heard: Mapping[str, str], turn: int, observations: Sequence[str]) -> str:
        """Book the best hour that is free in all known calendars; after each failure the next best one."""
        calendars = [read_calendar(private), *(read_calendar(text) for a, text in heard.items() if a != agent)]
        known = [calendar for calendar in calendars if calendar.free]
        worth = _worth(known)
        order = sorted(worth, key=lambda slot: (-worth[slot], slot)) or sorted(known[0].free)
        return f"BOOK {_slot(order[(turn - 1) % len(order)])}"


def read_calendar(text: str) -> Calendar:
    """Return the calendar that a text describes.

    Hours after the name of a day are free. After "best", or before "is best", the first hour is the one that the person
    likes best. Case does not matter, hours have one or two digits, and other words are ignored.
    """
    free: set[Slot] = set()
    best: Slot | None = None
    for before, day, hours, after in _TIMES.findall(text):
        slots = [(DAYS.index(day.capitalize()), int(hour)) for hour in hours.split()]
        free.update(slots)
        best = slots[0] if before or after else best
    return Calendar(frozenset(free), best)


def _in_words(calendar: Calendar) -> str:
    """Return a calendar in words that `read_calendar` parses."""
    days: dict[int, list[str]] = {}
    for day, hour in sorted(calendar.free):
        days.setdefault(day, []).append(str(hour))
    listed = " ".join(" ".join([DAYS[day], *hours]) for day, hours in days.items())
    return listed if calendar.best is None else f"{listed} best {_slot(calendar.best)}"


def _slot(slot: Slot) -> str:
    return f"{DAYS[slot[0]]} {slot[1]}"


@functools.lru_cache(maxsize=4096)
def _world(calendars: str) -> World:
    """Return the calendars of a row, and the reward of each common hour."""
    known = tuple(map(read_calendar, calendars.splitlines()))
    return World(known, _worth(known))


def _worth(calendars: Sequence[Calendar]) -> dict[Slot, float]:
    """Return the reward of a meeting at every common hour: 1 for the best hour."""
    common = [slot for slot in calendars[0].free if all(slot in calendar.free for calendar in calendars)]
    liked = {slot: 1 + sum(calendar.best == slot for calendar in calendars) for slot in common}
    return {slot: count / max(liked.values()) for slot, count in liked.items()}
