"""Draw docs/team.svg: two agents at a task of tldr-v0, their observations and actions, and their reward.

    python scripts/draw_team.py

The script runs the first example of README.md and draws its texts. All words are on boxes, so that the picture can be
read on light and dark pages. A test fails when the picture is out of date.
"""

from __future__ import annotations

import re
import runpy
import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "team.svg"
WIDTH, HALF, LINE = 720, 352, 21
INK, BOX = "#1c2733", "#ffffff"
AGENTS = {"agent_0": "#cfe3fb", "agent_1": "#fbe3c4"}  # fill of the card of each
GREY, DARK, GREEN = "#7d8794", "#2f3b4a", "#1f7a4d"
BOLD = ' font-weight="bold"'


def example() -> dict[str, Any]:
    """Run the first example of README.md and return its variables."""
    [code, *_] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "example.py"
        path.write_text(code, encoding="utf-8")
        return runpy.run_path(str(path))


def words(lines: Sequence[str], x: int, y: int, fill: str = INK, style: str = "") -> str:
    """Return SVG of lines of text below each other, the first at y."""
    return "\n".join(
        f'<text x="{x}" y="{y + number * LINE}" fill="{fill}"{style}>{escape(line)}</text>'
        for number, line in enumerate(lines)
    )


def box(x: int, y: int, width: int, height: int, fill: str) -> str:
    """Return SVG of a rectangle with round corners."""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="10" fill="{fill}"/>'


def arrow(x: int, y: int, height: int) -> str:
    """Return SVG of an arrow that points down."""
    end = y + height
    return (
        f'<path d="M{x} {y}V{end - 8}" stroke="{GREY}" stroke-width="3"/>'
        f'<path d="M{x - 8} {end - 11}h16l-8 11z" fill="{GREY}"/>'
    )


def card(x: int, y: int, who: str, observed: str, text: str, fill: str, lines: int) -> str:
    """Return SVG of an agent: its observation on a coloured box, its action on white."""
    asked = textwrap.wrap(f"observes the post and “{observed}”", 40)
    answer = textwrap.wrap(text, 40)
    top = y + 38 + 3 * LINE
    return "\n".join(
        [
            box(x, y, HALF, 60 + (3 + lines) * LINE, fill),
            words([who], x + 14, y + 27, style=BOLD),
            words(asked, x + 14, y + 27 + LINE),
            box(x + 8, top, HALF - 16, lines * LINE + 14, BOX),
            words(answer, x + 18, top + 22),
        ]
    )


def draw() -> str:
    """Return the picture as SVG."""
    played = example()
    env, texts = played["env"], played["texts"]
    observed = {agent: env.observe(env.item, agent).strip().splitlines()[-1] for agent in AGENTS}
    post = [line.split(": ", 1)[1] for line in env.item.prompt.splitlines() if line.startswith(("TITLE", "POST"))]
    beginning = textwrap.shorten(". ".join(post), 170, placeholder=" ...")
    lines = max(len(textwrap.wrap(texts[agent], 40)) for agent in AGENTS)
    cards = 112
    bottom = cards + 60 + (3 + lines) * LINE
    parts = {name: played["infos"]["agent_0"][f"reward/{name}"] for name in env.facts.components}
    total = " + ".join(f"{name} {value:.2f}" for name, value in parts.items())
    shapes = [
        box(0, 0, WIDTH, 76, DARK),
        words(["A task: a forum post"], 16, 25, "#ffffff", BOLD),
        words(textwrap.wrap(beginning, 86), 16, 25 + LINE, "#e8edf3"),
    ]
    for x, (agent, fill) in zip((0, WIDTH - HALF), AGENTS.items(), strict=True):
        who = f"{agent}: {env.role(agent)}"
        shapes += [
            arrow(x + HALF // 2, 78, cards - 80),
            card(x, cards, who, observed[agent], texts[agent], fill, lines),
            arrow(x + HALF // 2, bottom + 2, 32),
        ]
    shapes += [
        box(0, bottom + 36, WIDTH, 74, GREEN),
        words([f"One reward for both agents: {sum(parts.values()):.2f} of 3"], 16, bottom + 63, "#ffffff", BOLD),
        words([total], 16, bottom + 63 + LINE + 3, "#e3f4ea"),
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 110}" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="15">\n'
        "<title>Two agents observe a post; each writes a text; both receive one reward</title>"
    )
    return "\n".join([head, *shapes, "</svg>\n"])


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
