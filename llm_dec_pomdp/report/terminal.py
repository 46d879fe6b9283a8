"""Results for a terminal: one table, the main differences in sentences, and failed runs."""

from __future__ import annotations

from collections.abc import Sequence

from pandas import DataFrame
from rich.console import RenderableType
from rich.table import Table

from ..printable import Rows, escape_controls, plain
from ..results.lines import MethodResult, by_environment
from ..results.runs import CellRecord
from .findings import Findings
from .tables import bounds, failure_table, frame, number, return_cells

_ROWS, _SENTENCES = 10, 4  # limits that fit a small window
_FIRST = 3  # columns that are always shown
_BETWEEN = 3  # characters


def summary(found: Findings, entries: Sequence[CellRecord], width: int) -> list[RenderableType]:
    """Return the findings of a run in at most 25 lines; its report has all of them.

    Args:
        found: Findings of the report.
        entries: All runs, including those without a result.
        width: Width of the terminal in characters. Columns that do not fit are left out, from the right.
    """
    shortened = _foremost(found)
    printed: list[RenderableType] = [_fitting(_returns(shortened), width)] if shortened else []
    if left_out := len(found.lines) - len(shortened):
        printed.append(plain(f"The report has {left_out} more rows."))
    printed += [plain(f"{sentence}.") for sentence in found.headlines()[:_SENTENCES]]
    failed = [[" ".join(str(cell).split()) for cell in row] for row in failure_table(entries).to_numpy()]
    return [*printed, *([Rows(["run", "reason"], failed)] if failed else [])]


def _foremost(found: Findings) -> list[MethodResult]:
    """Return all results; if there are many, only the best results of each environment."""
    if len(found.lines) <= _ROWS:
        return list(found.lines)
    best = [max(group, key=lambda line: line.value.mean) for group in by_environment(found.lines).values()]
    return best[:_ROWS]


def _returns(lines: Sequence[MethodResult]) -> DataFrame:
    """Return the table of returns, also in the unit of the environment if its optimum is known."""
    known = [name for name in ("return", "regret") if any(line.measured("regret") for line in lines)]
    body: list[list[str]] = []
    for place, line in enumerate(lines):
        repeated = place and lines[place - 1].environment == line.environment
        percent = [number(line.value.mean), bounds(line.value)]
        body.append(["" if repeated else line.environment, line.name, *percent, *return_cells(line, known)])
        body[-1].append(line.value.over)
    return frame(["environment", "method", "return %", "95 % interval", *known, "over"], body)


def _fitting(texts: DataFrame, width: int) -> Table:
    """Return a table without the last columns that do not fit; cut texts only if three columns are too wide."""
    names, rows = list(map(str, texts.columns)), [[str(cell) for cell in row] for row in texts.to_numpy()]
    widths = [
        max(len(escape_controls(cell)) for cell in column) + _BETWEEN for column in zip(names, *rows, strict=True)
    ]
    count = len(widths)
    while count > _FIRST and sum(widths[:count]) >= width:
        count -= 1
    table = Table()
    for name in names[:count]:
        right = "%" in name or name in ("return", "regret")
        table.add_column(plain(name), justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(plain(" ".join(text.split())) for text in row[:count]))
    return table
