"""Show what trainings on tldr-v2 changed: return, informativeness, fluency and copied words, before and after.

    python research/judged_training.py research/data/writing_judged.json.xz                 # the table
    python research/judged_training.py FILE --runs v2_0 v2_1 v2_2 control_0 control_1 control_2   # collect first

The file has one row per evaluated episode. A word counts as copied if it is in a run of three words of the source.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import raw_data
from scipy import stats

SHOWN = ("return", "informativeness", "fluency", "copied", "length_ratio")


def words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return re.findall(r"\w+", text.lower())


def copied(text: str, source: str) -> float:
    """Return the percentage of words that are in a run of three words of the source."""
    mine, theirs = words(text), words(source)
    known = {tuple(theirs[i : i + 3]) for i in range(len(theirs) - 2)}
    inside = {i + k for i in range(len(mine) - 2) if tuple(mine[i : i + 3]) in known for k in range(3)}
    return 100 * len(inside) / len(mine) if mine else 0.0


def collected(run: Path) -> Iterator[dict[str, Any]]:
    """Yield the evaluated episodes of a run."""
    (folder,) = (run / "cells").iterdir()
    cell = json.loads((folder / "cell.json").read_text(encoding="utf-8"))
    for path in sorted((folder / "episodes").glob("step-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            episode = json.loads(line)
            events = episode["events"]
            texts = [e["content"] for e in events if e["type"] == "message" and e["agent"].startswith("agent_")]
            score = next(e["score"] for e in reversed(events) if "score" in e)
            yield {
                "method": cell["method"]["name"],
                "seed": cell["seed"],
                "step": int(path.stem.removeprefix("step-")),
                "task": episode["task_id"],
                "texts": texts,
                "score": score["total"],
                "return": 100 * score["total"] / 3,
                "components": score["components"],
                "copied": float(np.mean([copied(text, events[0]["content"]["prompt"]) for text in texts])),
                **{name: score["diagnostics"][name] for name in ("informativeness", "fluency", "length_ratio")},
            }


def mean(rows: Sequence[dict[str, Any]], method: str, seed: int, *, last: bool, name: str) -> float:
    """Return the mean of a number over the episodes of a run, before or after training."""
    steps = sorted({row["step"] for row in rows})
    step = steps[-1 if last else 0]
    return float(np.mean([r[name] for r in rows if (r["method"], r["seed"], r["step"]) == (method, seed, step)]))


def main() -> None:
    """Collect the episodes if runs are given, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", nargs="+", type=Path, default=[])
    arguments = parser.parse_args()
    if arguments.runs:
        raw_data.write(arguments.file, [row for run in arguments.runs for row in collected(run)])
    rows: list[dict[str, Any]] = raw_data.read(arguments.file)
    print("| method | seed |", " | ".join(SHOWN), "|\n|", "---|" * (len(SHOWN) + 2))
    gains: dict[str, list[float]] = {}
    for method in dict.fromkeys(row["method"] for row in rows):
        for seed in sorted({row["seed"] for row in rows if row["method"] == method}):
            pairs = [[mean(rows, method, seed, last=last, name=n) for last in (False, True)] for n in SHOWN]
            gains.setdefault(method, []).append(pairs[0][1] - pairs[0][0])
            print(f"| {method} | {seed} |", " | ".join(f"{a:.2f} -> {b:.2f}" for a, b in pairs), "|")
    difference = np.subtract(*gains.values())
    low, high = stats.t.interval(0.95, len(difference) - 1, difference.mean(), stats.sem(difference))
    p = stats.ttest_1samp(difference, 0).pvalue
    print(f"\nminus the control: {difference.mean():.1f} points ({low:.1f} to {high:.1f}), p = {p:.3f}")


if __name__ == "__main__":
    main()
