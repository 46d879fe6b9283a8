"""MAPPO and IPPO of BenchMARL: pip install torch==2.13.0 benchmarl==1.5.2.

python examples/libraries/benchmarl_ppo.py tldr-v0 mappo     # or dectiger-v0, ippo
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import typer
from benchmarl.algorithms import IppoConfig, MappoConfig
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from two_tasks import TASKS, finish

from llm_dec_pomdp.integrations.benchmarl import TeamTask

ALGORITHMS = {"mappo": MappoConfig, "ippo": IppoConfig}


def main(task: str, algorithm: str, steps: int = 20_000, seed: int = 0, out: Path | None = None) -> None:
    """Train for a number of joint actions, and print the result."""
    config = ExperimentConfig.get_from_yaml()
    episodes = 300  # in a batch
    config.max_n_frames, config.on_policy_collected_frames_per_batch = steps, episodes * TASKS[task]().max_turns
    config.on_policy_n_envs_per_worker, config.on_policy_minibatch_size = 10, 150
    config.on_policy_n_minibatch_iters, config.lr, config.adam_eps, config.gamma = 8, 1e-3, 1e-5, 1.0
    config.evaluation, config.loggers, config.create_json = False, [], False
    learner, network = ALGORITHMS[algorithm].get_from_yaml(), MlpConfig.get_from_yaml()
    learner.lmbda, learner.entropy_coef, network.num_cells = 0.95, 0.01, [64, 64]
    with tempfile.TemporaryDirectory() as folder:
        config.save_folder = folder
        Experiment(
            task=TeamTask(task, TASKS[task]),
            algorithm_config=learner,
            model_config=network,
            critic_model_config=network,
            seed=seed,
            config=config,
        ).run()
    finish(f"BenchMARL {algorithm.upper()}", ["benchmarl", "torchrl"], task, seed, out)


if __name__ == "__main__":
    typer.run(main)
