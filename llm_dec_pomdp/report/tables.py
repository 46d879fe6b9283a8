"""Tables of a report as data frames of texts, for the terminal, Markdown, the page, CSV and LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pandas import DataFrame, Index

from ..evaluation.intervals import LEAST_SEEDS, LEVEL, Interval
from ..evaluation.sections import Section, Value, means
from ..results.lines import MethodResult, by_environment
from ..results.runs import CellRecord
from .findings import Comparison, Overall
from .published import published
from .sections import heading, rows_of

PUBLISHED = "published"
GAME_UNIT = ("return", "regret")  # of games whose optimum is known
RETURN = ("return %", "95 % interval", "over", "by seed")
TEXT_COLUMNS = ("environment", "method", "model", "against", "over", "by seed", "verdict")  # the others hold numbers
INTERVALS = (
    "Intervals are for 95 %, over what is named beside them. Over seeds and tasks: t intervals in which both are "
    f"random; below {LEAST_SEEDS} seeds there is none. Over the tasks of one seed: it says nothing about other seeds. "
    "No interval knows of seeds that get stuck before one of its own does: where a fifth of all seeds do, it holds the "
    "mean in about half of the reports on three seeds, and in two thirds of those on five. So every seed is shown."
)


def frame(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> DataFrame:
    """A table of texts; several columns may have one name."""
    names = Index(list(columns), dtype=object)  # as texts of pandas they could hold no lone surrogate
    return DataFrame([list(row) for row in rows], columns=names, dtype=object)


def number(value: float, digits: int = 1, missing: str = "-") -> str:
    """A number for a table; `missing` where there is none."""
    return f"{value:.{digits}f}" if math.isfinite(value) else missing


def bounds(value: Interval, sign: str = "") -> str:
    """The bounds of an interval, with `sign` "+" for a difference; "-" where there is none."""
    return f"{value.low:{sign}.1f} to {value.high:{sign}.1f}" if math.isfinite(value.low) else "-"


def p_value(p: float) -> str:
    """A p-value; "-" where nothing was tested."""
    return "<0.001" if p < 0.001 else number(p, 3)


def by_seed(line: MethodResult) -> str:
    """What each seed of a method earns, in % of the maximum."""
    return ", ".join(number(summary.return_percent.mean) for summary in line.summaries)


def return_columns(some: Sequence[MethodResult]) -> list[str]:
    """Names of the columns of returns: in % of the maximum, and in the unit of games whose optimum is known."""
    known = any(line.measured("regret") for line in some)
    return [*RETURN[:2], *(GAME_UNIT if known else ()), *RETURN[2:]]


def return_cells(line: MethodResult, columns: Sequence[str]) -> list[str]:
    """What a method earns, by `return_columns`."""
    in_its_unit = {name: number(value, 2) for name, value in means(line.measured("regret")).items()}
    percent = (number(line.value.mean), bounds(line.value), line.value.over, by_seed(line))
    cells = {**in_its_unit, **dict(zip(RETURN, percent, strict=True))}
    return [cells.get(name, "-") for name in columns]


def about_cells(group: Sequence[MethodResult]) -> str:
    """What the methods of an environment were measured on, in a sentence."""
    cell, summary = group[0].entries[0].cell, group[0].summaries[0]
    split = cell.evaluation.split
    rows = "all rows" if split == "all" else f"the {split} rows"
    trained = split != "test" and cell.environment.eval_tasks is None and any(line.learns for line in group)
    lost = sum(s.unscored for line in group for s in line.summaries)
    models = ", ".join(dict.fromkeys(line.model for line in group))
    return "".join(
        (
            f"{models}: {summary.episodes} episodes per method and seed on {rows}",
            ", on which methods that learn were trained too" if trained else "",
            f"; {lost} episodes could not be scored and are left out" if lost else "",
            ".",
        )
    )


def return_table(group: Sequence[MethodResult]) -> DataFrame:
    """What each method of an environment earns."""
    columns = return_columns(group)
    return frame(["method", *columns], ([line.name, *return_cells(line, columns)] for line in group))


def headline_table(all_lines: Sequence[MethodResult]) -> DataFrame:
    """What each method of each environment earns, and published returns, marked as such in the column "over"."""
    body: list[list[str]] = []
    columns = return_columns(all_lines)
    for environment, group in by_environment(all_lines).items():
        for line in group:
            solved, distinct = number(100 * line.mean(lambda s: s.solved)), number(line.mean(lambda s: s.distinct_2), 3)
            body.append([environment, line.method, *return_cells(line, columns), solved, distinct, line.model])
        for quoted in published(entry.cell.environment for line in group for entry in line.entries):
            cells = {"return %": number(quoted.return_percent), "over": PUBLISHED}
            returns = [cells.get(name, "-") for name in columns]
            body.append([environment, quoted.method, *returns, "-", "-", quoted.models])
    return frame(["environment", "method", *columns, "solved %", "distinct-2", "model"], body)


def cost_table(all_lines: Sequence[MethodResult]) -> DataFrame:
    """What an answer of each method takes; a star marks response times that were measured in batches."""
    body: list[list[str]] = []
    for line in all_lines:
        alone = line.mean(lambda s: s.latency.mean if s.latency else math.nan)
        batched = number(line.mean(lambda s: s.response_seconds), 2) + "*"
        tokens = (
            line.mean(lambda s: s.tokens_per_second),
            line.mean(lambda s: s.prompt_tokens),
            line.mean(lambda s: s.generated_tokens),
            line.mean(lambda s: s.tokens_per_solved),
        )
        response = batched if math.isnan(alone) else number(alone, 2)
        body.append([line.environment, line.method, line.model, response, *(number(n, 0) for n in tokens)])
    names = ["response s", "tokens/s", "prompt tokens", "generated tokens", "tokens per solved task"]
    return frame(["environment", "method", "model", *names], body)


@dataclass(frozen=True, slots=True)
class Block:
    """A table of an environment.

    Attributes:
        title, note: Above it.
        table: The whole, for files of tables.
        line: A sentence for pages in its place, where there is little to see; else "".
    """

    title: str
    note: str
    table: DataFrame
    line: str = ""


def environment_blocks(group: Sequence[MethodResult], compared: Sequence[Comparison]) -> list[Block]:
    """The tables of an environment: how methods differ, and the sections of the report."""
    blocks = [Block(section.title, section.note, table, in_a_line(table)) for section, table in section_tables(group)]
    if not compared:
        return blocks
    line = "" if compared[0].pairs else verdict_rule(compared)
    return [Block("Differences, in points", verdict_rule(compared), difference_table(compared), line), *blocks]


def in_a_line(table: DataFrame) -> str:
    """A table with nothing but zeros or with a single row in a sentence; "" for others."""
    names, rows = list(map(str, table.columns)), [list(map(str, row)) for row in table.to_numpy()]
    numbers = [text for row in rows for name, text in zip(names, row, strict=True) if name not in TEXT_COLUMNS]
    if numbers and all(re.fullmatch(r"-|-?0(\.0+)?", text) for text in numbers):
        return "Zero for all methods."
    if len(table) > 1:
        return ""
    pairs = zip(names[1:], rows[0][1:], strict=True)
    return f"{rows[0][0]}: " + ", ".join(f"{name} {text}" for name, text in pairs)


def difference_table(pairs: Sequence[Comparison]) -> DataFrame:
    """How much more methods of an environment earn than others, in percentage points."""
    body = [
        [ours.name, theirs.name, f"{p.mean:+.1f}", bounds(p, "+"), p.over, p_value(pair.p), pair.verdict]
        for pair in pairs
        for ours, theirs, p in [(pair.ours, pair.theirs, pair.points)]
    ]
    return frame(["method", "against", "points", "95 % interval", "over", "p, Holm", "verdict"], body)


def verdict_rule(pairs: Sequence[Comparison]) -> str:
    """What the verdicts of a table mean."""
    tested = pairs[0].pairs
    if not tested:
        return f"No verdict on methods below {LEAST_SEEDS} seeds that both have."
    return (
        f'"more" and "less": different at {100 * LEVEL:.0f} %, Holm-corrected over {tested} '
        f"pair{'s' if tested > 1 else ''}; intervals are not corrected."
    )


def overall_table(methods: Sequence[Overall]) -> DataFrame:
    """Methods over all environments."""
    body = [
        [
            m.name,
            number(m.iqm.mean),
            bounds(m.iqm),
            *(number(m.improvement[o.name], 2) if o is not m else "" for o in methods),
        ]
        for m in methods
    ]
    probabilities = [f"P(more than {m.name})" for m in methods]
    return frame(["method", "interquartile mean", "95 % interval over seeds", *probabilities], body)


def failure_table(entries: Sequence[CellRecord]) -> DataFrame:
    """The cells without a result, and why."""
    return frame(["cell", "reason"], ([e.cell.label, e.failure] for e in entries if e.result is None))


def section_tables(group: Sequence[MethodResult]) -> list[tuple[Section, DataFrame]]:
    """The tables of all sections that have something to show on an environment."""
    tables: list[tuple[Section, DataFrame]] = []
    by_line = {line.name: rows_of(line) for line in group}
    for name in dict.fromkeys(name for rows in by_line.values() for name in rows):
        section, rows = heading(name), {line: rows[name] for line, rows in by_line.items() if name in rows}
        columns = {column: 1 if column.endswith("%") else section.digits for row in rows.values() for column in row}
        body = [[line, *(cell(row.get(c, ""), digits) for c, digits in columns.items())] for line, row in rows.items()]
        tables.append((section, frame(["method", *columns], body)))
    return tables


def cell(value: Value, digits: int) -> str:
    """A value for a table: an interval as "mean (low to high)", or as its mean alone where it has no bounds."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Interval):
        return number(value, digits)
    if not math.isfinite(value.low):
        return number(value.mean, digits)
    return f"{value.mean:.{digits}f} ({value.low:.{digits}f} to {value.high:.{digits}f})"
