"""Measure the cost of environments without a model: `make`, a step, and memory over many episodes.

    python perf/env_overhead.py [--json] [--episodes 100000]

Times are minima over repetitions. A ratio is target / measured: larger is better, and the target is met at 1. The
target of a step is 1 % of the time in which `builtin:tiny` samples the actions of this step, in the same run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.rollout import Trajectories

STEP_SHARE = 0.01  # of the sampling time
MAKE_TARGET_MS = 20.0
WRITING = ("tldr-v0", "arxiv-v0", "tldr-v1", "arxiv-v1", "telegrams-v0")
CLASSICS = ("dectiger-v0",)  # target: the time of a step of telegrams-v0
PLANNING = ("meeting-v0", "repair-v0", "trip-v0")  # the same target
CODE = ("humaneval-v0", "coophumaneval-v0", "mbpp-v0", "humaneval-v1", "coophumaneval-v1")
CLASSIC_ACTIONS = {"agent_0": "I listen.", "agent_1": "Let me listen."}
MAKE = """
import sys, time
import llm_dec_pomdp
started = time.perf_counter()
llm_dec_pomdp.make(sys.argv[1])
first = time.perf_counter() - started
started = time.perf_counter()
llm_dec_pomdp.make(sys.argv[1])
print(first, time.perf_counter() - started)
"""


def make_ms(env_id: str) -> tuple[float, float]:
    """Return milliseconds of the first `make` of a process, with imports and reading, and of the second; best of three.

    The first of the three processes compiles the modules, as an installation does.
    """
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", MAKE, env_id]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True, env=compiled) for _ in "123"]
    times = [tuple(map(float, run.stdout.split())) for run in runs]
    return min(t[0] for t in times) * 1e3, min(t[1] for t in times) * 1e3


def step_us(env_id: str) -> tuple[float, float]:
    """Return microseconds of a reset and of a step with the references, the minimum of 40 rounds.

    References pass every stage of the reward. Agents of a task without references act with `CLASSIC_ACTIONS`. Agents of
    a planning task share all that they know.
    """
    env = llm_dec_pomdp.make(env_id)
    references = [dict(zip(env.possible_agents, item.reference, strict=False)) for item in env.items[:16]]
    other = dict.fromkeys(env.possible_agents, "TELL") if env_id in PLANNING else CLASSIC_ACTIONS
    gold = [texts or other for texts in references]
    rounds: list[tuple[float, float]] = []
    for _ in range(40):
        resets = steps = 0.0
        for number in range(160):
            index = number % len(gold)
            begun = time.perf_counter()
            env.reset(options={"index": index})
            asked = time.perf_counter()
            env.step(gold[index])
            resets, steps = resets + asked - begun, steps + time.perf_counter() - asked
        rounds.append((resets / 160, steps / 160))
    return min(r for r, _ in rounds) * 1e6, min(s for _, s in rounds) * 1e6


def sampling_us(env_id: str) -> float:
    """Return the microseconds to sample the actions of one step with the built-in model; best of 3 batches of 32."""
    env = llm_dec_pomdp.make(env_id)
    team = load_team(env.possible_agents, "builtin:tiny")
    ids = [item.id for item in env.items[:16]]
    times: list[float] = []
    for seed in range(3):
        started = time.perf_counter()
        Trajectories().play(env, team, ids, [seed] * len(ids), Sampling(max_new_tokens=112), width=2)
        times.append((time.perf_counter() - started) / (2 * len(ids)))
    return min(times) * 1e6


def memory_mb(env_id: str, episodes: int) -> dict[str, float]:
    """Return peak resident memory after a tenth of the episodes and after all, and seconds per 1,000 in both parts."""
    env = llm_dec_pomdp.make(env_id)
    gold = dict(zip(env.possible_agents, env.items[0].reference, strict=True))

    def play(count: int) -> tuple[float, float]:
        started = time.perf_counter()
        for number in range(count):
            env.reset(seed=number)
            env.step(gold)
        gc.collect()
        seconds = (time.perf_counter() - started) / count * 1000
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, seconds

    early, early_seconds = play(episodes // 10)
    late, late_seconds = play(episodes - episodes // 10)
    return {
        "early_mb": early,
        "late_mb": late,
        "growth_mb": late - early,
        "early_s_per_1000": early_seconds,
        "late_s_per_1000": late_seconds,
    }


def measure(episodes: int) -> dict[str, Any]:
    """Return all figures as one object."""
    result: dict[str, Any] = {"make": {}, "step": {}, "classics": {}, "planning": {}, "memory": {}}
    for env_id in (*WRITING, *CODE, *CLASSICS, *PLANNING):
        first, again = make_ms(env_id)
        result["make"][env_id] = {"first_ms": first, "again_ms": again, "ratio": MAKE_TARGET_MS / first}
    for env_id in WRITING:
        reset, step = step_us(env_id)
        sampling = sampling_us(env_id)
        ratio = STEP_SHARE * sampling / step
        result["step"][env_id] = {"us": step, "reset_us": reset, "sampling_us": sampling, "ratio": ratio}
    for kind, env_ids in (("classics", CLASSICS), ("planning", PLANNING)):
        for env_id in env_ids:
            reset, step = step_us(env_id)
            ratio = result["step"]["telegrams-v0"]["us"] / step
            result[kind][env_id] = {"us": step, "reset_us": reset, "ratio": ratio}
    result["memory"]["tldr-v0"] = {"episodes": episodes, **memory_mb("tldr-v0", episodes)}
    return result


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--episodes", type=int, default=100_000)
    arguments = parser.parse_args()
    result = measure(arguments.episodes)
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"make (target {MAKE_TARGET_MS:g} ms)")
    for env_id, row in result["make"].items():
        first, again = row["first_ms"], row["again_ms"]
        print(f"  {env_id:18} first {first:6.1f} ms   again {again:6.2f} ms   ratio {row['ratio']:5.2f}")
    print(f"step without a model (target {STEP_SHARE:.0%} of the time to sample its actions)")
    for env_id, row in result["step"].items():
        times = f"{row['us']:6.0f} us   sampling {row['sampling_us']:7.0f} us   reset {row['reset_us']:4.0f} us"
        print(f"  {env_id:18} {times}   ratio {row['ratio']:5.2f}")
    print("step of a textbook problem or a planning task (target: a step of telegrams-v0)")
    for env_id, row in (*result["classics"].items(), *result["planning"].items()):
        print(f"  {env_id:18} {row['us']:6.0f} us   reset {row['reset_us']:4.0f} us   ratio {row['ratio']:5.2f}")
    for env_id, row in result["memory"].items():
        print(f"memory over {row['episodes']} episodes of {env_id}: {row['early_mb']:.1f} -> {row['late_mb']:.1f} MB")


if __name__ == "__main__":
    main()
