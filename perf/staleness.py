"""Compare sampling during updates (training.staleness k = 1) with k = 0 by seconds per step, in worker processes.

    python perf/staleness.py [--model builtin:tiny] [--sharing shared] [--threads 1] [--tokens 48] [--json]

Whole runs take turns. The figure of a run is the median of the seconds between the ends of steps, without the first two
steps. With --threads 1, k = 0 computes on one core, and k = 1 on one core for sampling and one for the update. This is
the case of one accelerator for each. With --threads 2, k = 0 also has both cores. `best` is the ratio of a perfect
overlap: the longer of sampling and update over their sum, at k = 0.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from typing import Any

import torch

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.training import TrainerConfig, train
from llm_dec_pomdp.training.workers.process import Processes


def run(k: int, given: argparse.Namespace) -> tuple[list[float], list[float], list[float]]:
    """Run a training, and return its seconds per step, of sampling and of updates."""
    env = llm_dec_pomdp.make("tldr-v0", split="train")
    sampling = Sampling(max_new_tokens=given.tokens)
    ends, rollout, update = list[float](), list[float](), list[float]()

    def note(step: Any) -> None:
        ends.append(time.perf_counter())
        rollout.append(step.seconds_rollout)
        update.append(step.seconds_update)

    with Processes() as executor:
        team = executor.load_team(env.possible_agents, given.model, sharing=given.sharing, device="cpu")
        learner = MAGRPO(team, sampling, MAGRPOConfig(learning_rate=1e-4, epochs=given.epochs))
        config = TrainerConfig(steps=given.steps, prompts_per_step=4, group_size=4, staleness=k)
        train(learner, env, sampling, config, 0, note)
    return [after - before for before, after in itertools.pairwise(ends)][1:], rollout[2:], update[2:]


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin:tiny")
    parser.add_argument("--sharing", default="shared")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    seconds: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(given.rounds):
        for k in seconds:
            steps, rollout, update = run(k, given)
            seconds[k] += steps
            if k == 0:
                parts = statistics.median(rollout), statistics.median(update)
    medians = {k: statistics.median(values) for k, values in seconds.items()}
    found = {
        "sampling_s": parts[0],
        "update_s": parts[1],
        "step_s": medians[0],
        "step_ahead_s": medians[1],
        "ratio": medians[1] / medians[0],
        "fastest_ratio": min(seconds[1]) / min(seconds[0]),
        "best": max(parts) / sum(parts),
    }
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:14} {value:.3g}")


if __name__ == "__main__":
    main()
