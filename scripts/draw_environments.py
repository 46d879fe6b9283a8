"""Draw the figures of docs/environments: an episode of each task, and the returns of teams.

    python scripts/draw_environments.py [NAME ...]

bfcl is only drawn if it is named, since its rows are not part of the package.

Text is grey, fills are light and the background is transparent, so that figures are legible on light and dark pages.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from environment_pages import DOCS, FAMILIES, played, some
from environment_returns import Reached, reached
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

FIGURES = DOCS / "environments" / "figures"
GREY, BLUE, ORANGE, GREEN = "#808080", "#4c8bc9", "#d08a3c", "#3f9a6b"
WIDTH, LANE, LABEL = (
    255,
    24,
    62,
)  # points: of a card, the height of a lane, and the least place for the name of its agent
FONT = 8.5
LETTER = 0.52 * FONT  # mean width of a letter


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure and its axes, with points as units and y downwards."""
    figure = Figure(figsize=(width / 72, height / 72))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return figure, axes


def draw_episode(name: str) -> Figure:
    """Draw a lane for every agent with its actions, turn by turn."""
    env, _, episode = played(name)
    drawn = list(some(episode.turns).values())
    colours: dict[str, str] = {}
    agents = list(dict.fromkeys(agent for turn in drawn for agent in turn.actions))
    figure, axes = canvas(WIDTH, LANE * len(agents) + 4)
    label = max(LABEL, *(len(env.role(agent)) * LETTER + 6 for agent in agents))
    column = (WIDTH - label) / len(drawn)
    for row, agent in enumerate(agents):
        y = LANE * row + LANE / 2 + 2
        colour = colours.setdefault(env.role(agent), (BLUE, ORANGE, GREEN)[len(colours) % 3])
        axes.text(0, y, env.role(agent), color=GREY, fontsize=FONT, va="center")
        turns = [number for number, turn in enumerate(drawn) if agent in turn.actions]
        end = label  # right end of the drawn part of the lane
        for turn, after in zip(turns, [*turns[1:], len(drawn)], strict=True):
            text = " ".join(drawn[turn].actions[agent].text.split())
            x = label + turn * column
            axes.plot([end, x], [y, y], color=GREY, alpha=0.35, linewidth=0.8)
            end = x + min(column * (after - turn), max(column, len(text) * LETTER + 10))
            _box(axes, x, y, end - x - 4, text, colour)
        axes.plot([end, WIDTH], [y, y], color=GREY, alpha=0.35, linewidth=0.8)
    return figure


def _box(axes: Axes, x: float, y: float, width: float, text: str, colour: str) -> None:
    height = LANE - 8
    corners = {"boxstyle": "round,pad=0,rounding_size=3", "edgecolor": colour, "linewidth": 0.8}
    axes.add_patch(FancyBboxPatch((x, y - height / 2), width, height, facecolor=to_rgba(colour, 0.13), **corners))
    fits = max(1, int((width - 6) / LETTER))
    shown = text if len(text) <= fits else f"{text[: fits - 1].rstrip()}…"
    axes.text(x + 4, y, shown, color=GREY, fontsize=FONT, va="center", parse_math=False)


def draw_returns(bars: Sequence[Reached]) -> Figure:
    """Draw a bar for the mean of every team, and a point for every seed."""
    width, label, row = 340, 152, 20
    figure, axes = canvas(width, row * len(bars) + 4)
    most = 100.0 if bars[0].unit == "%" else max(0.01, *(max(bar.values) for bar in bars))
    unit = (width - label - 42) / most
    for number, bar in enumerate(bars):
        y = row * number + row / 2 + 2
        colour = GREEN if bar.team.startswith("script:") else BLUE
        axes.text(label - 6, y, bar.team, color=GREY, fontsize=FONT, va="center", ha="right")
        axes.barh(y, max(0.0, bar.mean) * unit, height=row - 7, left=label, color=colour, alpha=0.55)
        seeds = [label + max(0.0, value) * unit for value in bar.values] if len(bar.values) > 1 else []
        axes.plot(seeds, [y] * len(seeds), ".", color=GREY, markersize=4)
        end = label + max([0.0, *bar.values]) * unit
        axes.text(end + 6, y, bar.shown, color=GREY, fontsize=FONT, va="center")
    axes.plot([label, label], [0, row * len(bars) + 4], color=GREY, linewidth=0.8)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure without a date and with fixed ids, so that equal figures are equal files."""
    with mpl.rc_context({"svg.hashsalt": path.name, "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
    print(f"wrote docs/{path.relative_to(DOCS)}")


def main() -> None:
    """Draw the named environments, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[name for names in FAMILIES.values() for name in names])
    for name in parser.parse_args().names:
        save(draw_episode(name), FIGURES / f"{name}.svg")
        save(draw_returns(reached(name)), FIGURES / f"{name}_returns.svg")


if __name__ == "__main__":
    main()
