"""Print the share of tasks that each method solved, seed by seed, from files of `collect_results.py`.

    python research/solved_table.py research/data/NAME.json.xz [...]

The interval is a 95 % t interval over the seeds. With fewer than three seeds there is none.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import raw_data

from llm_dec_pomdp.evaluation.intervals import LEAST_SEEDS, mean_interval


def rows(cells: list[dict[str, Any]]) -> list[list[str]]:
    """Return a row per method and environment: method, seeds, mean, and tokens generated per episode."""
    lines: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for cell in cells:
        environment, method = cell["cell"]["environment"], cell["cell"]["method"]
        key = (environment["label"] or environment["id"], method["label"] or method["name"])
        lines.setdefault(key, {})[cell["cell"]["seed"]] = cell["summary"]
    body: list[list[str]] = []
    for (environment, method), by_seed in lines.items():
        summaries = [by_seed[seed] for seed in sorted(by_seed)]
        solved = [summary["solved"] for summary in summaries]
        over = mean_interval(solved)
        mean = f"{over.mean:.2f}"
        if len(solved) >= LEAST_SEEDS:
            mean += f" ({max(0.0, over.low):.2f} to {min(1.0, over.high):.2f})"
        tokens = sum(summary["generated_tokens"] for summary in summaries) / len(summaries)
        body.append([environment, method, ", ".join(f"{value:.2f}" for value in solved), mean, f"{tokens:.1f}"])
    return body


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    cells = [cell for path in parser.parse_args().results for cell in raw_data.read(path)]
    head = ["environment", "method", "solved by seed", "mean", "tokens per episode"]
    for row in [head, ["---"] * len(head), *rows(cells)]:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
