"""Texts of models and users inside Markdown, written so that they cannot become markup."""

from __future__ import annotations

from pandas import DataFrame

from ..printable import inline


def block(text: str) -> list[str]:
    """Return a text as the lines of a code block."""
    return ["~~~text", text.replace("~~~", "~ ~ ~"), "~~~", ""]


def table(texts: DataFrame) -> list[str]:
    """Return the lines of a Markdown table, followed by an empty line."""
    head, *rows = [[inline(cell) for cell in row] for row in (texts.columns, *texts.to_numpy())]
    return [*("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]), ""]
