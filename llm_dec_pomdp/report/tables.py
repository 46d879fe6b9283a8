"""Tables of a report as data frames of strings, for the terminal, Markdown, HTML, CSV and LaTeX."""

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
GAME_UNIT = ("return", "regret")  # columns in the unit of the environment, if its optimum is known
RETURN = ("return %", "95 % interval", "over", "by seed")
TEXT_COLUMNS = ("environment", "method", "model", "against", "over", "by seed", "verdict")  # other columns hold numbers
INTERVALS = (
    'All intervals are 95 % intervals; the column "over" shows what varies. Over seeds and tasks: t intervals in which '
    f"both are random; they need at least {LEAST_SEEDS} seeds. Over the tasks of one seed: they do not cover the "
    "variation between seeds. Intervals are too narrow if some seeds get stuck at a low return but no measured seed "
    "did. If a fifth of all seeds get stuck, the interval contains the mean in about half of the reports on three "
    "seeds, and in two thirds of those on five. So look at every seed."
)


def frame(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> DataFrame:
    """Return a table of strings; several columns may have the same name."""
    names = Index(list(columns), dtype=object)  # the string type of pandas refuses lone surrogates
    return DataFrame([list(row) for row in rows], columns=names, dtype=object)


def number(value: float, digits: int = 1, missing: str = "-") -> str:
    """Return a number with this many digits for a table; `missing` if it is not finite."""
    return f"{value:.{digits}f}" if math.isfinite(value) else missing


def bounds(value: Interval, sign: str = "") -> str:
    """Return the bounds of an interval as "low to high", with `sign` "+" for a difference; "-" if it has none."""
    return f"{value.low:{sign}.1f} to {value.high:{sign}.1f}" if math.isfinite(value.low) else "-"


def p_value(p: float) -> str:
    """Return a p-value for a table; "-" if nothing was tested."""
    return "<0.001" if p < 0.001 else number(p, 3)


def by_seed(line: MethodResult) -> str:
    """Return the return of each seed of a method, in % of the maximum."""
    return ", ".join(number(summary.return_percent.mean) for summary in line.summaries)


def return_columns(some: Sequence[MethodResult]) -> list[str]:
    """Return the names of the columns with returns: in %, and in the unit of the environment if it has an optimum."""
    known = any(line.measured("regret") for line in some)
    return [*RETURN[:2], *(GAME_UNIT if known else ()), *RETURN[2:]]


def return_cells(line: MethodResult, columns: Sequence[str]) -> list[str]:
    """Return the values of a method for the columns of `return_columns`."""
    in_its_unit = {name: number(value, 2) for name, value in means(line.measured("regret")).items()}
    percent = (number(line.value.mean), bounds(line.value), line.value.over, by_seed(line))
    cells = {**in_its_unit, **dict(zip(RETURN, percent, strict=True))}
    return [cells.get(name, "-") for name in columns]


def about_cells(group: Sequence[MethodResult]) -> str:
    """Return a sentence with the models, the episodes and the split of an evaluation."""
    cell, summary = group[0].entries[0].cell, group[0].summaries[0]
    split = cell.evaluation.split
    rows = "all tasks" if split == "all" else f"the {split} tasks"
    trained = split != "test" and cell.environment.eval_tasks is None and any(line.learns for line in group)
    lost = sum(s.unscored for line in group for s in line.summaries)
    models = ", ".join(dict.fromkeys(line.model for line in group))
    return "".join(
        (
            f"{models}: {summary.episodes} episodes per method and seed on {rows}",
            ", on which the learners were also trained" if trained else "",
            f"; {lost} episodes could not be scored and are left out" if lost else "",
            ".",
        )
    )


def return_table(group: Sequence[MethodResult]) -> DataFrame:
    """Return the table of returns of the methods of an environment."""
    columns = return_columns(group)
    return frame(["method", *columns], ([line.name, *return_cells(line, columns)] for line in group))


def headline_table(all_lines: Sequence[MethodResult]) -> DataFrame:
    """Return the table of returns of all methods and environments.

    Published returns are included; their column "over" has the value "published".
    """
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
    """Return the table of latency and tokens; a star marks response times that were measured in batches."""
    body: list[list[str]] = []
    for line in all_lines:
        alone = line.mean(lambda s: s.latency.mean if s.latency else math.nan)
        batched = number(line.mean(lambda s: s.response_seconds), 2) + "*"
        tokens = (
            line.mean(lambda s: s.tokens_per_second),
            line.mean(lambda s: s.prompt_tokens),
            line.mean(lambda s: s.generated_tokens),
            line.mean(lambda s: s.thought_tokens),
            line.mean(lambda s: s.tokens_per_solved),
        )
        response = batched if math.isnan(alone) else number(alone, 2)
        body.append([line.environment, line.method, line.model, response, *(number(n, 0) for n in tokens)])
    names = [
        "response s",
        "tokens/s",
        "prompt tokens",
        "generated tokens",
        "of them in thoughts",
        "tokens per solved task",
    ]
    return frame(["environment", "method", "model", *names], body)


@dataclass(frozen=True, slots=True)
class Block:
    """A table of an environment.

    Attributes:
        title, note: Title and explanation above the table.
        table: The complete table, for files.
        line: A sentence that pages show in place of a table with little content; else "".
    """

    title: str
    note: str
    table: DataFrame
    line: str = ""


def environment_blocks(group: Sequence[MethodResult], compared: Sequence[Comparison]) -> list[Block]:
    """Return the tables of an environment: differences between methods, and the sections of the report."""
    blocks = [Block(section.title, section.note, table, in_a_line(table)) for section, table in section_tables(group)]
    if not compared:
        return blocks
    line = "" if compared[0].pairs else verdict_rule(compared)
    return [Block("Differences, in points", verdict_rule(compared), difference_table(compared), line), *blocks]


def in_a_line(table: DataFrame) -> str:
    """Return a sentence for a table with a single row or only zeros; "" for other tables."""
    names, rows = list(map(str, table.columns)), [list(map(str, row)) for row in table.to_numpy()]
    numbers = [text for row in rows for name, text in zip(names, row, strict=True) if name not in TEXT_COLUMNS]
    if numbers and all(re.fullmatch(r"-|-?0(\.0+)?", text) for text in numbers):
        return "Zero for all methods."
    if len(table) > 1:
        return ""
    pairs = zip(names[1:], rows[0][1:], strict=True)
    return f"{rows[0][0]}: " + ", ".join(f"{name} {text}" for name, text in pairs)


def difference_table(pairs: Sequence[Comparison]) -> DataFrame:
    """Return the table of pairwise differences in return, in percentage points."""
    body = [
        [ours.name, theirs.name, f"{p.mean:+.1f}", bounds(p, "+"), p.over, p_value(pair.p), pair.verdict]
        for pair in pairs
        for ours, theirs, p in [(pair.ours, pair.theirs, pair.points)]
    ]
    return frame(["method", "against", "points", "95 % interval", "over", "p, Holm", "verdict"], body)


def verdict_rule(pairs: Sequence[Comparison]) -> str:
    """Return a sentence that explains the verdicts of a table of differences."""
    tested = pairs[0].pairs
    if not tested:
        return f"There is no verdict: two methods must share at least {LEAST_SEEDS} seeds."
    return (
        f'"more" and "less" mean that the difference is significant at {100 * LEVEL:.0f} % (Holm-corrected over '
        f"{tested} pair{'s' if tested > 1 else ''}). The intervals are not corrected."
    )


def overall_table(methods: Sequence[Overall]) -> DataFrame:
    """Return the table of methods over all environments."""
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
    """Return the table of runs without a result, with the reasons."""
    return frame(["run", "reason"], ([e.cell.label, e.failure] for e in entries if e.result is None))


def section_tables(group: Sequence[MethodResult]) -> list[tuple[Section, DataFrame]]:
    """Return the sections with values for an environment, each with its table."""
    tables: list[tuple[Section, DataFrame]] = []
    by_line = {line.name: rows_of(line) for line in group}
    for name in dict.fromkeys(name for rows in by_line.values() for name in rows):
        section, rows = heading(name), {line: rows[name] for line, rows in by_line.items() if name in rows}
        columns = {column: 1 if column.endswith("%") else section.digits for row in rows.values() for column in row}
        body = [[line, *(cell(row.get(c, ""), digits) for c, digits in columns.items())] for line, row in rows.items()]
        tables.append((section, frame(["method", *columns], body)))
    return tables


def cell(value: Value, digits: int) -> str:
    """Return a value for a table; an interval as "mean (low to high)", or only its mean if it has no bounds."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Interval):
        return number(value, digits)
    if not math.isfinite(value.low):
        return number(value.mean, digits)
    return f"{value.mean:.{digits}f} ({value.low:.{digits}f} to {value.high:.{digits}f})"
