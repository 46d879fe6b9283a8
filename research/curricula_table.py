"""Print returns of curricula, and differences to training with all turns at equal episodes and completions.

    python research/curricula_table.py research/data/curricula.json.xz

Completions of a run are those up to an evaluation. Returns between evaluations are interpolated linearly. Differences
are paired by seed, with t intervals over the seeds, and Holm-corrected over the rows of an environment.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import raw_data
from compare_results import ALL_TASKS, methods, over_seeds

from llm_dec_pomdp.evaluation.comparisons import difference
from llm_dec_pomdp.evaluation.intervals import holm
from llm_dec_pomdp.report.findings import verdict
from llm_dec_pomdp.report.tables import bounds, p_value

BASE = "all turns"
Run = Mapping[str, Any]


def at(run: Run, what: str, value: float) -> float:
    """Return the return in % at a number of updates ("step") or of completions ("generations")."""
    curve = run["curve"]
    return float(np.interp(value, [p[what] for p in curve], [p["return_percent"]["mean"] for p in curve]))


def pair(run: Run, base: Run, what: str) -> tuple[float, float]:
    """Return the returns of two runs of a seed where the one that is shorter, by updates or completions, ends."""
    shared = min(run["curve"][-1][what], base["curve"][-1][what])
    return at(run, what, shared), at(base, what, shared)


def main() -> None:
    """Print both tables."""
    found = methods(raw_data.read(Path(sys.argv[1])))
    print("| environment | method | before, % | after equal episodes, % | by seed | completions, thousands |")
    print("|---" * 6 + "|")
    for environment, by_method in found.items():
        steps = min(run["curve"][-1]["step"] for runs in by_method.values() for run in runs.values())
        for method, runs in by_method.items():
            before, after = ([at(run, "step", step) for run in runs.values()] for step in (0, steps))
            spent = np.mean(
                [next(p for p in run["curve"] if p["step"] == steps)["generations"] for run in runs.values()]
            )
            each = ", ".join(f"{seed}: {value:.1f}" for seed, value in zip(runs, after, strict=True))
            returns = f"{over_seeds(before)} | {over_seeds(after)}"
            print(f"| {environment} | {method} | {returns} | {each} | {spent / 1000:.1f} |")
    print("\n| environment | difference | at equal | points | p, Holm | verdict |\n" + "|---" * 6 + "|")
    for environment, by_method in found.items():
        rows: list[tuple[str, str, Any]] = []
        for method, runs in by_method.items():
            for what, unit in (("step", "episodes"), ("generations", "completions")) if method != BASE else ():
                pairs = {seed: pair(run, by_method[BASE][seed], what) for seed, run in runs.items()}
                own, base = ({seed: {ALL_TASKS: both[side]} for seed, both in pairs.items()} for side in (0, 1))
                rows.append((method, unit, difference(own, base)))
        for (method, unit, points), p in zip(rows, holm([points.p for *_, points in rows]), strict=True):
            shown = f"{points.mean:+.1f} ({bounds(points, '+')})"
            print(f"| {environment} | {method} - {BASE} | {unit} | {shown} | {p_value(p)} | {verdict(points, p)} |")


if __name__ == "__main__":
    main()
