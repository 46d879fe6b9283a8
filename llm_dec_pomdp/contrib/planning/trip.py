"""trip-v0: A guide knows the events of a day, a traveller knows its own wishes, and they agree on three events.

| fact | value |
|---|---|
| agents | agent_0 "traveller", agent_1 "guide" |
| turns | up to 6 (`max_turns`); both agents act at once |
| options | `wishes` 10 (2 to 12), `events` 6 (4 to 8), `lists` of events that tasks share, 0: each has its own |
| costs | `turn_cost` 0.05 of a turn that settles nothing, `word_cost` 0 of a word |
| data | 300 / 100 tasks (`count`: training tasks), generated from different seeds; `words`: "fixed" or "paraphrased" |
| files | rows of `prompt`, `wishes`: `museum 5 budget 40`, and `events`, lines of `harbour boat quiet 9-11 12` |
| return | at most 1.0 minus the cost of two turns; optimum 0.9 |

Observation. In the first turn the traveller observes its wishes, each with a weight from 1 to 9, and its budget. The
guide observes the events: the name, two things that each offers, the first and last hour, and the price. Later each
agent observes the message of the other agent and the number of turns left. The traveller also observes the proposal.

Action. The guide writes `PROPOSE harbour, abbey, market`: three events in the order of the day. The last such words
count. The traveller writes `ACCEPT` or `REJECT` in capitals, about the proposal of an earlier turn; the last of these
words counts. Any other text is a message, of which the other agent observes the first 40 words. The text `TELL` stands
for all private knowledge of its author. A text without a letter or a digit is no message. In the first turn only
messages count. `choices` are such texts.

Reward (one float for the team). If there is a proposal, ACCEPT ends the episode:

| part | value |
|---|---|
| plan 0..1 | weights of the wishes that the three events offer / weights for the best three; 0 above the budget |
| turns | -`turn_cost` for every turn except the one with ACCEPT |
| words | -`word_cost` for every word of a message |

A proposal with an unknown event, a repeated event, or overlapping events is invalid. The guide observes the reason.

Optimum. The traveller sends its wishes in the first turn. The guide then proposes the best three events, found by
enumeration of all ordered triples, and the traveller accepts in the third turn. The return is 1 minus the cost of two
turns. No team can do better, because a proposal in the first turn does not count. A single agent observes both wishes
and events; it proposes and accepts, and receives 1 minus the cost of one turn. With `word_cost` above 0 the optimum is
not known.

| team | plays |
|---|---|
| `script:optimal` | the optimum; the guide sends nothing in the first turn |
| `script:tells_all` | the optimum; both agents send all their knowledge in the first turn |
| `script:silent` | without messages: the guide proposes possible triples one after another, and the traveller accepts |

Measured (`env.measure`): turns, words, and the shares of episodes with a trip and with the best trip.

What it tests. Agents have to ask for and send what the other agent needs. Only both together can find the best trip.

Source: written for this package, after the planning task of DialOp (arXiv:2305.20076). A model behind a server can act
as the traveller (`agents.io.load`).

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("trip-v0", wishes=3, events=4)
    >>> print(env.reset(options={"index": 0})[0]["agent_0"].splitlines()[1])
    You know: museum 9 music 7 food 9 budget 58
    >>> _ = env.step({"agent_0": "TELL", "agent_1": "What do you like?"})
    >>> env.history("agent_1")[-1].text.splitlines()[0]
    'Traveller: museum 9 music 7 food 9 budget 58'
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

from llm_dec_pomdp.envs import Tasks, check_int
from llm_dec_pomdp.seeding import generator
from llm_dec_pomdp.types import Message, TaskItem

from .base import DECLARED, LABELS, NOTHING, TELL, ActResult, Dialogue, DialogueOptions, check_length

TRAVELLER, GUIDE = "agent_0", "agent_1"
NAMES = ("harbour", "abbey", "market", "tower", "garden", "theatre", "island", "castle")
OFFERS = ("museum", "music", "food", "boat", "view", "quiet", "crafts", "animals", "history", "walk", "art", "sport")
BUDGET = "budget"
_HOURS = (9, 18)  # first and last hour of a day
_LONGEST = 3  # longest event, in hours
_TRIPLES = 3  # number of events of a trip
_NAME = "|".join(NAMES)
_PROPOSAL = re.compile(rf"\bPROPOSE\s*+:?\s*({_NAME})[\s,]+({_NAME})[\s,]+({_NAME})(?!\w)", re.IGNORECASE | re.ASCII)
_ANSWER = re.compile(r"\b(?:ACCEPT|REJECT)\b", re.ASCII)
_WISH = re.compile(rf"\b({'|'.join((*OFFERS, BUDGET))})\s+(\d{{1,3}})\b", re.IGNORECASE | re.ASCII)
_EVENT = re.compile(
    rf"\b({_NAME})\s+({'|'.join(OFFERS)})\s+({'|'.join(OFFERS)})\s+(\d{{1,2}})-(\d{{1,2}})\s+(\d{{1,3}})\b", re.ASCII
)
Trip = tuple[str, str, str]


class Event(NamedTuple):
    """An event: two things that it offers, its first and last hour, and its price."""

    offers: tuple[str, str]
    begins: int
    ends: int
    price: int


class Travel(Dialogue):
    """Environment in which two agents choose three events of a day. See the module docstring.

    Args:
        wishes: The number of wishes of the traveller, 2 to 12.
        events: The number of events, 4 to 8.
        lists: The number of lists of events that the tasks of a split share; 0: each task has its own list.
        tasks, common: See `Dialogue`; `max_turns` is 6 by default.
    """

    row_fields = ("wishes", "events")
    declared = replace(
        DECLARED,
        name="trip-v0",
        roles=("traveller", "guide"),
    )

    def __init__(
        self,
        tasks: Tasks = "sample",
        *,
        wishes: int = 10,
        events: int = 6,
        lists: int = 0,
        **common: Unpack[DialogueOptions],
    ) -> None:
        self.wishes = OFFERS[: check_int("wishes", wishes, 2, len(OFFERS))]
        self.events = NAMES[: check_int("events", events, _TRIPLES + 1, len(NAMES))]
        self.lists = check_int("lists", lists, 0)
        first, last = _HOURS
        hours = (
            f"{begins}-{ends}" for begins in range(first, last) for ends in range(begins + 1, begins + _LONGEST + 1)
        )
        numbers = (*map(str, range(1, 60)), *hours)
        words = f"{LABELS} Traveller: Guide: PROPOSE ACCEPT REJECT proposes I want Is the fine? {BUDGET}".split()
        vocabulary = (*words, *numbers, *OFFERS, *self.events, *(f"{name}," for name in self.events))
        self.declared = replace(self.declared, vocabulary=vocabulary)
        common.setdefault("max_turns", 6)
        super().__init__(tasks, **common)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def size(self) -> tuple[int, ...]:
        """Return the numbers of wishes, events, and lists of events."""
        return len(self.wishes), len(self.events), self.lists

    @staticmethod
    def sample_instance(wishes: int, events: int, lists: int, split: str, number: int) -> TaskItem:
        """Sample a task: random events, and random wishes such that a trip within the budget fulfils one."""
        size = (wishes, events, lists)
        listed = _drawn_events(size, split, number % lists if lists else number)
        random = generator(0, "trip wishes", *size, split, number)
        while True:
            weights = random.integers(1, 10, size=wishes).tolist()
            wishing = [f"{offer} {weight}" for offer, weight in zip(OFFERS[:wishes], weights, strict=True)]
            wanted = f"{' '.join(wishing)} {BUDGET} {random.integers(20, 60)}"
            if _worth(wanted, listed):
                fields = {"wishes": wanted, "events": listed}
                return TaskItem(f"{split}-{number}", "Choose three events of a day.", split, fields=fields)

    def problem(self, item: TaskItem) -> str:
        """Return why wishes or events are invalid; "" if they are valid."""
        wanted, offered = " ".join(item.fields["wishes"].split()), item.fields["events"]
        pairs = _WISH.findall(wanted)
        if " ".join(map(" ".join, pairs)) != wanted or [name for name, _ in pairs].count(BUDGET) != 1:
            return f"field 'wishes': {wanted[:60]!r} is no list of wishes and weights such as 'museum 5 {BUDGET} 40'"
        if wrong := next((line for line in offered.splitlines() if not _EVENT.fullmatch(" ".join(line.split()))), None):
            return f"field 'events': {wrong[:60]!r} is no event such as 'harbour boat quiet 9-11 12'"
        try:
            check_length(wanted, "field 'wishes'")
            check_length(offered, "field 'events'")
        except ValueError as error:
            return str(error)
        strange = sorted(set(read_events(offered)).difference(self.events))
        if strange:
            known = ", ".join(self.events)
            return f"field 'events': has {strange[0]!r}, but events = {len(self.events)} has only {known}"
        if not _worth(item.fields["wishes"], offered):
            return "field 'events': no three events fulfil a wish within day and budget; change times or prices"
        return ""

    # --- the task -----------------------------------------------------------------------------------------------------

    def optimal_turns(self, item: TaskItem) -> int:
        """Return 2: the turns of a proposal and of its acceptance."""
        return 2

    def knows(self, item: TaskItem, agent: str) -> str:
        """Return the wishes, or the events."""
        return " ".join(item.fields["wishes" if agent == TRAVELLER else "events"].split())

    def introduction(self, item: TaskItem, agent: str, variant: int) -> str:
        """Return the description of the role and of its acts."""
        if agent == TRAVELLER:
            return (
                "You are the traveller. You know your wishes, the weight of each, and your budget; the guide knows the "
                "events. Send a message, or ACCEPT or REJECT what the guide has proposed.",
                "As the traveller you alone know what you want, how much, and what you can spend. Write to the guide, "
                "who knows what there is, and ACCEPT a proposal or REJECT it.",
                "A guide plans your day, traveller, and does not know your wishes, their weights or your budget. "
                "Answer proposals by ACCEPT or REJECT, and say anything before.",
            )[variant]
        names = ", ".join(self.events[:_TRIPLES])
        return (
            "You are the guide. You know of each event what it offers, its first and last hour and its price; the "
            f"traveller knows what is wanted. Send a message, or PROPOSE three in order, such as PROPOSE {names}.",
            "As the guide you alone know the events: two things that each offers, when it begins and ends, what it "
            f"costs. Write to the traveller, or PROPOSE three that follow each other, such as PROPOSE {names}.",
            "A traveller whose wishes you do not know asks you, the guide, for three events. You know their offers, "
            f"hours and prices. Ask, and then PROPOSE three in order: PROPOSE {names}.",
        )[variant]

    def read(self, item: TaskItem, agent: str, text: str) -> tuple[Any, str]:
        """Return the last proposal of the guide, or the last answer of the traveller."""
        if agent == TRAVELLER:
            found = _ANSWER.findall(text)
            return (found[-1], "") if found else (None, "")
        found = _PROPOSAL.findall(text)
        if found:
            return tuple(name.lower() for name in found[-1]), ""
        return None, f"PROPOSE needs three of {', '.join(self.events)}." if "PROPOSE" in text else ""

    def act(self, item: TaskItem, plan: Any, acts: Mapping[str, Any]) -> ActResult:
        """Apply the answer to the earlier proposal, then replace the proposal by a new valid one."""
        answers: dict[str, str] = {}
        answer = acts.get(TRAVELLER)
        if answer == "ACCEPT" and plan:
            return ActResult(plan, {}, _worth(item.fields["wishes"], item.fields["events"]).get(plan, 0.0))
        if answer and not plan:
            answers[TRAVELLER] = "There is no proposal to answer."
        elif answer:
            plan, answers[GUIDE] = (), "The traveller says REJECT."
        if GUIDE in acts:
            problem = refused(read_events(item.fields["events"]), acts[GUIDE])
            if problem:
                answers[GUIDE] = " ".join(filter(None, [answers.get(GUIDE), problem]))
            else:
                plan = acts[GUIDE]
                proposal = f"The guide proposes {' '.join(plan)}"
                answers[TRAVELLER] = " ".join(filter(None, [answers.get(TRAVELLER), proposal]))
        return ActResult(plan, answers)

    # --- teams without a model ----------------------------------------------------------------------------------------

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return messages, answers or proposals, all knowledge (`TELL`), and no message."""
        if agent == TRAVELLER:
            return [TELL, *(f"I want {wish}" for wish in self.wishes), "ACCEPT", "REJECT", NOTHING]
        trips = (f"PROPOSE {', '.join(trip)}" for trip in itertools.permutations(self.events, _TRIPLES))
        return [TELL, *(f"Is the {name} fine?" for name in self.events), *trips, NOTHING]

    def opening(self, agent: str) -> str:
        """Return all wishes for the traveller, and no message for the guide."""
        return TELL if agent == TRAVELLER else NOTHING

    def plays(self, agent: str, private: str, heard: Mapping[str, str], turn: int, observations: Sequence[str]) -> str:
        """Propose the best trip by the known wishes, after a rejection the next one; accept any proposal."""
        proposed = "The guide proposes" in observations[-1]
        if agent == TRAVELLER:
            return "ACCEPT" if proposed else NOTHING
        if proposed:  # a single agent acts for both roles
            return NOTHING
        known = _worth(heard[TRAVELLER], private) if heard[TRAVELLER] else {}
        trips = sorted(known, key=lambda trip: (-known[trip], trip)) or possible(read_events(private))
        if not trips or (heard[TRAVELLER] and turn % 2 == 0):
            return NOTHING  # a proposal waits for its answer
        return f"PROPOSE {', '.join(trips[(turn - 1) // 2 % len(trips)])}"


