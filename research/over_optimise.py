"""Train a team on a reward learned from few pairs, or on the true one, and record its returns under both.

    llm-dec-pomdp eval tldr-v0 --split train --samples 4 --max-new-tokens 32 --out recorded
    python research/over_optimise.py train --source recorded --seed S --out RUNS [--true]          # for several S
    python research/over_optimise.py draw RUNS --json FILE --out FIGURE

The learned value of a summary is a weighted sum of six numbers: the logarithms of the characters, different words and
sentences of each part. The weights are fitted to the pairs of some posts by the Bradley-Terry model.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import raw_data
from matplotlib.figure import Figure

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.evaluation.intervals import mean_interval
from llm_dec_pomdp.rollout import Preferences
from llm_dec_pomdp.types import Message

Array = npt.NDArray[np.float64]
TASK = "tldr-v0"
SAMPLING = Sampling(max_new_tokens=32)
RIDGE = 0.01  # keeps weights finite if all of a few pairs are ranked correctly
WINDOW = 5  # updates of the running mean
LABELS = {"learnt": "learnt return, nats", "true": "true return, % of maximum"}


@dataclass(frozen=True)
class Values:
    """Learned reward of a joint action: a weighted sum of its numbers.

    Attributes:
        env: Environment that splits joint actions into parts.
        weights: Weights of `numbers` [6].
    """

    env: TextDecPOMDP
    weights: Array

    def __call__(self, history: Sequence[Message], text: str) -> float:
        """Return the value of a text; the history is ignored."""
        return float(numbers(self.env.facts.split(text)) @ self.weights)


def numbers(parts: Sequence[str]) -> Array:
    """Return log(1 + n) of the numbers n of characters, different words and ends of sentences of each part."""
    counts = [(len(part), len(set(part.lower().split())), len(re.findall(r"[.!?]", part))) for part in parts]
    return np.array([math.log1p(count) for row in counts for count in row])


def differences(pairs: Mapping[str, Sequence[Any]], tasks: Sequence[str]) -> Array:
    """Return the numbers of the preferred joint action minus those of the rejected one [pairs, 6]."""
    rows = [
        numbers([texts[0] for texts in pair.chosen.texts.values()])
        - numbers([texts[0] for texts in pair.rejected.texts.values()])
        for task in tasks
        for pair in pairs[task]
    ]
    return np.array(rows)


def fitted(rows: Array) -> Array:
    """Return the w that minimises the mean of - log sigmoid(row . w) + RIDGE |w|^2 / 2, by Newton's method."""
    weights: Array = np.zeros(rows.shape[1])
    for _ in range(50):
        likelihood = 1 / (1 + np.exp(-rows @ weights))
        gradient = -((1 - likelihood) @ rows) / len(rows) + RIDGE * weights
        curvature = (rows.T * (likelihood * (1 - likelihood))) @ rows / len(rows) + RIDGE * np.eye(len(weights))
        weights = weights - np.linalg.solve(curvature, gradient)
    return weights


def train(arguments: argparse.Namespace) -> None:
    """Fit the reward, train a team, and write its curve."""
    pairs = Preferences(str(arguments.source), "all").pairs()
    tasks = [task for task in sorted(pairs) if pairs[task]]
    learnt_from, others = tasks[: arguments.posts], tasks[arguments.posts :]
    rows, unseen = differences(pairs, learnt_from), differences(pairs, others)
    env = llm_dec_pomdp.make(TASK, split="train")
    values = Values(env, fitted(rows))
    paid = env if arguments.true else llm_dec_pomdp.make(TASK, split="train", reward=values)
    team = llm_dec_pomdp.load_team(paid, "builtin:tiny")
    test = llm_dec_pomdp.make(TASK, split="test", reward=values)
    result: dict[str, Any] = {
        "reward": "true" if arguments.true else "learnt",
        "seed": arguments.seed,
        "pairs": len(rows),
        "told_right": float((rows @ values.weights > 0).mean()),
        "told_right_of_others": float((unseen @ values.weights > 0).mean()),
        "weights": values.weights.tolist(),
        "paid": [],
        "true": [],
        "tested": {},
    }

    def note(step: Any) -> None:
        result["paid"].append(step.mean_return)
        result["true"].append(step.return_percent)
        if step.number in (arguments.early, arguments.steps):
            result["tested"][step.number] = tested(team, test)

    result["tested"][0] = tested(team, test)
    llm_dec_pomdp.train(
        team,
        paid,
        "magrpo",
        steps=arguments.steps,
        prompts_per_step=2,
        group_size=8,
        sampling=SAMPLING,
        seed=arguments.seed,
        on_step=note,
        learning_rate=1e-3,
    )
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{result['reward']}-{arguments.seed}.json"
    path.write_text(json.dumps(result) + "\n", encoding="utf-8")


