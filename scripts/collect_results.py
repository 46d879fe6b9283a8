"""Boil run folders down to what a results page shows: one JSON file and a Markdown table.

    python scripts/collect_results.py RUN [RUN ...] --out docs/results/NAME.json [--also tldr-v1] [--samples 2]

RUN is the folder of a `bench` or a `train`; cells that are not done are left out. `--also` scores the final texts under
another environment with the same tasks and roles, beside the reward they were trained for.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llm_dec_pomdp.benchmarks.intervals import Interval, mean_interval
from llm_dec_pomdp.benchmarks.runs import Entry, read_run
from llm_dec_pomdp.benchmarks.setup import build_env
from llm_dec_pomdp.storage.runfolder import finite, read_lines

CURVE = ("step", "return_percent", "components", "distinct_2", "truncated")
COSTS = ("generations", "joint_rewards")  # of the metrics of an update


def boiled(entry: Entry, also: str | None, samples: int) -> dict[str, Any]:
    """What is kept of a cell: configuration, summary, curve, training returns, return of every task, some episodes."""
    assert entry.result is not None
    steps = read_lines(entry.folder / "train.jsonl") if (entry.folder / "train.jsonl").exists() else []
    kept: dict[str, Any] = {
        "cell": without_folders(entry.cell.to_dict()),
        "summary": dataclasses.asdict(entry.result.summary),
        "train_seconds": entry.result.train_seconds,
        "curve": [{name: point[name] for name in CURVE} | spent(steps, point["step"]) for point in entry.curve()],
        "training_return_percent": [round(step["return_percent"], 2) for step in steps],
        "returns": {task: round(value, 4) for task, value in entry.returns().items()},
        "samples": [said(episode) for episode in list(entry.episodes())[:samples]],
    }
    if also is not None:
        kept["also"] = {"environment": also, **rescored(entry, also)}
    return kept


def spent(steps: Sequence[dict[str, Any]], updates: int) -> dict[str, float]:
    """What the first updates cost: seconds, and what the learner says; 0 of stages that do not say."""
    known = [name for name in COSTS if steps and name in steps[-1]["metrics"]]
    seconds = sum(step["seconds_rollout"] + step["seconds_update"] for step in steps[:updates])
    return {"seconds": seconds, **{name: sum(s["metrics"].get(name, 0) for s in steps[:updates]) for name in known}}


def without_folders(value: Any) -> Any:
    """Plain values in which files have their name and not their place on this machine."""
    if isinstance(value, dict):
        return {key: without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_folders(inner) for inner in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def said(episode: dict[str, Any]) -> dict[str, Any]:
    """What the agents said and what it earned; what they were told belongs to the task set."""
    turns = [{name: turn[name] for name in ("actions", "reward", "components")} for turn in episode["turns"]]
    return {"task": episode["task"], "return": episode["return"], "turns": turns}


def rescored(entry: Entry, also: str) -> dict[str, Any]:
    """The final texts under another environment: return in % of its maximum, and means of parts and diagnostics."""
    other = entry.cell.environment.model_copy(update={"id": also})
    env = build_env(dataclasses.replace(entry.cell, environment=other), "parallel", evaluation=True)
    items = {item.id: item for item in env.items}
    by_task: dict[str, list[float]] = {}
    parts: list[dict[str, float]] = []
    for episode in entry.episodes():
        score = env.score(items[episode["task"]], episode["turns"][-1]["actions"])  # type: ignore[attr-defined]
        by_task.setdefault(episode["task"], []).append(100 * score.total / env.score_range[1])
        parts.append({**score.components, **score.diagnostics})
    return {
        "return_percent": dataclasses.asdict(mean_interval([sum(found) / len(found) for found in by_task.values()])),
        "means": {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]},
    }


def shown(interval: Interval | dict[str, Any]) -> str:
    """An interval as text, over one task the mean alone."""
    values = interval if isinstance(interval, dict) else dataclasses.asdict(interval)
    if values["low"] is None:
        return f"{values['mean']:.1f} %"
    return f"{values['mean']:.1f} % ({values['low']:.1f}-{values['high']:.1f})"


def table(cells: Sequence[dict[str, Any]]) -> str:
    """One row per cell."""
    lines = ["| method | environment | seed | start | end | distinct-2 | also |", "|---|---|---|---|---|---|---|"]
    for cell in cells:
        method, environment = cell["cell"]["method"], cell["cell"]["environment"]
        start = shown(cell["curve"][0]["return_percent"]) if cell["curve"] else ""
        also = f"{cell['also']['environment']} {shown(cell['also']['return_percent'])}" if "also" in cell else ""
        distinct = [cell["curve"][0]["distinct_2"]] if cell["curve"] else []
        distinct.append(cell["summary"]["distinct_2"])
        lines.append(
            f"| {method['label'] or method['name']} | {environment['label'] or environment['id']} | "
            f"{cell['cell']['seed']} | {start} | {shown(cell['summary']['return_percent'])} | "
            f"{' -> '.join('-' if value is None else f'{value:.3f}' for value in distinct)} | {also} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Collect, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--also", help="id of an environment to score the final texts under")
    parser.add_argument("--samples", type=int, default=2, help="episodes to keep of every cell")
    arguments = parser.parse_args()
    entries = [entry for run in arguments.runs for entry in read_run(run).entries if entry.result is not None]
    cells = finite([boiled(entry, arguments.also, arguments.samples) for entry in entries])
    arguments.out.write_text(json.dumps(cells, indent=1) + "\n", encoding="utf-8")
    print(table(cells))


if __name__ == "__main__":
    main()