def read_events(text: str) -> dict[str, Event]:
    """Return the events that a text states, by name; other words are ignored."""
    return {
        name: Event((first, second), int(begins), int(ends), int(price))
        for name, first, second, begins, ends, price in _EVENT.findall(text)
    }


def refused(events: Mapping[str, Event], trip: Sequence[str]) -> str:
    """Return why events are not a valid trip, as agents observe it; "" if they are."""
    if unknown := [name for name in trip if name not in events]:
        return f"There is no {unknown[0]} today."
    if twice := [name for name in trip if trip.count(name) > 1]:
        return f"The {twice[0]} is proposed twice."
    for before, after in itertools.pairwise(trip):
        if events[before].ends > events[after].begins:
            return f"The {before} ends at {events[before].ends}, after the {after} begins at {events[after].begins}."
    return ""


def possible(events: Mapping[str, Event]) -> list[Trip]:
    """Return all ordered triples of events that do not overlap."""
    after = {name: [n for n in events if n != name and events[name].ends <= events[n].begins] for name in events}
    return [(a, b, c) for a in events for b in after[a] for c in after[b] if c != a]


def _drawn_events(size: tuple[int, int, int], split: str, number: int) -> str:
    """Sample events such that no trip offers everything that other trips offer; the best trip depends on the wishes."""
    random, (wishes, events, _) = generator(0, "trip events", *size, split, number), size
    while True:
        hours = random.integers(_HOURS[0], _HOURS[1] - 1, size=events).tolist()
        lengths = random.integers(1, _LONGEST + 1, size=events).tolist()
        prices = random.integers(1, 20, size=events).tolist()
        kinds = random.random((events, max(wishes, 6))).argsort(axis=1)[:, :2].tolist()
        known = {
            name: Event((OFFERS[first], OFFERS[second]), hour, min(hour + length, _HOURS[1]), price)
            for name, (first, second), hour, length, price in zip(
                NAMES[:events], kinds, hours, lengths, prices, strict=True
            )
        }
        wanted = [_offered(known, trip).intersection(OFFERS[:wishes]) for trip in possible(known)]
        if wanted and max(map(len, wanted)) < len(set[str]().union(*wanted)):
            return "\n".join(
                f"{name} {' '.join(event.offers)} {event.begins}-{event.ends} {event.price}"
                for name, event in known.items()
            )


def _offered(events: Mapping[str, Event], trip: Trip) -> set[str]:
    return {offer for name in trip for offer in events[name].offers}


@functools.lru_cache(maxsize=4096)
def _worth(wishes: str, events: str) -> dict[Trip, float]:
    """Return the reward of every trip within the budget: 1 for the best one. Empty if no trip fulfils a wish."""
    weights = {name.lower(): int(number) for name, number in _WISH.findall(wishes)}
    budget, known = weights.pop(BUDGET, 0), read_events(events)
    found: dict[Trip, int] = {}
    for trip in possible(known):
        chosen = [known[name] for name in trip]
        if sum(event.price for event in chosen) <= budget:
            found[trip] = sum(weights.get(offer, 0) for offer in _offered(known, trip))
    best = max(found.values(), default=0)
    return {trip: value / best for trip, value in found.items()} if best else {}
