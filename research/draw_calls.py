"""Draw and tabulate the result of training with each reward of calls-v0, scored by all three rewards.

    python research/draw_calls.py research/data/calls.json.xz [...] --out docs/results/calls.png

The figure shows the shares of correct requests, user turns and calls over the updates, a colour for each training
reward. Lines are means and bands ranges of the seeds. Shuffled-reward controls are dashed.
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

REWARDS = ("outcome %", "process %", "call %")
DRAWN = {"calls-v0 outcome": "C0", "calls-v0 process": "C1", "calls-v0 call": "C2"}


def means(measured: Mapping[str, Any]) -> dict[str, float]:
    """Return the measured means by name."""
    return {name: value["mean"] for section in measured.values() for name, value in section.items()}


def draw(groups: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]], out: Path) -> None:
    """Draw a panel for each reward."""
    mpl.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, len(REWARDS), figsize=(10, 4), layout="constrained", sharey=True)
    for (environment, method), rows in groups.items():
        if environment not in DRAWN:
            continue
        style = {"color": DRAWN[environment], "linestyle": "--" if method == "control" else "-"}
        label = f"trained on {environment.split()[-1]}{', control' if method == 'control' else ''}"
        steps = [point["step"] for point in rows[0]["curve"]]
        for axis, name in zip(axes, REWARDS, strict=True):
            seeds = np.array([[means(point["measured"])[name] for point in row["curve"]] for row in rows])
            axis.plot(steps, seeds.mean(0), label=label, **style)
            if method != "control":
                axis.fill_between(steps, seeds.min(0), seeds.max(0), color=style["color"], alpha=0.12)
            axis.set(title=f"scored by {name.split()[0]}", xlabel="update", ylim=(-2, 102))
    axes[0].set(ylabel="%")
    figure.legend(handles=axes[0].get_lines(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(out, dpi=110)


def main() -> None:
    """Print the table, and draw the figure if a file is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for path in options.results:
        for row in raw_data.read(path):
            groups.setdefault((title_of(row, "environment"), title_of(row, "method")), []).append(row)
    columns = (*REWARDS, "calls", "repeated %")
    print(f"| environment | team | seeds | before: return % | return % | {' | '.join(columns)} |")
    print(f"|{'---|' * (5 + len(columns))}")
    for (environment, method), rows in groups.items():
        measured = [means(row["summary"]["measured"]) for row in rows]
        first = shown([row["curve"][0]["return_percent"]["mean"] for row in rows], 1)
        earned = shown([row["summary"]["return_percent"]["mean"] for row in rows], 1)
        found = [shown([m[name] for m in measured], 1) if name in measured[0] else "" for name in columns]
        print(f"| {environment} | {method} | {len(rows)} | {first} | {earned} | {' | '.join(found)} |")
    if options.out:
        draw(groups, options.out)


if __name__ == "__main__":
    main()
