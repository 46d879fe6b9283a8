"""Collect run folders into one file of raw data, and print a Markdown table.

    python research/collect_results.py RUN [RUN ...] --out research/data/NAME.json.xz [--samples 2]

RUN is the folder of a `bench` or a `train`. Runs without a result are left out. The file also has the scores of
`llm-dec-pomdp rescore RUN ENV`, which scores the same actions in other environments.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import raw_data

from llm_dec_pomdp.results.runs import CellRecord, read_run
from llm_dec_pomdp.storage.runfolder import finite, read_lines
from llm_dec_pomdp.types import Episode

CURVE = ("step", "return_percent", "components", "distinct_2", "truncated", "measured")
COSTS = ("generations", "joint_rewards")  # metrics of an update whose sums are kept at each evaluation
DIVERGENCE = "reverse_kl"  # metric of `distil` that is kept for each update


def boiled(entry: CellRecord, samples: int) -> dict[str, Any]:
    """Return the data of a run: configuration, summary, curve, training returns, returns of tasks, some episodes."""
    assert entry.result is not None
    steps = read_lines(entry.folder / "train.jsonl") if (entry.folder / "train.jsonl").exists() else []
    kept: dict[str, Any] = {
        "cell": without_folders(entry.cell.to_dict()),
        "summary": dataclasses.asdict(entry.result.summary),
        "train_seconds": entry.result.train_seconds,
        "curve": [
            {name: point[name] for name in CURVE if name in point} | spent(steps, point["step"])
            for point in read_lines(entry.folder / "curve.jsonl")  # with all metrics
            if point["return_percent"]["mean"] is not None
        ],
        "training_return_percent": [round(step["return_percent"], 2) for step in steps],
        "returns": {task: round(value, 4) for task, value in entry.returns().items()},
        "samples": [sample_of(episode) for episode in entry.episodes()[:samples]],
    }
    if steps and DIVERGENCE in steps[0]["metrics"]:
        kept[DIVERGENCE] = [round(step["metrics"][DIVERGENCE], 4) for step in steps]
    return kept | ({"rescored": others} if (others := rescored(entry.folder)) else {})


def spent(steps: Sequence[dict[str, Any]], updates: int) -> dict[str, float]:
    """Return the cost of the first updates: seconds and the counters of the learner; 0 if a step lacks a counter."""
    known = [name for name in COSTS if steps and name in steps[-1]["metrics"]]
    seconds = sum(step["seconds_rollout"] + step["seconds_update"] for step in steps[:updates])
    return {"seconds": seconds, **{name: sum(s["metrics"].get(name, 0) for s in steps[:updates]) for name in known}}


def without_folders(value: Any) -> Any:
    """Return plain values with the names of files instead of their paths on this machine."""
    if isinstance(value, dict):
        return {key: without_folders(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_folders(inner) for inner in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def sample_of(episode: Episode) -> dict[str, Any]:
    """Return the actions and the return of an episode; observations are part of the task set and left out."""
    turns = [
        {
            "actions": {agent: written.text for agent, written in turn.actions.items()},
            "reward": turn.reward,
            "components": dict(turn.score.components) if turn.score else None,
        }
        for turn in episode.turns
    ]
    return {"task": episode.item_id, "return": episode.total, "turns": turns}


def rescored(folder: Path) -> list[dict[str, Any]]:
    """Return the results of `llm-dec-pomdp rescore` for a run: the same actions in other environments."""
    kept: list[dict[str, Any]] = []
    for path in sorted(folder.parents[1].glob("rescored-*.json")):
        for cell in json.loads(path.read_text(encoding="utf-8")):
            if cell["cell"] == folder.name:
                after = {name: cell["after"][name] for name in ("return_percent", "components")}
                judge = {"judge": cell["judge"]} if cell["judge"] else {}
                kept.append({"environment": cell["env_id"], **judge, **after})
    return kept


def shown(values: dict[str, Any]) -> str:
    """Return an interval as text, or only the mean if there is one task."""
    if values["low"] is None:
        return f"{values['mean']:.1f} %"
    return f"{values['mean']:.1f} % ({values['low']:.1f}-{values['high']:.1f})"


def table(cells: Sequence[dict[str, Any]]) -> str:
    """Return a table with one row per run."""
    lines = ["| method | environment | seed | start | end | distinct-2 | rescored |", "|---|---|---|---|---|---|---|"]
    for cell in cells:
        method, environment = cell["cell"]["method"], cell["cell"]["environment"]
        start = shown(cell["curve"][0]["return_percent"]) if cell["curve"] else ""
        others = [f"{other['environment']} {shown(other['return_percent'])}" for other in cell.get("rescored", [])]
        distinct = [cell["curve"][0]["distinct_2"]] if cell["curve"] else []
        distinct.append(cell["summary"]["distinct_2"])
        lines.append(
            f"| {method['label'] or method['name']} | {environment['label'] or environment['id']} | "
            f"{cell['cell']['seed']} | {start} | {shown(cell['summary']['return_percent'])} | "
            f"{' -> '.join('-' if value is None else f'{value:.3f}' for value in distinct)} | {', '.join(others)} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Collect the data, write the file, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--samples", type=int, default=2, help="number of episodes to keep per run")
    arguments = parser.parse_args()
    entries = [entry for run in arguments.runs for entry in read_run(run).entries if entry.result is not None]
    cells = finite([boiled(entry, arguments.samples) for entry in entries])
    raw_data.write(arguments.out, cells)
    print(table(cells))


if __name__ == "__main__":
    main()
