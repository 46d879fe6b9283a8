"""What tables learn in calls-v0 and memory-v0, with letters and with keep or skip: rewards, seeds, and a control.

    python scripts/call_rewards.py [--steps 60] [--seeds 5] [--rows 2]

Tables share nothing between histories, so that they are measured on the rows that they are trained on: this compares
rewards and learners, not what carries over to other rows. Prints a row for each task, learner and reward: the share of
rows that are solved (`outcome`) before and after, as means over the seeds with the lowest and the highest.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import torch

from llm_dec_pomdp import make
from llm_dec_pomdp.agents.base import Policy, Sampling, Team
from llm_dec_pomdp.agents.scripted import Scripted
from llm_dec_pomdp.agents.table import Table
from llm_dec_pomdp.algorithms.registration import build_algorithm
from llm_dec_pomdp.envs.memory import conversation
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.training.loop import TrainerConfig, train
from llm_dec_pomdp.types import TaskItem

GROUP, SAMPLES = 8, 16
SAMPLING = Sampling(max_new_tokens=1)


def memory_rows(count: int) -> list[TaskItem]:
    """Conversations of six pieces, each with a question about one of two facts; two notes are kept."""
    rows: list[TaskItem] = []
    for number in range(count // 2):
        pieces, questions = conversation(1000 + number, facts=2, twice=1, talk=3)
        for place, (question, answer) in enumerate(questions):
            fields = {"pieces": "\n".join(pieces), "answer": answer}
            rows.append(TaskItem(f"small/{number}/{place}", question, fields=fields))
    return rows


def calls(rows: int, reward: str) -> tuple[Any, dict[str, Policy]]:
    """The first rows of two calls or more, by letters."""
    env: Any = make("calls-v0", grammar="choice", reward=reward)
    env = env.with_items(env.items[:rows])
    return env, {agent: Table(env.choices(agent)) for agent in env.possible_agents}


def memory(rows: int, reward: str) -> tuple[Any, dict[str, Policy]]:
    """A writer that learns, and a reader that finds facts."""
    env: Any = make("memory-v0", tasks=memory_rows(rows), notes=2)
    return env, {"agent_0": Table(env.choices("agent_0")), "agent_1": Scripted(env.script("gold"))}


def solved(env: Any, team: Team, seed: int) -> float:
    """Share of the episodes that are solved."""
    names = [item.id for item in env.items]
    groups = Trajectories("own").play(
        env, team, names * SAMPLES, list(range(seed, seed + len(names) * SAMPLES)), SAMPLING
    )
    finals = [episode.final for group in groups for episode in group.episodes]
    return fmean(final.diagnostics.get("outcome", final.total) for final in finals if final)


def learnt(task: Any, rows: int, reward: str, learner: str, steps: int, seed: int) -> tuple[float, float]:
    """Solved before and after."""
    env, members = task(rows, reward)
    team = Team(members)
    algorithm = build_algorithm(learner, {}, team, SAMPLING)
    before = solved(env, team, 10_000)
    train(algorithm, env, SAMPLING, TrainerConfig(steps=steps, prompts_per_step=len(env.items), group_size=GROUP), seed)
    return before, solved(env, team, 10_000)


CELLS: Mapping[str, tuple[Any, tuple[tuple[str, str], ...]]] = {
    "calls-v0": (
        calls,
        (("magrpo", "outcome"), ("magrpo", "process"), ("magrpo", "call"), ("magrpo_shuffled", "call")),
    ),
    "memory-v0": (memory, (("magrpo", "outcome"), ("magrpo_shuffled", "outcome"))),
}


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--tasks", nargs="+", default=list(CELLS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| task | learner | paid | solved before | solved after |\n|---|---|---|---|---|")
    for name in options.tasks:
        task, cells = CELLS[name]
        for learner, reward in cells:
            found = [learnt(task, options.rows, reward, learner, options.steps, seed) for seed in range(options.seeds)]
            shown = (f"{fmean(v):.3f} ({min(v):.3f} to {max(v):.3f})" for v in zip(*found, strict=True))
            print(f"| {name} | {learner} | {reward} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
