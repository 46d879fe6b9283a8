"""Draw docs/architecture.svg: the core, its rings and the direction of imports, with the lines of Python in each box.

    python scripts/draw_architecture.py

The heart (green) is the path that a maintainer reads first: contract, rollout, credit, updater and loop.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "llm_dec_pomdp"
WIDTH, HEIGHT = 980, 560
HEART, CORE, RING, OUTSIDE = "#d5efd9", "#dfe9f7", "#f6ead2", "#eeeeee"
CONTRACT = ("base", "task", "text_task", "episode", "facts", "tasks", "streams", "registration", "turn_rewards")

# (name, contents, patterns of files below the package, x, y, width, colour)
BOXES = [
    ("cli, api", "commands and functions", ("cli/**/*.py", "api.py"), 260, 40, 460, CORE),
    ("report, results", "tables, figures, pages", ("report/**/*.py", "results/**/*.py"), 260, 100, 225, CORE),
    ("benchmarks", "suites, cells", ("benchmarks/**/*.py",), 495, 100, 225, CORE),
    ("evaluation", "measuring a team", ("evaluation/**/*.py",), 495, 160, 225, CORE),
    ("training", "loop, checkpoints, workers", ("training/**/*.py",), 260, 160, 225, HEART),
    ("algorithms", "credit, updater, learners", ("algorithms/**/*.py",), 260, 220, 460, HEART),
    ("rollout", "how tasks are played", ("rollout/**/*.py",), 260, 280, 225, HEART),
    ("episodes", "the record of an episode", ("episodes/**/*.py",), 495, 280, 225, CORE),
    ("agents", "policies, language models", ("agents/**/*.py",), 495, 340, 225, CORE),
    ("envs: contract", "TextDecPOMDP, Task", tuple(f"envs/{name}.py" for name in CONTRACT), 260, 340, 225, HEART),
    ("envs: tasks", "writing, code, tools, wrappers", ("envs/**/*.py",), 260, 400, 225, CORE),
    ("leaves, storage", "types, options, files", ("*.py", "storage/**/*.py"), 495, 400, 225, CORE),
    ("sandbox", "judge of generated code", ("sandbox/*.py",), 260, 470, 460, RING),
    ("contrib", "families with lower promises", ("contrib/**/*.py",), 20, 340, 200, RING),
    ("integrations", "adapters of libraries", ("integrations/**/*.py",), 760, 280, 200, RING),
    ("serving", "environments over HTTP", ("serving/**/*.py",), 760, 340, 200, RING),
    ("examples", "short programs", ("../examples/**/*.py",), 20, 100, 200, OUTSIDE),
    ("research", "published measurements", ("../research/**/*.py",), 20, 160, 200, OUTSIDE),
]
ARROWS = [
    *(((220, y), (241, y)) for y in (124, 184, 364)),
    *(((760, y), (739, y)) for y in (304, 364)),
    ((490, 456), (490, 469)),
]


def lines_of(patterns: tuple[str, ...], counted: set[Path]) -> int:
    """Count the lines of the files that are in no earlier box."""
    files = {path for pattern in patterns for path in PACKAGE.glob(pattern)} - counted
    counted |= files
    return sum(path.read_text(encoding="utf-8").count("\n") for path in files)


def main() -> None:
    """Write the figure."""
    counted: set[Path] = set()
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff"/>',
        '<rect x="242" y="22" width="496" height="434" rx="10" fill="none" stroke="#7a96bd" stroke-dasharray="5 4"/>',
        '<text x="490" y="16" font-size="13" text-anchor="middle" fill="#456">the core: imports go down</text>',
    ]
    for name, about, patterns, x, y, width, colour in BOXES:
        count = f"{lines_of(patterns, counted):,} lines"
        parts += [
            f'<rect x="{x}" y="{y}" width="{width}" height="48" rx="5" fill="{colour}" stroke="#8a8a8a"/>',
            f'<text x="{x + 10}" y="{y + 20}" font-size="14" font-weight="bold">{escape(name)}</text>',
            f'<text x="{x + width - 10}" y="{y + 20}" font-size="11" text-anchor="end" fill="#555">{count}</text>',
            f'<text x="{x + 10}" y="{y + 38}" font-size="12" fill="#333">{escape(about)}</text>',
        ]
    for (x, y), (to_x, to_y) in ARROWS:
        parts.append(f'<path d="M{x} {y} {to_x} {to_y}" stroke="#555" marker-end="url(#head)"/>')
    legend = [(HEART, "the heart"), (CORE, "core"), (RING, "ring"), (OUTSIDE, "outside of the package")]
    for place, (colour, label) in enumerate(legend):
        x = 260 + place * 110
        parts.append(f'<rect x="{x}" y="533" width="14" height="14" fill="{colour}" stroke="#8a8a8a"/>')
        parts.append(f'<text x="{x + 20}" y="545" font-size="12">{label}</text>')
    (ROOT / "docs" / "architecture.svg").write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
