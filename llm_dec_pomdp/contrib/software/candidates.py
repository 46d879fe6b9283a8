"""Candidate methods and modules, among which authors choose by a letter.

A letter stands for all methods of an author, or for its module, made from the solution by mutation:

| kind | what it is |
|---|---|
| gold | the solution, which calls the functions of teammates: a coordinator |
| off by one | the same with one place changed, so that a test of it fails |
| stub | returns None |
| other signature | the solution's with one parameter more |
| alone | does the work of the teammates itself: no cooperation |
| fallback | calls the functions of teammates, and does their work if these raise an error |

Gold, alone and fallback pass all tests with the gold of the teammates. Off by one passes some tests and fails some.
Candidate methods exist for those embedded classes that have all kinds for both of two authors
(`scripts/build_class_candidates.py`). Candidate modules are made by `contrib.software.mutants` for the generated
packages; a module that imports none has neither alone nor fallback. Decorator and strategy filter are schemes of a
helper and a main function; see `envs.coding.candidates`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import NamedTuple

from llm_dec_pomdp.envs.coding.schemes import SCHEMES
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Episode, Group, Message, TaskItem

from .mutants import of_module

KINDS = ("gold", "off by one", "stub", "other signature", "alone", "fallback")
LETTERS = tuple("ABCDEF")


class Candidates(NamedTuple):
    """What authors choose among.

    Attributes:
        of: The candidates of an author of a row, by kind.
    """

    of: Callable[[TaskItem, int], Mapping[str, str]]

    def lettered(self, item: TaskItem, author: int) -> dict[str, str]:
        """The candidates of an author by letter, in an order that says nothing of their kinds."""
        of_kind = self.of(item, author)
        order = sorted(of_kind, key=lambda kind: derive(0, item.id, str(author), kind))
        return {letter: of_kind[kind] for letter, kind in zip(LETTERS, order, strict=False)}

    def offer(self, item: TaskItem, author: int) -> str:
        """The candidates as an author is told them."""
        lettered = self.lettered(item, author)
        listed = [f"{letter}:\n{text}" for letter, text in lettered.items()]
        return "\n".join([*listed, f"Answer with the letter of one of these, {', '.join(lettered)}, or write others."])

    def choices(self, history: Sequence[Message]) -> Sequence[str]:
        """The letters that were offered in the first message of a history; all without one."""
        return [letter for letter in LETTERS if not history or f"\n{letter}:\n" in history[0].text]

    def chosen(self, item: TaskItem, author: int, text: str) -> str:
        """The candidate that a letter stands for; any other text as it is."""
        return self.lettered(item, author).get(text.strip(), text)

    def kind_of(self, item: TaskItem, author: int, text: str) -> str:
        """The kind of what an author chose; "" for a text of its own."""
        source = self.chosen(item, author, text)
        return next((kind for kind, candidate in self.of(item, author).items() if candidate == source), "")

    def shares(
        self, items: Sequence[TaskItem], groups: Sequence[Group], authors: int, split: Callable[[str], Sequence[str]]
    ) -> Mapping[str, Mapping[str, float]]:
        """A table of the share of each kind among what authors chose last, in %.

        Args:
            items: The rows that were played.
            groups: With their episodes.
            authors: How many there are; other agents come after them.
            split: From a text that has all parts to these, where one agent writes them.
        """
        by_id = {item.id: item for item in items}
        chosen: list[str] = []
        for episode, item in ((e, by_id[group.item_id]) for group in groups for e in group.episodes):
            texts = texts_of(episode, authors, split)
            chosen += [self.kind_of(item, author, text) for author, text in enumerate(texts)]
        return {"candidates": {f"{kind} %": 100 * chosen.count(kind) / max(len(chosen), 1) for kind in KINDS}}


def texts_of(episode: Episode, authors: int, split: Callable[[str], Sequence[str]]) -> Sequence[str]:
    """What every author said last in an episode; see `Candidates.shares`."""
    last = episode.last_texts
    if len(last) == 1 < authors:
        return split(last["agent_0"])
    return [last.get(f"agent_{author}", "") for author in range(authors)]


def schemes(found: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
    """A table of the share of each scheme, in %, from the schemes that functions show; see `envs.coding.schemes`."""
    return {"schemes": {f"{name} %": 100 * found.count(name) / len(found) for name in SCHEMES}} if found else {}


@functools.cache
def known() -> Mapping[str, Sequence[Mapping[str, str]]]:
    """By class and author the candidates by kind, from `data/class_candidates.jsonl`."""
    text = (resources.files("llm_dec_pomdp.data") / "class_candidates.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    return {row["id"]: row["authors"] for row in rows}


def _methods(item: TaskItem, author: int) -> Mapping[str, str]:
    return known()[item.id][author]


def _module(item: TaskItem, author: int) -> Mapping[str, str]:
    return of_module(item.fields["solution"], author)


OF_METHODS, OF_MODULES = Candidates(_methods), Candidates(_module)
