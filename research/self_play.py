"""Train tables on pennies-v0 and kuhn-v0, and compute their exact exploitability.

    python research/self_play.py [--steps 60] [--seeds 5] [--games kuhn-v0] --out research/data/selfplay.json.xz

Prints a row for each game and learner: the exploitability of the last policies, and of the mean of the policies after
each update. Both are means over the seeds with the lowest and the highest. The file has every seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import raw_data
import torch

from llm_dec_pomdp import make
from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.agents.table import Table, number_of
from llm_dec_pomdp.algorithms.registration import build_algorithm
from llm_dec_pomdp.training.loop import TrainerConfig, train
from llm_dec_pomdp.types import Message

LEARNERS = ("magrpo", "marloo", "iac", "maac", "magrpo_shuffled")
GROUP = 8


def exploitabilities(game: str, learner: str, steps: int, seed: int) -> dict[str, float]:
    """Return the exploitability after the last update, and of the mean of the policies."""
    env: Any = make(game)
    tables = {agent: Table(env.choices(agent)) for agent in env.possible_agents}
    sampling = Sampling(max_new_tokens=1)
    algorithm = build_algorithm(learner, {}, Team(dict(tables)), sampling)
    iterates: list[dict[str, torch.Tensor]] = []

    def keep(step: Any) -> None:
        iterates.append({agent: table.table.detach()[:64].softmax(-1) for agent, table in tables.items()})

    config = TrainerConfig(steps=steps, prompts_per_step=len(env.items), group_size=GROUP)
    train(algorithm, env, sampling, config, seed, keep)

    def strategy(played: Sequence[Mapping[str, torch.Tensor]]) -> Any:
        mean = {agent: torch.stack([chances[agent] for chances in played]).mean(0) for agent in tables}

        def chances(agent: str, history: Sequence[Message]) -> dict[str, float]:
            row = tables[agent]._row_of.get(number_of(history))
            menu = tables[agent].menu
            shares = [1 / len(menu)] * len(menu) if row is None else mean[agent][row].tolist()
            return dict(zip(menu, shares, strict=True))

        return chances

    return {"last": env.exploitability(strategy(iterates[-1:])), "mean": env.exploitability(strategy(iterates))}


def main() -> None:
    """Train, write the file, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--games", nargs="+", default=["pennies-v0", "kuhn-v0"])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    kept: list[dict[str, Any]] = []
    torch.set_num_threads(1)
    print("| game | learner | last | mean of all updates |\n|---|---|---|---|")
    for game in options.games:
        for learner in LEARNERS:
            found = [exploitabilities(game, learner, options.steps, seed) for seed in range(options.seeds)]
            columns = ([seed[of] for seed in found] for of in ("last", "mean"))
            cells = (f"{fmean(v):.3f} ({min(v):.3f} to {max(v):.3f})" for v in columns)
            print(f"| {game} | {learner} | {' | '.join(cells)} |", flush=True)
            kept.append({"game": game, "learner": learner, "seeds": found})
    raw_data.write(options.out, kept)


if __name__ == "__main__":
    main()
