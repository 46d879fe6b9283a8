"""Orders and calls by letter: `candidates=True` of calls-v0, for policies that cannot write, such as tables.

The dispatcher chooses among the order that is needed next, the same with a wrong value, an order to another
application, and the end of the user turn. A specialist chooses among the call that its order means, the same with a
wrong argument, a call of another tool, and no call. The results of its calls are its report, and its history is reset
with each order. Which letter means which text is fixed: for the dispatcher by the task and the call that is needed
next, for a specialist by its order.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llm_dec_pomdp.envs import Facts, Transition
from llm_dec_pomdp.envs.hierarchy.base import LEADER
from llm_dec_pomdp.envs.wrappers.choices import TurnChoices, TurnState
from llm_dec_pomdp.seeding import derive, generator
from llm_dec_pomdp.types import Message

from .applications import APPLICATIONS, KITS, ORDERS, TOOLS, Asked, understood
from .dispatch import MORE, State, introduction
from .generator import AMOUNTS, COUNTS, DAYS, FILES, ITEMS, PAPERS, PEOPLE, TITLES, embedded, turns_of
from .task import DONE, REFUSED, VALUES, Calls, drawn_call, ordered

LETTERS = "ABCD"


class DispatchChoices(TurnChoices):
    """Abstract base of tasks in which dispatcher and specialists act by letter. A subclass implements `offers`."""

    letters = LETTERS

    def prompt(self, state: TurnState, agent: str, message: str | Message) -> str:
        """Return an order without the description of the tools, since calls are among the offered texts."""
        text = super().prompt(state, agent, message)
        return text if agent == LEADER else f"You are the application {self.role(agent)}.\n\nOrder: {order_in(text)}"

    def is_complete(self, agent: str) -> bool:
        """Return True for specialists: each prompt is complete and resets the history."""
        return agent != LEADER

    def play(self, inner: Any, texts: Mapping[str, str], seed: int) -> Transition[Any]:
        """Apply the texts; results of calls become the report of the specialist in the same step."""
        step = super().play(inner, texts, seed)
        while results := {agent: message.text for agent, message in step.state.messages if message.role == "tool"}:
            after = self.env.transition(step.state, results, seed)
            step = replace(after, reward=step.reward + after.reward, events=(*step.events, *after.events))
        return step


class CallsChoices(DispatchChoices):
    """Environment calls-v0 with actions by letter. See the module docstring.

    Args:
        env: The task; if all rows are embedded, the environment has a vocabulary.
    """

    def __init__(self, env: Calls) -> None:
        super().__init__(env)
        known = {item.id: item for item in embedded()}
        self._vocabulary = vocabulary() if all(known.get(item.id) == item for item in env.items) else ()

    @property
    def facts(self) -> Facts:
        """The facts, with the vocabulary of embedded rows."""
        return replace(super().facts, scripts=("gold",), vocabulary=self._vocabulary)

    def offers(self, state: TurnState, agent: str, observation: str) -> Sequence[str]:
        """Return four texts to choose from; see the module docstring."""
        if agent != LEADER:
            return offered_calls(self.role(agent), order_in(observation))
        inner: State = state.inner
        calls = turns_of(inner.item.fields["turns"])[inner.user].calls
        missing: Sequence[Asked] = self.env.missing(inner, inner.user)
        call = (*missing, calls[-1])[0]
        label = derive(0, inner.item.id, inner.user, calls.index(call))
        wrong, other = altered(call, label), another(APPLICATIONS, call.application, label)
        return shuffled((ordered(call), ordered(wrong), f"{other}: {call.order}", DONE), label)


def order_in(observation: str) -> str:
    """Return the order that a specialist observes."""
    return observation.rpartition("Order: ")[2]


def shuffled(texts: tuple[str, ...], label: int) -> tuple[str, ...]:
    """Return the texts in random order; `label` is the seed."""
    return tuple(texts[int(i)] for i in generator(label, "order").permutation(len(texts)))


def another(values: Sequence[Any], value: Any, label: int) -> Any:
    """Return a random value other than `value`; `label` is the seed."""
    others = [other for other in values if other != value]
    return others[derive(label, "another") % len(others)]


def altered(call: Asked, label: int) -> Asked:
    """Return the call with another value of one argument; `label` is the seed."""
    place = derive(label, "argument") % len(call.arguments)
    name, value = call.arguments[place]
    if name == "text" and value.isdigit():
        values: Sequence[Any] = [str(number) for number in (*DAYS, *AMOUNTS)]
    else:
        values = VALUES.get(name) or (FILES if call.tool == "read_file" else PAPERS)
    changed = (name, another(values, value, label))
    return call._replace(arguments=(*call.arguments[:place], changed, *call.arguments[place + 1 :]))


@functools.lru_cache(maxsize=1 << 14)
def offered_calls(application: str, words: str) -> tuple[str, ...]:
    """Return the offered texts of a specialist in random order.

    They are the call that its order means, the same with a wrong argument, a call of another tool, and a refusal. If
    the order means no call, a random call takes its place.
    """
    label = derive(0, application, words)
    call = understood(application, words)
    meant = call or drawn_call(application, label)
    other = drawn_call(application, label, but=meant.tool)
    return shuffled((meant.text, altered(meant, label).text, other.text, REFUSED), label)


@functools.cache
def vocabulary() -> tuple[str, ...]:
    """Return all words in the prompts of embedded rows: user messages, orders, calls and their results."""
    texts = [introduction(APPLICATIONS), MORE, "Choose A, B, C or D.", REFUSED, DONE, " ".join(LETTERS)]
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
                given = VALUES.get(name) or (FILES if function.tool.name == "read_file" else PAPERS)
                if name == "text":
                    given = [*map(str, (*DAYS, *AMOUNTS)), *PAPERS, *ITEMS, *PEOPLE]
                start = "" if place else f"{function.tool.name}("
                end = "," if place < len(names) - 1 else ")"
                texts += [f"{start}{name}={json.dumps(value)}{end}" for value in given]
    return tuple(dict.fromkeys(word for text in texts for word in text.split()))