def tested(team: Any, env: TextDecPOMDP) -> dict[str, float]:
    """Return both returns on test posts: the learned one in nats, the true one in % of the maximum."""
    groups = llm_dec_pomdp.collect(team, env, items=20, sampling=SAMPLING)
    episodes = [episode for group in groups for episode in group.episodes]
    scores = [turn.score.total for episode in episodes for turn in episode.turns if turn.score]
    return {"learnt": fmean(e.total for e in episodes), "true": 100 * fmean(scores) / env.facts.score_range[1]}


def draw(arguments: argparse.Namespace) -> None:
    """Write all runs to one file, draw their curves, and print the table."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(arguments.runs.glob("*.json"))]
    raw_data.write(arguments.json, runs)
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for kind, colour in (("learnt", "tab:red"), ("true", "tab:blue")):
        for axes, curve in ((left, "paid"), (right, "true")):
            lines = [smooth(run[curve]) for run in runs if run["reward"] == kind]
            if not lines or (axes is left and kind == "true"):  # the true reward has another unit
                continue
            for line in lines:
                axes.plot(range(1, len(line) + 1), line, linewidth=0.8, alpha=0.5, color=colour)
            mean = np.mean(lines, axis=0)
            axes.plot(range(1, len(mean) + 1), mean, linewidth=2.5, color=colour, label=f"trained on the {kind} reward")
    left.set(xlabel="update", ylabel=LABELS["learnt"])
    right.set(xlabel="update", ylabel=LABELS["true"])
    right.legend()
    figure.savefig(arguments.out, dpi=130)
    print(table(runs))


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of both returns on test posts, means over seeds with 95 % intervals."""
    lines = ["| trained on | update | learnt, nats | true, % |", "|---|---|---|---|"]
    for kind in dict.fromkeys(run["reward"] for run in runs):
        selected = [run for run in runs if run["reward"] == kind]
        for step in selected[0]["tested"]:
            cells = [shown([run["tested"][step][name] for run in selected]) for name in ("learnt", "true")]
            lines.append(f"| {kind} | {step} | {' | '.join(cells)} |")
    return "\n".join(lines)


def shown(values: Sequence[float]) -> str:
    """Return as text: mean, 95 % interval and every value."""
    interval = mean_interval(values)
    return f"{interval.mean:.1f} ({interval.low:.1f} to {interval.high:.1f}): " + ", ".join(
        f"{value:.1f}" for value in values
    )


def smooth(values: Sequence[float]) -> list[float]:
    """Return the running mean of the last five values."""
    return [fmean(values[max(0, end - WINDOW) : end]) for end in range(1, len(values) + 1)]


def main() -> None:
    """Run the command `train` or `draw`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(required=True)
    train_parser = what.add_parser("train", help="train one run")
    train_parser.add_argument("--source", type=Path, required=True, help="folder of a run with recorded episodes")
    train_parser.add_argument("--posts", type=int, default=20, help="number of posts with pairs to fit the reward")
    train_parser.add_argument("--steps", type=int, default=24)
    train_parser.add_argument("--early", type=int, default=8, help="also evaluate on test posts after these updates")
    train_parser.add_argument("--seed", type=int, default=0)
    train_parser.add_argument("--true", action="store_true", help="train on the true reward instead")
    train_parser.add_argument("--out", type=Path, required=True)
    train_parser.set_defaults(work=train)
    all_runs = what.add_parser("draw", help="write all runs to one file and a figure")
    all_runs.add_argument("runs", type=Path)
    all_runs.add_argument("--json", type=Path, required=True, help="output file of all runs")
    all_runs.add_argument("--out", type=Path, required=True, help="output file of the figure")
    all_runs.set_defaults(work=draw)
    arguments = parser.parse_args()
    arguments.work(arguments)


if __name__ == "__main__":
    main()
