"""TRL's GRPOTrainer on an environment of one turn, for teams that share their weights.

    from llm_dec_pomdp.integrations.trl import joint_reward, team_dataset

    env = llm_dec_pomdp.make("tldr-v0")
    GRPOTrainer(model, joint_reward(env), args=GRPOConfig(shuffle_dataset=False, ...), train_dataset=team_dataset(env))

A row of the data set is what one agent of a task is told. The g-th texts of a task's agents are one joint action, and
each earns its joint reward; the advantage that GRPO computes within a prompt is then that of MAGRPO (arXiv:2508.04652)
with aligned texts and shared weights. So all rows of a task have to be in one batch: keep `shuffle_dataset=False`, and
let `per_device_train_batch_size` be a multiple of agents x `num_generations`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..envs import TextDecPOMDP

if TYPE_CHECKING:
    from datasets import Dataset

Reward = Callable[..., list[float | None]]


def team_dataset(env: TextDecPOMDP) -> Dataset:
    """A row for each agent of each task, those of a task adjacent: `prompt` (a chat), `task_id`, `agent`.

    Raises:
        ValueError: The environment has several turns.
    """
    from datasets import Dataset

    _refuse_turns(env)
    rows: list[dict[str, Any]] = []
    for item in env.items:
        observations, _ = env.reset(options={"task_id": item.id})
        for agent in env.possible_agents:
            told = [{"role": "user", "content": observations[agent]}]
            rows.append({"prompt": told, "task_id": item.id, "agent": agent})
    return Dataset.from_list(rows)


def joint_reward(env: TextDecPOMDP) -> Reward:
    """The reward function of the environment, for GRPOTrainer's `reward_funcs`.

    It gives the joint reward of every joint action to each of its texts, and None for what could not be scored. It
    raises ValueError where the texts of a task's other agents are not in the same batch.
    """
    _refuse_turns(env)

    def reward(
        completions: Sequence[Any], task_id: Sequence[str], agent: Sequence[str], **columns: Any
    ) -> list[float | None]:
        places: dict[str, dict[str, list[int]]] = {}
        for place, (task, who) in enumerate(zip(task_id, agent, strict=True)):
            places.setdefault(task, {}).setdefault(who, []).append(place)
        rewards: list[float | None] = [None] * len(completions)
        for task, of_agents in places.items():
            _refuse_parted(env, task, of_agents)
            for joint in zip(*(of_agents[who] for who in env.possible_agents), strict=True):
                env.reset(options={"task_id": task})
                texts = [_text(completions[place]) for place in joint]
                _, earned, *_ = env.step(dict(zip(env.possible_agents, texts, strict=True)))
                value = earned[env.possible_agents[0]]
                for place in joint:
                    rewards[place] = None if math.isnan(value) else value
        return rewards

    reward.__name__ = "joint_reward"  # under which TRL logs it
    return reward


def _refuse_turns(env: TextDecPOMDP) -> None:
    if env.max_turns != 1:
        raise ValueError(
            f"the environment has {env.max_turns} turns, and a row of TRL has one; make it with max_turns=1"
        )
    if not env.joint_reward:
        raise ValueError("the environment pays its agents individually, and TRL is given the joint reward of a team")


def _refuse_parted(env: TextDecPOMDP, task: str, of_agents: Mapping[str, Sequence[int]]) -> None:
    counts = {who: len(of_agents.get(who, ())) for who in env.possible_agents}
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"a batch holds different numbers of texts of the agents of task {task!r} ({counts}), which are one joint "
            "action; set shuffle_dataset=False and per_device_train_batch_size to a multiple of "
            f"{len(env.possible_agents)} x num_generations"
        )


def _text(completion: Any) -> str:
    """Of a chat as TRL makes it, or a plain text."""
    return completion if isinstance(completion, str) else completion[-1]["content"]
