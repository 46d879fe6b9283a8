"""Measure the cost of policies in worker processes: seconds per step, a round trip, and a restart of workers.

    python perf/executors.py [--executor processes] [--model builtin:tiny] [--sharing separate] [--json]

Two agents train on tldr-v0, with a model each or, with --sharing lora, with adapters on one model in one worker.
Training runs in this process and on the backend (`--executor`) in turns of some steps. The fastest turn of each counts,
as seconds per step. `cpu_ratio` compares the CPU seconds of all processes over all turns, which depend less on other
load. `restart` is the time until two new workers answer. A lost worker costs this time and the steps since the newest
checkpoint. The first start also imports torch. A ratio is backend / local.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.training import Counters, TrainerConfig, train
from llm_dec_pomdp.training.workers import executors


def pid_of(worker: Any) -> int:
    """Return the process id of a worker of either backend."""
    if not hasattr(worker, "actor"):
        return worker._process.pid
    import ray

    return ray.get(worker.actor.address.remote())[1]


def cpu_seconds(workers: list[int]) -> float:
    """Return the CPU seconds of this process and of worker processes."""
    ticks = 0
    for worker in workers:
        fields = Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # user and system time
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


class Trained:
    """Training that continues a few steps at a time."""

    def __init__(self, executor: Any, model: str, sharing: str, tokens: int) -> None:
        self.env = llm_dec_pomdp.make("tldr-v0", split="train")
        self.sampling = Sampling(max_new_tokens=tokens)
        started = time.perf_counter()
        self.team = executor.load_team(self.env.possible_agents, model, sharing=sharing, device="cpu")
        self.learner = MAGRPO(self.team, self.sampling, MAGRPOConfig(learning_rate=1e-4))
        self.start_seconds = time.perf_counter() - started
        self.workers = [pid_of(worker) for worker in getattr(executor, "workers", ())]
        self.done = Counters()
        self.texts: list[str] = []
        self.cpu = 0.0

    def seconds_per_step(self, steps: int) -> float:
        """Train for some more steps, and return their mean seconds."""
        seconds: list[float] = []

        def note(step: Any) -> None:
            seconds.append(step.seconds_rollout + step.seconds_update)
            self.texts.append(step.texts)

        config = TrainerConfig(steps=self.done.step + steps, prompts_per_step=4, group_size=4)
        before = cpu_seconds(self.workers)
        self.done = train(self.learner, self.env, self.sampling, config, 0, note, done=self.done)
        self.cpu += cpu_seconds(self.workers) - before
        return statistics.mean(seconds)


def measure(name: str, model: str, sharing: str, turns: int, steps: int, tokens: int) -> dict[str, Any]:
    """Return all figures as one object."""
    make = executors.find(name).load()
    with make() as executor:
        first_start = Trained(executor, model, sharing, tokens).start_seconds
    with executors.find("local").load()() as here, make() as there:
        runs = {"local": Trained(here, model, sharing, tokens), name: Trained(there, model, sharing, tokens)}
        for run in runs.values():
            run.seconds_per_step(1)  # warm-up
            run.cpu = 0.0
        seconds = {which: [] for which in runs}
        for _ in range(turns):
            for which, run in runs.items():
                seconds[which].append(run.seconds_per_step(steps))
        policy = runs[name].team.trainable[0]
        started = time.perf_counter()
        for _ in range(100):
            policy.generate([], runs[name].sampling)
        round_trip = (time.perf_counter() - started) / 100
    fastest = {which: min(values) for which, values in seconds.items()}
    return {
        "executor": name,
        "model": model,
        "sharing": sharing,
        "steps": turns * steps,
        "equal_texts": runs["local"].texts == runs[name].texts,
        "local_s": fastest["local"],
        "executor_s": fastest[name],
        "ratio": fastest[name] / fastest["local"],
        "cpu_ratio": runs[name].cpu / runs["local"].cpu,
        "round_trip_ms": 1000 * round_trip,
        "first_start_s": first_start,
        "restart_s": runs[name].start_seconds,
    }


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executor", default="processes")
    parser.add_argument("--model", default="builtin:tiny")
    parser.add_argument("--sharing", default="separate")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    found = measure(given.executor, given.model, given.sharing, given.turns, given.steps, given.tokens)
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:14} {value:.4g}" if isinstance(value, float) else f"{name:14} {value}")


if __name__ == "__main__":
    main()
