"""Orders and calls by letter: `candidates=True` of bfcl-v0, as in `choices`. An order is a call of the row."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from llm_dec_pomdp.envs import Facts, Script
from llm_dec_pomdp.envs.hierarchy.base import LEADER
from llm_dec_pomdp.envs.tools import read_calls
from llm_dec_pomdp.envs.wrappers.choices import TurnState
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Message, TaskItem

from .bfcl import BFCL, CLASSES, DONE, AnyCall, calls_of, kits, owners, row_of, text_of, written
from .bfcl_gold import Gold
from .choices import LETTERS, DispatchChoices, order_in, shuffled
from .dispatch import MORE, State, introduction
from .task import REFUSED


class BFCLChoices(DispatchChoices):
    """Environment bfcl-v0 with actions by letter.

    Args:
        env: The task; with `rows` the environment has a vocabulary.
    """

    def __init__(self, env: BFCL) -> None:
        super().__init__(env)
        texts = self._texts_of_rows() if env.rows else ()
        self._vocabulary = tuple(dict.fromkeys(word for text in texts for word in text.split()))

    @property
    def facts(self) -> Facts:
        """The facts, with the vocabulary of the selected rows."""
        return replace(super().facts, vocabulary=self._vocabulary)

    def _texts_of_rows(self) -> Iterator[str]:
        """Yield the messages of users and all texts that may be offered, without results of calls."""
        yield from (MORE, self._request, REFUSED, DONE, " ".join(LETTERS), "The user: Order: reports:")
        for item in self.items:
            row = row_of(item.fields["row"])
            yield introduction(row.classes)
            for user, words in enumerate(row.words):
                gold = calls_of(row.gold[user : user + 1])
                yield words
                for call, missing in itertools.product(gold or [None], range(len(gold) + 1)):
                    for text in offered_orders(item, user, call, missing):
                        yield text
                        owner, _, order = text.partition(": ")
                        yield from offered_calls(owner, order) if owner in CLASSES else ()

    def offers(self, state: TurnState, agent: str, observation: str) -> Sequence[str]:
        """Return four texts to choose from, as in `choices`."""
        if agent != LEADER:
            return offered_calls(self.role(agent), order_in(observation))
        inner: State = state.inner
        missing: Sequence[AnyCall] = self.env.missing(inner, inner.user)
        gold = calls_of(row_of(inner.item.fields["row"]).gold[inner.user : inner.user + 1])
        return offered_orders(inner.item, inner.user, next(iter((*missing, *gold[-1:])), None), len(missing))

    def script(self, name: str) -> Script:
        """Return the team "gold", which acts with letters."""
        return _LetteredGold(self) if name == "gold" else super().script(name)


class _LetteredGold(Gold):
    """The team "gold" with letters; it keeps the rows whose next order is among the offered texts."""

    def __init__(self, env: BFCLChoices) -> None:
        super().__init__(env)
        self._env = env

    def __call__(self, agent: str, history: Sequence[Message]) -> str:
        """Return the letter of the agent's next text."""
        offers, texts = self._env.offered_in(history[-1].text), self._env.as_written(history)
        if agent != LEADER:
            wanted = [super().__call__(agent, texts)]
        else:
            rows, user, made = self._situation(history[0].text, texts)
            calls = [self._wanted([row], user, made)[:1] for row in rows]
            wanted = [f"{found[0][0][0]}: {written(found[0][0])}" if found else DONE for found in calls]
        text = next((text for text in wanted if text in offers), wanted[0])
        return offers[text if text in offers else self._env.instead(list(offers), text, history)]


def offered_orders(item: TaskItem, user: int, wanted: AnyCall | None, missing: int) -> tuple[str, ...]:
    """Return the offered texts of the dispatcher, in random order.

    Args:
        item: The row.
        user: The user turn, from 0.
        wanted: The call that is needed next; None if the turn has no call.
        missing: The number of calls of the turn that are not made yet; part of the seed.
    """
    classes, label = row_of(item.fields["row"]).classes, derive(0, item.id, user, missing)
    owner, name, given = wanted or (classes[0], "", "")
    call = (name, json.loads(given)) if name else _sampled(owner, label)
    others = [other for other in (classes if len(classes) > 1 else CLASSES) if other != owner]
    other = others[label % len(others)]
    texts = (f"{owner}: {text_of(*call)}", f"{owner}: {_altered(call, label)}", f"{other}: {text_of(*call)}", DONE)
    return shuffled(texts, label)


def offered_calls(owner: str, order: str) -> tuple[str, ...]:
    """Return the call that an order means, the same with a wrong argument, another function, and a refusal."""
    label = derive(0, owner, order)
    calls = [call for call in read_calls(order) if owners().get(call.name) == owner]
    meant = (calls[0].name, dict(calls[0].arguments)) if calls else _sampled(owner, label)
    other = _sampled(owner, label, meant[0])
    return shuffled((text_of(*meant), _altered(meant, label), text_of(*other), REFUSED), label)


def _altered(call: tuple[str, Mapping[str, Any]], label: int) -> str:
    """Return a call with another value of one argument; a call without arguments gets an argument."""
    name, arguments = call
    if not arguments:
        return f"{name}(value=1)"
    changed = sorted(arguments)[label % len(arguments)]
    value = arguments[changed]
    if isinstance(value, bool):
        other: Any = not value
    elif isinstance(value, (int, float)):
        other = value + 1
    else:
        other = [*cast("list[Any]", value), 1] if isinstance(value, list) else f"{value}_2"
    return text_of(name, {**arguments, changed: other})


def _sampled(owner: str, label: int, but: str = "") -> tuple[str, Mapping[str, Any]]:
    """Return a random function of a class, not `but`, with values of the right types; `label` is the seed."""
    tools = [f.tool for kit in kits() for f in kit.functions if kit.name == owner and f.tool.name != but]
    tool = tools[label % len(tools)]
    values: Mapping[str, Any] = {"integer": 1, "number": 1.0, "boolean": True, "array": [1], "object": {}}
    about = tool.json_schema["properties"]
    return tool.name, {n: values.get(about[n]["type"], "a") for n in tool.json_schema.get("required", ())}
