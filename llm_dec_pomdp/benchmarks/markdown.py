"""Texts of others inside Markdown, where they must not become markup."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..visible import visible

# What could begin markup: emphasis, code, links, columns, HTML and entities. An underscore between letters is none.
_MARKUP = re.compile(r"[\\`*\[\]|~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<!\w)_|_(?!\w)")


def inline(text: str) -> str:
    """A text as part of a line."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(visible(text).split()))


def block(text: str) -> list[str]:
    """A text as lines of its own."""
    return ["~~~text", text.replace("~~~", "~ ~ ~"), "~~~", ""]


def table(names: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """A table and an empty line."""
    rows = [[inline(cell) for cell in row] for row in [names, *body]]
    return [*("| " + " | ".join(row) + " |" for row in [rows[0], ["---"] * len(names), *rows[1:]]), ""]
