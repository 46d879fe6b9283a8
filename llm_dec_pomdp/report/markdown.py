"""Texts of others inside Markdown, where they must not become markup."""

from __future__ import annotations

from collections.abc import Sequence

from ..visible import inline


def block(text: str) -> list[str]:
    """A text as lines of its own."""
    return ["~~~text", text.replace("~~~", "~ ~ ~"), "~~~", ""]


def table(names: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """A table and an empty line."""
    rows = [[inline(cell) for cell in row] for row in [names, *body]]
    return [*("| " + " | ".join(row) + " |" for row in [rows[0], ["---"] * len(names), *rows[1:]]), ""]
