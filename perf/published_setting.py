"""Measure an update of the published MAGRPO setting on this machine: time, memory, share of peak performance.

    python perf/published_setting.py [--model random:Qwen3-1.7B] [--device cuda:0] [--steps 10] [--json FILE]

The setting is the run of the suite `paper` for tldr-v0 and MAGRPO. It has two models, all weights trained, and one post
with four completions of each agent of up to 256 new tokens. The posts are the embedded ones. The weights are random:
completions rarely end before the limit, and their reward would always be 0. So the reward here is the length of the
text. The first update compiles and allocates, and the means leave it out. The share of the peak counts 6 operations per
weight and token of a completion. The peak is the measured speed of a large matrix product.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import torch

from llm_dec_pomdp.benchmarks.cell import build_cell
from llm_dec_pomdp.benchmarks.device_speed import about, peak
from llm_dec_pomdp.benchmarks.suite import load_suite
from llm_dec_pomdp.envs.wrappers import LearnedReward
from llm_dec_pomdp.training.loop import TrainingStep, train


def main() -> None:
    """Train, and print one row per update and the means."""
    parser = argparse.ArgumentParser(description="Measure an update of the published setting.")
    parser.add_argument("--model", default="random:Qwen3-1.7B")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--new-tokens", type=int, default=256)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cells = load_suite("paper").cells()
    cell = next(c for c in cells if c.environment.id == "tldr-v0" and c.method.name == "magrpo")
    model = cell.model.model_copy(update={"name": given.model, "device": given.device, "chat_template_kwargs": {}})
    cell = dataclasses.replace(
        cell,
        environment=cell.environment.model_copy(update={"tasks": "sample"}),
        model=model,
        sampling=cell.sampling.model_copy(update={"max_new_tokens": given.new_tokens}),
        training=cell.training.model_copy(update={"steps": given.steps}),
    )
    most = peak(given.device)
    setup = build_cell(cell)
    parameters = sum(p.numel() for p in setup.team.policies[0].parameters())
    cuda = given.device.startswith("cuda")
    rows: list[dict[str, Any]] = []

    def keep(step: TrainingStep) -> None:
        tokens = step.metrics["tokens"]  # the mean of the two models
        row: dict[str, Any] = {"update": step.number, "seconds_rollout": step.seconds_rollout}
        row |= {"seconds_update": step.seconds_update, "tokens": 2 * tokens}
        row["share_of_peak"] = 6 * parameters * 2 * tokens / step.seconds_update / most
        row |= {"loss": step.metrics["loss"], "grad_norm": step.metrics["grad_norm"]}
        row |= {"gigabytes": torch.cuda.max_memory_allocated(given.device) / 1e9} if cuda else {}
        rows.append(row)
        print(json.dumps(row), flush=True)

    env = LearnedReward(setup.train_env, lambda conversation, text: float(len(str(text))))
    train(setup.algorithm, env, setup.sampling, cell.training, cell.seed, keep)
    counted = rows[1:] or rows
    names = [name for name in counted[0] if name not in ("update", "loss", "grad_norm")]
    means = {name: statistics.mean(row[name] for row in counted) for name in names}
    print("means without the first update:", json.dumps(means))
    if given.json:
        found = {**about(given.device), "model": given.model, "parameters": parameters, "operations_per_s": most}
        given.json.write_text(json.dumps({**found, "updates": rows, "means": means}, indent=1) + "\n")
    sys.exit(not rows)


if __name__ == "__main__":
    main()
