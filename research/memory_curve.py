"""Measure the share of a conversation that a memory keeps: baselines of memory-v0 by number of notes.

    python research/memory_curve.py [--out docs/results/memory.png]

A question counts as kept if a correct answer is in the notes when the reader is asked, which bounds every reader. Rows
are the 100 test questions and, if `bfcl-eval` is installed, the 155 of BFCL v4, whose facts `script:gold` does not
find. Prints a table in Markdown.

Writers:

- `gold` is `script:gold`;
- `first` keeps whole pieces until the notes are full;
- `last` keeps every piece, so that the last ones remain;
- `random` replaces a random note with every second piece.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from llm_dec_pomdp import make
from llm_dec_pomdp.contrib.calls.published import installed, memory_rows
from llm_dec_pomdp.contrib.memory.memory import KEEP, SKIP
from llm_dec_pomdp.seeding import derive

SIZES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200)  # notes


def count_notes(observation: str) -> int:
    """Return the number of notes that a writer observes."""
    return len(re.findall(r"^\d+\. ", observation, re.MULTILINE))


def random_writer(observation: str, notes: int) -> str:
    """Return the action of a writer that replaces a random note with every second piece, seeded by the text."""
    label = derive(0, observation)
    if count_notes(observation) < notes:
        return KEEP
    return SKIP if label % 2 else f"forget: {1 + label // 2 % notes}\n{KEEP}"


WRITERS: Mapping[str, Callable[[str, int], str]] = {  # action from the observation and the number of notes
    "first": lambda observation, notes: KEEP if count_notes(observation) < notes else SKIP,
    "last": lambda observation, notes: KEEP,
    "random": random_writer,
}


def kept(env: Any, team: str) -> float:
    """Return the share of questions in % whose answer is in the final notes of a deterministic team."""
    script, found = env.script("gold"), list[float]()

    def write() -> str:
        history = env.history("agent_0")
        return WRITERS[team](history[-1].text, env.notes) if team in WRITERS else script("agent_0", history)

    by_pieces: dict[str, Any] = {}
    for item in env.items:
        if item.fields["pieces"] not in by_pieces:
            env.reset(options={"task_id": item.id})
            while not env.asked("agent_1"):
                env.step({"agent_0": write(), "agent_1": ""})
            by_pieces[item.fields["pieces"]] = env.latest.transition.state
        found.append(env._score(by_pieces[item.fields["pieces"]]._replace(item=item), 0.0).diagnostics["kept"])
    return 100 * fmean(found)


def main() -> None:
    """Play, draw the figure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: dict[str, tuple[Any, tuple[str, ...]]] = {
        "generated": ({"split": "test"}, ("gold", "random", "first", "last"))
    }
    if installed():
        rows["BFCL v4"] = ({"tasks": memory_rows(), "split": "all"}, ("random", "first", "last"))
    mpl.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, len(rows), figsize=(5.5 * len(rows), 3.4), layout="constrained", squeeze=False)
    for axis, (name, (arguments, teams)) in zip(axes[0], rows.items(), strict=True):
        longest = max(len(item.fields["pieces"].splitlines()) for item in make("memory-v0", **arguments).items)
        sizes = [size for size in SIZES if size < longest] + [longest]
        print(f"\n| questions kept, {name}, % | {' | '.join(map(str, sizes))} |\n|---|{'---|' * len(sizes)}")
        for team in teams:
            values = [kept(make("memory-v0", notes=size, **arguments), team) for size in sizes]
            axis.plot(sizes, values, ".-", label=team)
            print(f"| {team} | {' | '.join(f'{value:.0f}' for value in values)} |", flush=True)
        labels = {"xlabel": "notes of 300 characters", "ylabel": "questions kept, %"}
        axis.set(title=f"{name}: {longest} pieces", xscale="log", ylim=(0, 105), **labels)
        axis.legend(fontsize=8)
    if options.out:
        figure.savefig(options.out, dpi=90)


if __name__ == "__main__":
    main()
