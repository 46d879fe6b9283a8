"""Rows of published multi-hop sets: HotpotQA (arXiv:1809.09600) and 2WikiMultihopQA (arXiv:2011.01060).

Both have `question`, `answer`, `context` (pages of sentences) and `supporting_facts` (page and sentence); on the hub as
columns, in the released files as pairs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..tasks import TaskError


def from_published(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row with `context` as one with `corpus`, a line for each sentence; other rows as they are.

    Raises:
        TaskError: `context` or `supporting_facts` have another form.
    """
    if "context" not in row or "corpus" in row:
        return row
    support = {(title, place) for title, place in _pairs(row, "supporting_facts", ("title", "sent_id"), int)}
    lines = [
        json.dumps({"text": sentence.strip(), "title": title, "support": (title, place) in support})
        for title, sentences in _pairs(row, "context", ("title", "sentences"), list)
        for place, sentence in enumerate(cast("list[str]", sentences))
        if sentence.strip()
    ]
    return {**row, "corpus": "\n".join(lines)}


def _pairs(row: Mapping[str, Any], name: str, columns: tuple[str, str], kind: type) -> Sequence[tuple[str, Any]]:
    """The pairs of a field, which may stand in two columns."""
    value: Any = row.get(name, [])
    try:
        titles, others = (
            _columns(value, columns) if isinstance(value, dict) else tuple(zip(*value, strict=True)) or ((), ())
        )
        pairs: list[tuple[Any, Any]] | None = list(zip(titles, others, strict=True))
    except (KeyError, TypeError, ValueError):
        pairs = None
    if pairs is None or not all(isinstance(title, str) and isinstance(other, kind) for title, other in pairs):
        raise TaskError(
            f"field {name!r} is {value!r:.80}; it holds pairs of {columns[0]} and {columns[1]}, or these two as columns"
        )
    return pairs


def _columns(value: Any, names: tuple[str, str]) -> tuple[Sequence[Any], Sequence[Any]]:
    return value[names[0]], value[names[1]]
