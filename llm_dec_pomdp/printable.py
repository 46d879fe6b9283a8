"""Make texts of models, tasks, servers and files safe to show in a terminal, page or log.

Some characters would control the terminal, reverse the order of letters, or make a file impossible to write.
`Terminal` is the only way to a terminal. Code that writes a file for people calls `escape_controls`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"  # control characters except tab and line feed: they start terminal commands
    "|\r(?!\n)"  # return to the start of the line
    "|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]"  # direction of writing, line separators
    "|[\ufff9-\ufffb\U000e0000-\U000e007f]"  # invisible annotations and tags
    "|[\ud800-\udfff]"  # lone surrogates, which no file can store
)
# Characters that may begin Markdown: emphasis, code, links, columns, HTML, entities; no underscore between letters.
_MARKUP = re.compile(r"[\\`*\[\]|~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<!\w)_|_(?!\w)")


def escape_controls(text: str) -> str:
    """Return the text with control characters escaped, e.g. as `\\x1b` or `\\u202e`."""
    return _HIDDEN.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def replace_surrogates(text: str) -> str:
    """Return the text with U+FFFD for lone surrogates, which JSON readers refuse."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def inline(text: str) -> str:
    """Return the text as one line of Markdown, with markup escaped."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(escape_controls(text).split()))


def plain(text: str, style: str = "") -> Text:
    """Return the text for the terminal, without markup."""
    return Text(escape_controls(text), style)


class Rows:
    """A table of texts that never breaks a word. If the terminal is too narrow, each row becomes a paragraph.

    Args:
        headers: Headers of the columns.
        rows: One text per column for each row.
        title: Line above the table.
        caption: Sentence below the table.
        right: Headers of the columns that are aligned to the right.
    """

    def __init__(
        self,
        headers: Iterable[str],
        rows: Iterable[Iterable[str]],
        *,
        title: str = "",
        caption: str = "",
        right: Iterable[str] = (),
    ) -> None:
        self.headers = list(map(escape_controls, headers))
        self.rows = [list(map(escape_controls, row)) for row in rows]
        self.title, self.caption = escape_controls(title), escape_controls(caption)
        self.right = set(right)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render for the width of the terminal."""
        if self.title:
            yield Text(self.title, "bold")
        widths = self._widths(options.max_width)
        if widths is None:
            for row in self.rows:
                first, *rest = zip(self.headers, row, strict=True)
                yield Text(first[1], "bold")
                for header, cell in ((header, cell) for header, cell in rest if cell):
                    yield Padding(Text(f"{header}: {cell}" if header else cell), (0, 0, 0, 2))
        else:
            table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
            for header, width in zip(self.headers, widths, strict=True):
                justify = "right" if header in self.right else "left"
                table.add_column(Text(header), width=width, justify=justify)
            for row in self.rows:
                table.add_row(*map(Text, row))
            yield table
        if self.caption:
            yield Text(self.caption)

    def _widths(self, width: int) -> list[int] | None:
        """Return the width of each column in characters; None if the longest words of a row exceed `width`."""
        columns = list(zip(self.headers, *self.rows, strict=True))
        found = [max((cell_len(word) for cell in column for word in cell.split()), default=1) for column in columns]
        lines = [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in columns]
        most = list(map(max, found, lines))
        room = width - sum(found) - 2 * (len(columns) - 1)
        if room < 0:
            return None
        while room and found != most:  # one character at a time to every column that can use it
            for place in (place for place, wanted in enumerate(most) if found[place] < wanted):
                if room:
                    found[place], room = found[place] + 1, room - 1
        return found


class Terminal(Console):
    """A console that prints every string literally, without markup, emoji or terminal commands.

    Lines are wrapped in a terminal, or if the variable COLUMNS is set; otherwise a sentence stays on one line.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; see `Console.print`."""
        options.setdefault("soft_wrap", not (self.is_terminal or "COLUMNS" in os.environ))
        super().print(*objects, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as text with control characters escaped, so that its width is the printed width."""
        return super().render_str(escape_controls(text), **options)

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Yield the segments of a renderable with control characters escaped; all output passes through this method."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_controls(segment.text), segment.style)
