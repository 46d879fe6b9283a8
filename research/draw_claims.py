"""Draw and tabulate the measurements of papers' claims.

    python research/draw_claims.py research/data/claims.json.xz --out docs/results/claims.svg

Panels in reading order:

- return of M-GRPO on research-v0 over sampled completions;
- return of a writer on memory-v0 by the size of the memory;
- cooperation schemes on code after training;
- tests and programs that pass, by the number of modules.

Lines and bars are means, bands are ranges, and dots are seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import raw_data
from draw_planning import shown, title_of
from matplotlib import pyplot as plt

JOINT = {"joint": "C0", "main only": "C1", "single": "C2", "control": "C7"}
COLOURS = {"magrpo": "C0", "control": "C7"}
SCHEMES = {"fallback": "C1", "coordinator": "C0"}
LEARNERS = {"coophumaneval-v0": ("control", "iac", "marloo", "magrpo"), "coophumaneval-v1": ("control", "magrpo")}
BY_MODULES = {
    "team": ("", "magrpo", "C0"),
    "one author": (", one author", "magrpo", "C2"),
    "control": ("", "control", "C7"),
}
Groups = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]


def curve(rows: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Return sampled completions in thousands, mean of the seeds, and returns of shape (seeds, points)."""
    points = [row["curve"] for row in rows]
    texts = np.array([[point["generations"] for point in of] for of in points]).mean(0) / 1000
    return texts, np.array([[point["return_percent"]["mean"] for point in of] for of in points])


def draw(groups: Groups, out: Path) -> None:
    """Draw the four panels."""
    mpl.rcParams.update(
        {"font.size": 10, "svg.hashsalt": "claims", "axes.spines.top": False, "axes.spines.right": False}
    )
    figure, panels = plt.subplots(2, 2, figsize=(10, 7), layout="constrained", sharey=True)
    left, middle, right, last = panels.flat
    for method, colour in JOINT.items():
        texts, returns = curve(groups["research-v0", method])
        left.plot(texts, returns.mean(0), color=colour, label=method, linestyle="--" if method == "control" else "-")
        left.fill_between(texts, returns.min(0), returns.max(0), color=colour, alpha=0.12)
    left.set(title="research-v0", xlabel="thousand sampled completions", ylabel="return %", ylim=(-2, 102))
    left.legend(fontsize=9)
    sizes = [environment for environment, method in groups if "note" in environment and method == "magrpo"]
    for method, colour in COLOURS.items():
        earned = [[row["summary"]["return_percent"]["mean"] for row in groups[size, method]] for size in sizes]
        for place, values in enumerate(earned):
            middle.scatter([place] * len(values), values, color=colour, s=14)
        middle.plot([float(np.mean(values)) for values in earned], color=colour, label=method)
    middle.set(title="memory-v0", xticks=range(len(sizes)), xticklabels=sizes)
    middle.legend(fontsize=9)
    teams = [(environment, method) for environment, methods in LEARNERS.items() for method in methods]
    for offset, (scheme, colour) in zip((-0.2, 0.2), SCHEMES.items(), strict=True):
        for place, team in enumerate(teams):
            shares = [100 * row["summary"]["measured"]["schemes"][scheme]["mean"] for row in groups[team]]
            right.bar(place + offset, np.mean(shares), 0.4, color=colour, label="" if place else scheme)
            right.scatter([place + offset] * len(shares), shares, color="k", s=6, zorder=3)
    names = [f"{method}\n{environment[-2:]}" for environment, method in teams]
    right.set(title="schemes on coophumaneval, % of episodes", xticks=range(len(teams)), xticklabels=names)
    right.tick_params(axis="x", labelsize=9)
    right.legend(fontsize=9, loc="upper right")
    for who, (ending, method, colour) in BY_MODULES.items():
        rows_of = {n: groups.get((f"{n} modules{ending}", method), []) for n in range(3, 7)}
        for name, line in {"tests %": "-", "all tests %": "--"}.items():
            shares = {
                n: [row["summary"]["measured"][f"{n} modules"][name]["mean"] for row in rows]
                for n, rows in rows_of.items()
                if rows
            }
            label = who if line == "-" else ""
            means = [np.mean(found) for found in shares.values()]
            last.plot([*shares], means, line, color=colour, label=label)
            for n, found in shares.items():
                last.scatter([n] * len(found), found, color=colour, s=8)
    last.set(title="modules-v0, % that pass", xticks=range(3, 7), xlabel="modules", xlim=(2.8, 8.4))
    last.legend(fontsize=9, loc="center right", title="tests, dashed: programs", title_fontsize=9)
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)


def main() -> None:
    """Print the table, and draw the figure if a file is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in raw_data.read(options.results):
        groups.setdefault((title_of(row, "environment"), title_of(row, "method")), []).append(row)
    print(
        "| environment | method | before, % | after, % | by seed | completions, thousands |\n|---|---|---|---|---|---|"
    )
    for (environment, method), rows in groups.items():
        texts, returns = curve(rows)
        by_seed = ", ".join(
            f"{row['cell']['seed']}: {value:.1f}" for row, value in zip(rows, returns[:, -1], strict=True)
        )
        before, after = (shown(list(returns[:, place]), 1) for place in (0, -1))
        print(f"| {environment} | {method} | {before} | {after} | {by_seed} | {texts[-1]:.1f} |")
    if options.out:
        draw(groups, options.out)


if __name__ == "__main__":
    main()
