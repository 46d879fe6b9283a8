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
    """Train for so many joint actions, and say what was learnt."""
    config = ExperimentConfig.get_from_yaml()
    config.max_n_frames, config.on_policy_collected_frames_per_batch = steps, 300
    config.on_policy_n_envs_per_worker, config.on_policy_minibatch_size = 10, 100
    config.on_policy_n_minibatch_iters, config.lr = 10, 2e-3
    config.evaluation, config.loggers, config.create_json = False, [], False
    with tempfile.TemporaryDirectory() as folder:
        config.save_folder = folder
        Experiment(
            task=TeamTask(task, TASKS[task]),
            algorithm_config=ALGORITHMS[algorithm].get_from_yaml(),
            model_config=MlpConfig.get_from_yaml(),
            critic_model_config=MlpConfig.get_from_yaml(),
            seed=seed,
            config=config,
        ).run()
    finish(f"BenchMARL {algorithm.upper()}", ["benchmarl", "torchrl"], task, seed, out)


if __name__ == "__main__":
    typer.run(main)
