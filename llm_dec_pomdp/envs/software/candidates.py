"""Candidate methods of our own classes, among which authors choose by a letter.

Each letter stands for all methods of an author, made from the solution by mutation:

| kind | what the author's methods are |
|---|---|
| gold | the solution's, which call the methods of others: a coordinator |
| off by one | the same with a number, a comparison or a sum changed in one of them, so that a test of it fails |
| stub | return None |
| other signature | the solution's with one parameter more |
| alone | do the work of the other authors' methods themselves: no cooperation |
| fallback | call the methods of others, and do their work where these raise |

The builder `scripts/build_class_candidates.py` has run each of them: gold, alone and fallback pass all tests beside the
others' gold, off by one fails some and passes some. Classes for which there are all kinds for both of two authors are
offered. Decorator and strategy filter are schemes of a helper and a main function; see `envs.coding.candidates`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib import resources

from ...seeding import derive
from ...types import TaskItem

KINDS = ("gold", "off by one", "stub", "other signature", "alone", "fallback")
LETTERS = tuple("ABCDEF")


@functools.cache
def known() -> Mapping[str, Sequence[Mapping[str, str]]]:
    """By class and author the candidates by kind, from `data/class_candidates.jsonl`."""
    text = (resources.files("llm_dec_pomdp.data") / "class_candidates.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    return {row["id"]: row["authors"] for row in rows}


def offered(item_id: str) -> bool:
    """Whether there are candidates of a class."""
    return item_id in known()


def lettered(item: TaskItem, author: int) -> dict[str, str]:
    """The candidates of an author by letter, in an order that says nothing of their kinds."""
    of_kind = known()[item.id][author]
    order = sorted(of_kind, key=lambda kind: derive(0, item.id, str(author), kind))
    return dict(zip(LETTERS, (of_kind[kind] for kind in order), strict=True))


def offer(item: TaskItem, author: int) -> str:
    """The candidates as an author is told them."""
    listed = [f"{letter}:\n{text}" for letter, text in lettered(item, author).items()]
    return "\n".join([*listed, f"Answer with the letter of one of these, {', '.join(LETTERS)}, or write others."])


def chosen(item: TaskItem, author: int, text: str) -> str:
    """The candidate that a letter stands for; any other text as it is."""
    return lettered(item, author).get(text.strip(), text)


def kind_of(item: TaskItem, author: int, text: str) -> str:
    """The kind of what an author chose; "" for a text of its own."""
    source = chosen(item, author, text)
    return next((kind for kind, candidate in known()[item.id][author].items() if candidate == source), "")
