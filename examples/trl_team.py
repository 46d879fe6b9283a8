# pyright: basic, reportMissingImports=false
"""A team of two that shares its weights, trained over two turns by GRPOTrainer of TRL.

pip install torch==2.13.0 trl==1.16.0, then python trl_team.py. The program prints the mean return of 64 episodes on
training tasks before and after training, in percent of the maximum. With --learning-rate 0 nothing is trained.
"""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

import trl
import typer

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.io.models import load_model
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.integrations.trl import episode_return, rollout_func, team_dataset
from llm_dec_pomdp.rollout import Trajectories

TOKENS, GROUP, TASKS = 20, 8, 4


def mean_return(env: llm_dec_pomdp.envs.TextDecPOMDP, policy: LanguageModel) -> float:
    """Return the mean return of the team, in percent of the maximum."""
    team = Team(dict.fromkeys(env.possible_agents, policy))
    items = [item.id for item in env.items[:16]]
    groups = Trajectories().play(env, team, items, list(range(16)), Sampling(max_new_tokens=TOKENS), 4)
    totals = [episode.total for group in groups for episode in group.episodes]
    return 100 * math.fsum(totals) / len(totals) / env.facts.max_return


def main(steps: int = 30, learning_rate: float = 1e-3, seed: int = 0, out: Path | None = None) -> None:
    """Train, print the results, and add the run to a file."""
    env = llm_dec_pomdp.make("telegrams-v0", n_agents=2, max_turns=2)
    model, tokenizer = load_model("builtin:tiny", trained=True)
    before = mean_return(env, LanguageModel(model, tokenizer))
    fit = {"learning_rate": learning_rate, "lr_scheduler_type": "constant", "max_steps": steps, "seed": seed}
    fit |= {"num_generations": GROUP, "per_device_train_batch_size": 2 * GROUP * TASKS, "shuffle_dataset": False}
    fit |= {"max_completion_length": TOKENS, "save_strategy": "no", "report_to": [], "bf16": False, "logging_steps": 1}
    data = team_dataset(env)
    with tempfile.TemporaryDirectory() as folder:
        args = trl.GRPOConfig(folder, **fit)
        parts = {"args": args, "train_dataset": data, "processing_class": tokenizer, "rollout_func": rollout_func(env)}
        trainer = trl.GRPOTrainer(model, episode_return, **parts)
        trainer.train()
    after = mean_return(env, LanguageModel(model, tokenizer))
    print(f"seed {seed}: {before:.1f} % before, {after:.1f} % after {steps} steps")
    if out is not None:
        curve = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
        run = {"seed": seed, "learning_rate": learning_rate, "before": before, "after": after, "rewards": curve}
        out.write_text(json.dumps([*(json.loads(out.read_text()) if out.exists() else []), run], indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
