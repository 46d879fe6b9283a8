"""Rows of published data sets: HotpotQA (arXiv:1809.09600) and 2WikiMultihopQA (arXiv:2011.01060).

Both have `question`, `answer`, `context` (titles and sentences of pages) and `supporting_facts` (title of a page and
index of a sentence). The last two are columns on the hub, and lists of pairs in the released files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...tasks import TaskError


def from_published(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a row with `context` a `corpus`, a line for each sentence; other rows stay as they are.

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
    """The pairs of a field, which may be stored in two columns."""
    value: Any = row.get(name, [])
    try:
        if isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            value = zip(table[columns[0]], table[columns[1]], strict=True)
        pairs: list[tuple[Any, Any]] | None = [(title, other) for title, other in value]
    except (KeyError, TypeError, ValueError):
        pairs = None
    if pairs is None or not all(isinstance(title, str) and isinstance(other, kind) for title, other in pairs):
        raise TaskError(
            f"field {name!r} is {value!r:.80}; it holds pairs of {columns[0]} and {columns[1]}, or these two as columns"
        )
    return pairs
