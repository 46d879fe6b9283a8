"""PPO of Stable-Baselines3, one network for both agents.

pip install torch==2.13.0 stable-baselines3==2.9.2 supersuit==3.11.0

python examples/libraries/stable_baselines3_ppo.py tldr-v0     # or dectiger-v0
"""

from __future__ import annotations

from pathlib import Path

import supersuit
import typer
from stable_baselines3 import PPO
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecNormalize
from two_tasks import TASKS, finish


def main(task: str, steps: int = 30_000, seed: int = 0, out: Path | None = None) -> None:
    """Train for a number of single agents' actions, and print the result."""
    set_random_seed(seed)  # SuperSuit's environments have no `seed`, so PPO(seed=...) would fail
    env = supersuit.pettingzoo_env_to_vec_env_v1(TASKS[task]())
    env = supersuit.concat_vec_envs_v1(env, 8, num_cpus=1, base_class="stable_baselines3")
    env = VecNormalize(env, norm_obs=False)
    PPO("MlpPolicy", env, learning_rate=1e-3, n_steps=32, batch_size=128, device="cpu").learn(steps)
    finish("Stable-Baselines3 PPO", ["stable-baselines3", "supersuit"], task, seed, out)


if __name__ == "__main__":
    typer.run(main)
