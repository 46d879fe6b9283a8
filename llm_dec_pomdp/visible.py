"""Texts of models, tasks, servers and files as something that can be shown: in a terminal, in a page, in a log.

Shown as they are, some characters would command the reader's terminal, turn the order of letters around or stop a file
from being written. `Terminal` is the one way to a terminal; whatever writes a file for people calls `visible`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.text import Text

_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # controls but tab and line feed, the beginning of terminal commands
    "|\r(?!\n)"  # back to the beginning of the line
    "|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]"  # directions of writing, separators of lines
    "|[\ufff9-\ufffb\U000e0000-\U000e007f]"  # annotations and tags, which nobody sees
    "|[\ud800-\udfff]"  # halves of characters, which no file takes
)
# What could begin markup of Markdown: emphasis, code, links, columns, HTML and entities; no underscore between letters.
_MARKUP = re.compile(r"[\\`*\[\]|~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<!\w)_|_(?!\w)")


def visible(text: str) -> str:
    """The same text with escapes like `\\x1b` and `\\u202e` for what no reader should be given as it is."""
    return _HIDDEN.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def whole(text: str) -> str:
    """The same text with U+FFFD for halves of characters, which programs that read JSON refuse."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def inline(text: str) -> str:
    """A text as part of a line of Markdown, where it must not become markup."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(visible(text).split()))


def plain(text: str, style: str = "") -> Text:
    """Text for a table or a line of a terminal, in which nothing is markup."""
    return Text(visible(text), style)


class Terminal(Console):
    """A console on which every string is text, never markup or an emoji, and no text commands the terminal.

    A sentence is wrapped where lines have a width: in a terminal, or where COLUMNS says it; elsewhere it is one line.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """As `Console.print`."""
        options.setdefault("soft_wrap", not (self.is_terminal or "COLUMNS" in os.environ))
        super().print(*objects, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Strings as text of the width that is going to be shown."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """All that is printed comes through here."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
