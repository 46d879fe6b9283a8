# pyright: basic, reportMissingImports=false
"""A team of two that shares its weights, trained by GRPOTrainer of TRL: pip install trl, then python trl_team.py.

Prints the mean return of 64 episodes on training tasks before and after; --learning-rate 0 is the control.
"""

from __future__ import annotations

import math
import tempfile

import trl
import typer

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.loading import load_model
from llm_dec_pomdp.agents.transformers.language_model import LanguageModel
from llm_dec_pomdp.integrations.trl import joint_reward, team_dataset
from llm_dec_pomdp.rollout import Trajectories

TOKENS, GROUP = 64, 8


def mean_return(env: llm_dec_pomdp.envs.TextDecPOMDP, policy: LanguageModel) -> float:
    """Of the team, in percent of the highest return."""
    team = Team(dict.fromkeys(env.possible_agents, policy))
    items = [item.id for item in env.items[:16]]
    groups = Trajectories().play(env, team, items, list(range(16)), Sampling(max_new_tokens=TOKENS), 4)
    totals = [episode.total for group in groups for episode in group.episodes]
    return 100 * math.fsum(totals) / len(totals) / env.max_return


def main(steps: int = 60, learning_rate: float = 1e-3, seed: int = 0) -> None:
    """Train and print."""
    env = llm_dec_pomdp.make("tldr-v0")
    model, tokenizer = load_model("builtin:tiny", trained=True)
    policy = LanguageModel(model, tokenizer)
    before = mean_return(env, policy)
    how = {"learning_rate": learning_rate, "lr_scheduler_type": "constant", "max_steps": steps, "seed": seed}
    how |= {"num_generations": GROUP, "per_device_train_batch_size": 2 * 2 * GROUP, "shuffle_dataset": False}
    how |= {"max_completion_length": TOKENS, "save_strategy": "no", "report_to": [], "bf16": False}
    with tempfile.TemporaryDirectory() as folder:
        trainer = trl.GRPOTrainer(
            model,
            joint_reward(env),
            args=trl.GRPOConfig(folder, **how),
            train_dataset=team_dataset(env),
            processing_class=tokenizer,
        )
        trainer.train()
    print(f"seed {seed}: {before:.1f} % before, {mean_return(env, policy):.1f} % after {steps} steps")


if __name__ == "__main__":
    typer.run(main)
