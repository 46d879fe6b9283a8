"""The reports of `crossplay` and `robustness`: `report.md`, `report.html` and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ..evaluation.crossplay import CrossPlay
from ..evaluation.intervals import LEAST_SEEDS, Interval
from ..evaluation.robustness import MISSED, SILENT, Robustness
from ..printable import escape_controls
from ..results.runs import CellRecord
from ..storage.files import replace
from . import markdown as md
from .drawing import save
from .figures import Figure, Panel, bar, rows
from .page import MOST, figure_values, file_of_page, template
from .tables import TEXT_COLUMNS, Block, bounds, cell, frame, number
from .viewer.page import policy, viewer_script, viewer_style
from .viewer.stored import browsable


def crossplay_sentences(found: CrossPlay) -> list[str]:
    """Return the findings of a cross-play in sentences."""
    count = len(found.teams)
    few = f" There is no interval below {LEAST_SEEDS} teams." if count < LEAST_SEEDS else ""
    return [
        f"With its own members a team has a return of {_percent(found.own)}, and with one member from another team "
        f"{_percent(found.other)}.",
        f"The gap is {_points(found.gap)} ({count} teams, intervals over teams).{few}",
    ]


def crossplay_blocks(found: CrossPlay) -> list[Block]:
    """Return the tables of a cross-play: the matrix, own against other, and each role."""
    numbers = [str(place) for place in range(1, len(found.teams) + 1)]
    matrix = frame(
        ["member of", *(f"in team {n}" for n in numbers), "name"],
        ([n, *map(number, row), name] for n, row, name in zip(numbers, found.matrix, found.teams, strict=True)),
    )
    means = [("own members", found.own), ("one member of another team", found.other), ("gap, in points", found.gap)]
    summary = frame(["return %", "mean", "95 % interval"], ([n, number(v.mean), bounds(v)] for n, v in means))
    apart = ~np.eye(len(numbers), dtype=bool)  # pairs of different teams
    by_role = frame(
        ["role", "return %, with this member from another team"],
        ([role, number(float(values[apart].mean()))] for role, values in zip(found.roles, found.by_role, strict=True)),
    )
    ratings = found.elo
    rated = zip(numbers, ratings.ratings, found.teams, strict=True) if ratings else ()
    games = Block(
        "Elo",
        "Ratings with a mean of 1500 from all games, with 95 % intervals by a bootstrap over games. The first role has "
        f"an advantage of {number(ratings.first.mean)} points ({bounds(ratings.first)})."
        if ratings
        else "",
        frame(
            ["team", "rating", "95 % interval", "name"], ([n, number(v.mean), bounds(v), name] for n, v, name in rated)
        ),
    )
    return [
        Block("Own against other", "Intervals are over teams; pairs that share a team are not independent.", summary),
        Block(
            "Matrix",
            "Return in %. Row i, column j: the member of one role comes from team i, the remaining members from team "
            "j; mean over the roles.",
            matrix,
        ),
        Block("Roles", "Mean over all pairs of different teams.", by_role),
        *([games] if ratings else []),
    ]


def crossplay_figures(found: CrossPlay) -> list[Figure]:
    """Return the heat map, and own against other."""
    numbers = [str(place) for place in range(1, len(found.teams) + 1)]
    heat = Panel(
        "heat", "return %, member of row in team of column", "team", pd.DataFrame(found.matrix, numbers, numbers)
    )
    bars = pd.concat([bar("own members", 0, found.own), bar("one member of another team", 1, found.other)])
    caption = (
        "Left: return of every pair of teams. Right: means, with 95 % intervals over teams. Each entry is the mean "
        "over the roles whose member comes from the team of the row."
    )
    return [Figure("cross-play", "matrix", caption, [heat, Panel("bars", "return %", "return %", bars)])]


def robustness_sentences(found: Robustness) -> list[str]:
    """Return the findings about one team in sentences."""
    sentences = [f"The intact team has a return of {_percent(found.intact)}."]
    if found.critical and (loss := found.of(SILENT, found.critical)):
        sentences.append(f"The critical role is {found.critical}: its silence loses {_points(loss.loss)}.")
    if found.dispensable:
        sentences.append(
            f"The team does not miss {', '.join(found.dispensable)}: silence loses less than {MISSED:.0f} point."
        )
    sentences += [f"No {name}: {reason}." for name, reason in found.absent.items()]
    return sentences


def loss_block(found: Robustness) -> Block:
    """Return the table of losses: a row for each change and a column for each role."""
    body: list[list[str]] = []
    for change in found.changes:
        losses = [found.of(change, role) for role in found.roles]
        body.append([change, *(cell(loss.loss, 1) if loss else "-" for loss in losses)])
    return Block(
        "Points lost, by changed role",
        "Return of the intact team minus return of the changed team, with 95 % intervals over tasks (of a single task: "
        "over episodes). All agents of a role are changed.",
        frame(["change", *found.roles], body),
    )


def robustness_blocks(found: Robustness) -> list[Block]:
    """Return the tables of losses, and of sizes if any were measured."""
    blocks = [loss_block(found)]
    if found.sizes:
        body = ([str(s.size), cell(s.trained, 1), cell(s.untrained, 1)] for s in found.sizes)
        note = (
            f"{found.option} sets the size; the team was trained with {found.trained_size}. Further agents have the "
            "policies of their kind in turn."
        )
        blocks.append(Block("Other sizes", note, frame([found.option, "return %", "untrained return %"], body)))
    return blocks


def robustness_figures(found: Robustness) -> list[Figure]:
    """Return the curve of returns by size; none if no size was measured."""
    if not found.sizes:
        return []
    x = [float(s.size) for s in found.sizes]

    def line(name: str, colour: int, values: Sequence[Interval]) -> pd.DataFrame:
        return rows(name, colour, x, [v.mean for v in values], [v.low for v in values], [v.high for v in values])

    trained = line("trained members", 0, [s.trained for s in found.sizes])
    untrained = line("untrained members", 1, [s.untrained for s in found.sizes])
    panel = Panel("lines", "return %", found.option, pd.concat([trained, untrained]))
    caption = (
        f"Return of teams of other sizes with the members of a team that was trained with {found.option} = "
        f"{found.trained_size}. Bands are 95 % intervals over tasks."
    )
    return [Figure("robustness", "sizes", caption, [panel])]


def write_partners_report(
    folder: Path,
    title: str,
    sentences: Sequence[str],
    blocks: Sequence[Block],
    figures: Sequence[Figure],
    entries: Sequence[CellRecord],
) -> None:
    """Write the report into a folder.

    Args:
        folder: The folder of the run.
        title: Heading.
        sentences: The findings.
        blocks: The tables.
        figures: The figures; Markdown refers to them as PNG files.
        entries: The evaluations, whose episodes the page shows.
    """
    parts = [f"# {md.inline(title)}", "", *(f"- {md.inline(sentence)}" for sentence in sentences), ""]
    for figure in figures:
        save(figure, folder / f"{figure.name}.png")
        parts += [f"![{md.inline(figure.caption)}]({figure.name}.png)", ""]
    for block in blocks:
        parts += [f"## {block.title}", "", md.inline(block.note), "", *md.table(block.table)]
    replace(folder / "report.md", escape_controls("\n".join(parts)).encode() + b"\n")
    style, script = viewer_style() + file_of_page("report.css"), viewer_script() + file_of_page("report.js")
    packed, left_out = browsable(((entry.environment, entry.method, entry) for entry in entries), MOST)
    page = template("partners.html.j2").render(
        title=title,
        sentences=sentences,
        blocks=blocks,
        figures=[figure_values(figure) for figure in figures],
        words=(*TEXT_COLUMNS, "change", "member of", "name", "role"),
        style=style,
        script=script,
        policy=policy(style, script),
        count=len(packed),
        left_out=left_out,
        traces=packed.text(),
    )
    replace(folder / "report.html", escape_controls(page).encode())


def _percent(value: Interval) -> str:
    return f"{value.mean:.1f} %{_bounded(value)}"


def _points(value: Interval) -> str:
    return f"{value.mean:.1f} points{_bounded(value)}"


def _bounded(value: Interval) -> str:
    return f" ({bounds(value)})" if math.isfinite(value.low) else ""
