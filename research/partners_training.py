"""Train tables with partners in half of the groups, and exchange members between seeds afterwards.

    python research/partners_training.py --out research/data/partners_training.json.xz

Prints a row for each task and training: the return of a team, the return with one member of another seed, the gap, and
the return of a member in a self-trained team of another seed that was in no pool. The file has all pairs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import raw_data
import torch

from llm_dec_pomdp import crossplay, evaluate, load_team, make, train
from llm_dec_pomdp.agents.base import Team
from llm_dec_pomdp.agents.io.save import save_team
from llm_dec_pomdp.agents.partners import mixed_team
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import Choices, with_protocol
from llm_dec_pomdp.evaluation.crossplay import roles_of
from llm_dec_pomdp.evaluation.intervals import mean_interval

TRAININGS: Mapping[str, tuple[str, str]] = {  # learner, and kind of pool
    "none": ("magrpo", ""),
    "self": ("magrpo", "self"),
    "frozen": ("magrpo", "frozen"),
    "seeds": ("magrpo", "seeds"),
    "control": ("magrpo_shuffled", ""),
}
SEEDS = 5


class Setting(NamedTuple):
    """Options of training and of evaluation on a task."""

    training: Mapping[str, Any]
    evaluation: Mapping[str, Any]


SETTINGS: Mapping[str, Setting] = {
    "dectiger-v0": Setting({"steps": 40, "learning_rate": 0.3}, {"samples": 100}),
    "relay-v0": Setting({"steps": 24, "prompts_per_step": 12, "learning_rate": 0.5}, {"samples": 1}),
    "meeting-v0": Setting({"steps": 20, "prompts_per_step": 8, "group_size": 4, "learning_rate": 2.0}, {"items": 40}),
    "scouts-v0": Setting({"steps": 25, "learning_rate": 0.3}, {"samples": 50}),
    "telegrams-v0": Setting({"steps": 25, "learning_rate": 0.5}, {"samples": 4}),
}


def environment(name: str, split: str) -> TextDecPOMDP:
    """Return a task; the split matters only for meeting-v0."""
    if name == "relay-v0":
        return with_protocol(make(name, n_agents=2), "sequential")
    if name == "meeting-v0":
        return make(name, split=split, n_agents=2, days=1, hours=2, common=1, max_turns=3)
    if name == "telegrams-v0":  # each sender chooses one of the reference telegrams of the post
        task = make(name)
        return Choices(
            task.with_items(task.items[:8]), lambda item, role: dict(zip("123", item.reference, strict=True))
        )
    return make(name)


def trained(name: str, learner: str, pool: Any, seed: int) -> Team:
    """Return a team of tables, trained with partners from the pool in half of the groups; without an empty pool."""
    env = environment(name, "train")
    team = load_team(env, "builtin:table", sharing="separate")
    partners = {"pool": pool, "share": 0.5} if pool else None
    train(team, env, learner, seed=seed, partners=partners, **SETTINGS[name].training)
    return team


def held_out(teams: Sequence[Team], others: Sequence[Team], name: str) -> list[float]:
    """Return for each team the mean return of its members in the other teams of the next two seeds, in %."""
    env, returns = environment(name, "test"), list[float]()
    for number, team in enumerate(teams):
        found: list[float] = []
        for mate in (others[(number + 1) % len(others)], others[(number + 2) % len(others)]):
            for agents in roles_of(env).values():
                mixed = mixed_team({a: team if a in agents else mate for a in env.possible_agents})
                found.append(evaluate(mixed, env, **SETTINGS[name].evaluation).return_percent.mean)
        returns.append(sum(found) / len(found))
    return returns


def measured(name: str, folder: Path) -> list[dict[str, Any]]:
    """Train and evaluate all teams of a task."""
    pool: list[str] = []
    for seed in range(SEEDS, 2 * SEEDS):
        pool.append(str(folder / f"{name}-{seed}"))
        save_team(trained(name, "magrpo", None, seed), pool[-1])
    rows: list[dict[str, Any]] = []
    alone: list[Team] = []
    for training, (learner, kind) in TRAININGS.items():
        given = pool if kind == "seeds" else kind
        teams = [trained(name, learner, given, seed) for seed in range(SEEDS)]
        alone = alone or teams
        crossed = crossplay(teams, environment(name, "test"), **SETTINGS[name].evaluation)
        returns = held_out(teams, alone, name)
        row: dict[str, Any] = {"task": name, "training": training, **crossed.to_dict()}
        row |= {"held_out": asdict(mean_interval(returns)), "held_out_by_seed": returns}
        rows.append(row)
        intervals = (row[column] for column in COLUMNS)
        shown = (f"{v['mean']:.1f} ({v['low']:.1f} to {v['high']:.1f})" for v in intervals)
        print(f"| {name} | {training} | {' | '.join(shown)} |", flush=True)
    return rows


COLUMNS = ("own", "other", "gap", "held_out")


def main() -> None:
    """Train, evaluate, print the table, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| task | partners | own | other seeds | gap | held-out |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        rows: list[dict[str, Any]] = []
        for name in options.tasks:
            rows += measured(name, Path(folder))
            raw_data.write(options.out, rows)


if __name__ == "__main__":
    main()
