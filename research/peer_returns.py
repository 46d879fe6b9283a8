"""Compare MAGRPO of this package and of comlrl on one environment: held-out and training returns, and seconds.

    python research/peer_returns.py FILE --sides llm_dec_pomdp --learning-rate 6e-4 [--seeds 0 1 2]

Requires comlrl: pip install comlrl==1.4.3. Both sides run one after the other in this process. They share the
environment object, the initial models (a `builtin:tiny` for each agent), the order of the tasks, temperature 1 without
top-p or top-k, the number of completions and updates, and the learning rate of AdamW. This package measures the return
on the test posts for both. Seconds cover training only; compare processor seconds on a machine with other load.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ |= {"WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import raw_data
import torch

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.envs import TextDecPOMDP
from llm_dec_pomdp.integrations import comlrl as adapter
from llm_dec_pomdp.integrations.libraries import require
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.training import TrainerConfig, TrainingStep, train
from llm_dec_pomdp.training.loop import tasks_of_step

PROMPTS, GROUP, TOKENS, SAMPLES = 4, 4, 64, 4


class Meter:
    """Timer of one training: wall time and processor time."""

    def __init__(self) -> None:
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Return the seconds since the timer was created."""
        return {"wall": time.perf_counter() - self.wall, "processor": time.process_time() - self.processor}


def percent(values: Sequence[float], env: TextDecPOMDP) -> float:
    """Return the mean return in % of the maximum."""
    return 100 * math.fsum(values) / len(values) / env.facts.max_return


def held_out(team: Team, sampling: Sampling) -> float:
    """Compute the return on the test posts. A padding token also ends a text, for both sides, as in comlrl."""
    env = llm_dec_pomdp.make("tldr-v0", split="test")
    for policy in team.members.values():
        assert isinstance(policy, LanguageModel)
        policy.stop_ids |= {policy.pad_id}
    ids = [item.id for item in env.items]
    groups = Trajectories().play(env, team, ids, range(len(ids)), sampling, SAMPLES)
    return percent([episode.total for group in groups for episode in group.episodes], env)


def train_ours(env: TextDecPOMDP, team: Team, sampling: Sampling, steps: int, rate: float, seed: int) -> dict[str, Any]:
    """Train with this package, and return the training returns and times."""
    done: list[TrainingStep] = []
    learner = MAGRPO(team, sampling, MAGRPOConfig(learning_rate=rate))
    meter = Meter()
    train(
        learner,
        env,
        sampling,
        TrainerConfig(steps=steps, prompts_per_step=PROMPTS, group_size=GROUP),
        seed,
        done.append,
    )
    return {
        "seconds": meter.read(),
        "training": [step.return_percent for step in done],
        "tokens": sum(step.metrics["tokens"] for step in done) * len(env.possible_agents),
    }


def train_theirs(
    env: TextDecPOMDP, team: Team, sampling: Sampling, steps: int, rate: float, seed: int
) -> dict[str, Any]:
    """Train with comlrl, which changes the models of the team in place."""
    from comlrl.trainers.reinforce import MAGRPOConfig as TheirConfig
    from comlrl.trainers.reinforce import MAGRPOTrainer

    torch.manual_seed(seed)
    policies: list[Any] = list(team.members.values())
    order = [task_id for number in range(1, steps + 1) for task_id in tasks_of_step(env, PROMPTS, number, seed)]
    options = {"num_train_epochs": 1, "agent_learning_rate": rate, "num_agents": 2, "agent_devices": "cpu"}
    options |= {"num_generations": GROUP, "max_new_tokens": sampling.max_new_tokens, "temperature": 1.0, "top_p": 1.0}
    options |= {"top_k": 0, "num_turns": 1, "eval_interval": 0}
    options |= {"rollout_buffer_size": PROMPTS, "train_batch_size": PROMPTS}
    rewards: list[float] = []
    tokens = 0
    reward = adapter.joint_reward(env)

    def noted(*texts: Sequence[str], batch_items: Any) -> list[float]:
        rewards.extend(earned := reward(*texts, batch_items=batch_items))
        return earned

    trainer = MAGRPOTrainer(
        agents=[policy.model for policy in policies],
        num_agents=2,
        tokenizer=policies[0].tokenizer,
        train_dataset=adapter.task_dataset(env, order),
        formatters=adapter.formatters(env, policies[0].tokenizer),
        reward_func=noted,
        args=TheirConfig(**options),
        wandb_config=None,
    )
    trainer.verbose = False
    generate = trainer._generate_completions

    def counted(*given: Any, **options: Any) -> Any:
        nonlocal tokens
        drawn = generate(*given, **options)
        tokens += sum(drawn["response_lens"])
        return drawn

    trainer._generate_completions = counted
    meter = Meter()
    trainer.train()
    seconds = meter.read()
    for policy in policies:
        policy.model.eval()
    each = len(rewards) // steps
    training = [percent(rewards[start : start + each], env) for start in range(0, len(rewards), each)]
    return {"seconds": seconds, "training": training, "tokens": tokens}


SIDES = {"llm_dec_pomdp": train_ours, "comlrl": train_theirs}


def main() -> None:
    """Train, measure, and add every run to the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--learning-rate", type=float, default=6e-4)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    arguments = parser.parse_args()
    require("comlrl")
    env, sampling = llm_dec_pomdp.make("tldr-v0"), Sampling(max_new_tokens=TOKENS)
    versions = {name: version(name) for name in ("comlrl", "torch", "transformers")}
    versions["llm_dec_pomdp"] = llm_dec_pomdp.__version__
    result = {"threads": torch.get_num_threads(), "versions": versions}
    there = raw_data.read(arguments.out) if arguments.out.exists() else result | {"runs": []}
    if any(there[name] != result[name] for name in result):
        parser.error(f"{arguments.out} has runs with other settings: {there | {'runs': '...'}}; give another file")
    runs: list[dict[str, Any]] = there["runs"]
    before = held_out(load_team(env.possible_agents, "builtin:tiny"), sampling)
    for seed in arguments.seeds:
        for side in arguments.sides:
            team = load_team(env.possible_agents, "builtin:tiny")
            run = SIDES[side](env, team, sampling, arguments.steps, arguments.learning_rate, seed)
            run |= {"side": side, "seed": seed, "learning_rate": arguments.learning_rate}
            run |= {"before": before, "after": held_out(team, sampling)}
            runs.append(run)
            raw_data.write(arguments.out, result | {"runs": runs})
            print(f"seed {seed}, {side}: {before:.1f} -> {run['after']:.1f} %, {run['seconds']['processor']:.0f} s")


if __name__ == "__main__":
    main()
