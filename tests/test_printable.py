"""What a terminal is given, whatever the text is."""

from __future__ import annotations

import io
import unicodedata

import pytest
from rich.table import Table

from llm_dec_pomdp.printable import Rows, Terminal, escape_controls, plain

ATTACKS = {
    "colour": "\x1b[31mred",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;aGk=\x07",
    "one byte": "\x9b31m",
    "clear": "\x1bc\x08\x7f",
    "carriage return": "innocent\rguilty",
    "bidi": "\u202egnp.exe\u2066x\u2069\u200f",
    "surrogate": "half \ud800 of \udfff",
    "tags": "a\U000e0041b",
    "separators": "a\u2028b\u2029c\x85d",
    "nul": "a\x00b",
}
MARKUP = ["[red]x[/red]", "[/]", "[/nothing]", "a:leaves:b", "[link=http://evil]x[/link]", "\\[bold]", ":warning:"]


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_nothing_is_left_that_commands_or_misleads(text: str) -> None:
    shown = escape_controls(text)
    shown.encode("utf-8")
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cs", "Cf", "Zl", "Zp"}
    assert "\\" in shown
    assert escape_controls(shown) == shown


@pytest.mark.parametrize("text", ["größer 漢字 😀 👩‍👩‍👧", "tab\tand\nline\r\nend", "a\\b [red] :leaves: | <b>", ""])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert escape_controls(text) == text


def printed(*things: object, width: int = 200) -> str:
    file = io.StringIO()
    Terminal(file=file, force_terminal=False, width=width).print(*things)
    return file.getvalue()


@pytest.mark.parametrize("text", [*MARKUP, *ATTACKS.values()])
def test_every_way_to_the_terminal_shows_text(text: str) -> None:
    """As a string, in a styled text, as title, head and cell of a table made of strings or of texts."""
    strings = Table(text, title=text)
    strings.add_row(text)
    texts = Table(title=plain(text, "bold"))
    texts.add_column(plain(text))
    texts.add_row(plain(text))
    for thing in (text, plain(text, "red"), strings, texts):
        shown = printed(thing)
        shown.encode("utf-8")
        assert escape_controls(shown) == shown
        assert escape_controls(text) in shown
    for table in (strings, texts):
        assert len({len(line) for line in printed(table).splitlines()[1:]}) == 1  # its frame stays whole


def test_a_rule_a_status_and_a_text_of_rich_are_shown_alike() -> None:
    file = io.StringIO()
    terminal = Terminal(file=file, force_terminal=True, width=80, color_system=None)
    terminal.rule("[red]\x1b]0;owned\x07")
    with terminal.status(plain("checking a:leaves:b\x1b[2J")):
        pass
    shown = file.getvalue()
    assert "\x1b]0" not in shown
    assert "\x1b[2J" not in shown
    assert "[red]\\x1b]0;owned\\x07" in shown
    assert "a:leaves:b\\x1b[2J" in shown


NAMES = ["coophumaneval-v0", "Qwen2.5-Coder-3B", "sequential"]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_no_word_of_a_table_is_broken_at_any_width(width: int) -> None:
    screen = io.StringIO()
    table = Rows(["environment", "model", "about", ""], [[*NAMES, ""], ["a", "b", "two words " * 9, "x"]], title="all")
    Terminal(file=screen, width=width, force_terminal=True).print(table)
    shown = screen.getvalue()
    assert all(name in shown for name in NAMES)
    assert shown.count("words") == 9


def test_a_paragraph_of_a_row_has_no_line_for_an_empty_cell() -> None:
    screen = io.StringIO()
    table = Rows(["method", "model"], [["tldr-v0", ""], ["magrpo", "coophumaneval"]])
    Terminal(file=screen, width=16, force_terminal=True).print(table)
    assert screen.getvalue().count("model:") == 1
