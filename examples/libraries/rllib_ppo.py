"""PPO of RLlib, one network for both agents: pip install torch==2.13.0 "ray[rllib]==2.60.0".

python examples/libraries/rllib_ppo.py tldr-v0     # or dectiger-v0
"""

from __future__ import annotations

import math
import os
from pathlib import Path

os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")  # on a busy machine Ray gives up after a few seconds

import typer
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env
from two_tasks import TASKS, finish


def main(task: str, steps: int = 6000, seed: int = 0, out: Path | None = None) -> None:
    """Train for a number of joint actions, and print the result."""
    register_env(task, lambda _: ParallelPettingZooEnv(TASKS[task]()))
    batch = {"train_batch_size_per_learner": 250, "minibatch_size": 128, "num_epochs": 8}
    config = (
        PPOConfig()
        .environment(task)
        .env_runners(num_env_runners=0)
        .training(lr=1e-3, gamma=1.0, lambda_=0.95, use_kl_loss=False, clip_param=0.2, vf_clip_param=math.inf, **batch)
        .multi_agent(policies={"team"}, policy_mapping_fn=lambda *_, **__: "team")
        .debugging(seed=seed)
    )
    learner = config.build_algo()
    for _ in range(steps // batch["train_batch_size_per_learner"]):
        learner.train()
    finish("RLlib PPO", ["ray"], task, seed, out)


if __name__ == "__main__":
    typer.run(main)
