"""Measure the cost of a checkpoint: seconds, share of the training time, and memory.

    python perf/checkpoint.py [--model builtin:tiny] [--sharing lora] [--json]

The script trains for some steps, so that the optimizer has moments, and then saves several times. Seconds are the
minimum and the median. The share is the time of saves at the default interval over the training time. It is an upper
bound, since the steps here are shorter than by default. Memory is the peak of the resident set (Linux). A ratio is
target / measured: larger is better, and the target is met at 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.training import TrainerConfig, train
from llm_dec_pomdp.training.checkpoint import Checkpoints

SAVE_TARGET_S = 1.0
SHARE_TARGET = 0.05
MEMORY_TARGET = 1.1


class Peak:
    """Context that measures the peak of the resident set, in MB."""

    mb = 0.0

    def __enter__(self) -> Peak:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the present resident set
        return self

    def __exit__(self, *exc: object) -> None:
        lines = Path("/proc/self/status").read_text().splitlines()
        self.mb = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure(model: str, sharing: Any, steps: int, saves: int, tokens: int) -> dict[str, Any]:
    """Return all figures as one object."""
    env = llm_dec_pomdp.make("tldr-v0", split="train")
    team = load_team(env.possible_agents, model, sharing=sharing, device="cpu")
    sampling = Sampling(max_new_tokens=tokens)
    learner = MAGRPO(team, sampling, MAGRPOConfig(learning_rate=1e-4, micro_batch=4))
    config = TrainerConfig(steps=steps, prompts_per_step=2, group_size=4)
    seconds: list[float] = []
    with Peak() as training:
        train(learner, env, sampling, config, 0, lambda s: seconds.append(s.seconds_rollout + s.seconds_update))
    if not learner.state_dict()["updaters"][0]["optimizer"]["state"]:
        raise RuntimeError("no update changed the weights: no optimizer state to save; increase --steps or --tokens")
    times: list[float] = []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        places = Checkpoints(Path(folder), {"model": model})
        with Peak() as saving:
            for number in range(1, saves + 1):
                started = time.perf_counter()
                place = places.save(number, team, learner.state_dict(), {"step": number})
                times.append(time.perf_counter() - started)
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) / 1e6
        started = time.perf_counter()
        found = places.newest()
        assert found is not None
        learner.load_state_dict(places.restore(found, team))
        load = time.perf_counter() - started
    share = min(times) / (config.save_every * min(seconds))
    memory = saving.mb / training.mb
    return {
        "model": model,
        "sharing": sharing,
        "parameters": sum(p.numel() for policy in team.trainable for p in policy.parameters()),
        "size_mb": size,
        "save_s": {"min": min(times), "median": statistics.median(times), "ratio": SAVE_TARGET_S / min(times)},
        "load_s": load,
        "step_s": min(seconds),
        "share_of_training": {"value": share, "ratio": SHARE_TARGET / share},
        "peak_mb": {"training": training.mb, "saving": saving.mb, "quotient": memory, "ratio": MEMORY_TARGET / memory},
    }


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin:tiny")
    parser.add_argument("--sharing", default="lora", choices=["lora", "separate", "shared"])
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--saves", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--json", action="store_true", help="print one object")
    arguments = vars(parser.parse_args())
    as_json = arguments.pop("json")
    found = measure(**arguments)
    if as_json:
        print(json.dumps(found))
        return
    print(
        f"{found['model']}, {found['sharing']}: {found['parameters']:,} trained parameters, {found['size_mb']:.1f} MB"
    )
    save, share, peak = found["save_s"], found["share_of_training"], found["peak_mb"]
    print(
        f"save    {save['min']:.3f} s (median {save['median']:.3f}), ratio {save['ratio']:.2f} of {SAVE_TARGET_S:g} s"
    )
    print(f"verification and loading {found['load_s']:.3f} s")
    step = f"{found['step_s']:.2f} s steps"
    print(f"share   {share['value']:.3%} of {step}, ratio {share['ratio']:.1f} of {SHARE_TARGET:.0%}")
    print(f"memory  {peak['saving']:.0f} MB / {peak['training']:.0f} MB in training, ratio {peak['ratio']:.2f}")


if __name__ == "__main__":
    main()
