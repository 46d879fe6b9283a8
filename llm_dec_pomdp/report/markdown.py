"""Texts of others inside Markdown, where they must not become markup."""

from __future__ import annotations

from pandas import DataFrame

from ..printable import inline


def block(text: str) -> list[str]:
    """A text as lines of its own."""
    return ["~~~text", text.replace("~~~", "~ ~ ~"), "~~~", ""]


def table(texts: DataFrame) -> list[str]:
    """A table and an empty line."""
    head, *rows = [[inline(cell) for cell in row] for row in (texts.columns, *texts.to_numpy())]
    return [*("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]), ""]
