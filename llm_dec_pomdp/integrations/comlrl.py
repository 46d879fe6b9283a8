"""comlrl's trainers (MAGRPO and its relatives) on an environment of one turn.

    from llm_dec_pomdp.integrations.comlrl import formatters, joint_reward, task_dataset

    env = llm_dec_pomdp.make("tldr-v0")
    MAGRPOTrainer(
        agents=models, num_agents=2, tokenizer=tokenizer, args=MAGRPOConfig(num_turns=1, num_agents=2),
        train_dataset=task_dataset(env), formatters=formatters(env, tokenizer), reward_func=joint_reward(env),
    )

A row of the data set is a task. A formatter returns the first observation of its agent, in the chat template of the
model. Environments of several turns are refused, since comlrl's reward functions do not receive the actions of earlier
turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..envs import TextDecPOMDP
from .one_turn import chat_of, check_single_turn, first_observations, team_reward

if TYPE_CHECKING:
    from datasets import Dataset

Formatter = Callable[[Mapping[str, Any]], str]


def task_dataset(env: TextDecPOMDP, task_ids: Sequence[str] | None = None) -> Dataset:
    """Return a data set with one row per task: `prompt` (its text) and `task_id`.

    Args:
        env: An environment with one turn and a joint reward.
        task_ids: The order of training, possibly with repetitions. Default: each task once.

    Raises:
        ValueError: The environment has several turns or individual rewards.
    """
    from datasets import Dataset

    check_single_turn(env, "comlrl")
    prompts = {item.id: item.prompt for item in env.items}
    order = prompts if task_ids is None else task_ids
    return Dataset.from_list([{"prompt": prompts[task_id], "task_id": task_id} for task_id in order])


def formatters(env: TextDecPOMDP, tokenizer: Any) -> list[Formatter]:
    """Return a function for each agent that returns its prompt for a row, in the tokenizer's chat template."""
    check_single_turn(env, "comlrl")

    def formatter(agent: str) -> Formatter:
        def prompt(row: Mapping[str, Any]) -> str:
            chat = chat_of(first_observations(env, row["task_id"])[agent])
            return tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)

        return prompt

    return [formatter(agent) for agent in env.possible_agents]


def joint_reward(env: TextDecPOMDP) -> Callable[..., list[float]]:
    """Return the reward function, which receives each agent's completions and the row of their task.

    When called, it raises ValueError if a joint action could not be scored, since comlrl accepts no missing rewards.

    Raises:
        ValueError: The environment has several turns or individual rewards.
    """
    check_single_turn(env, "comlrl")

    def reward(*texts: Sequence[str], batch_items: Sequence[Mapping[str, Any]]) -> list[float]:
        [row] = batch_items  # comlrl trains on one task at a time
        rewards = [team_reward(env, row["task_id"], joint) for joint in zip(*texts, strict=True)]
        if None in rewards:
            raise ValueError(
                f"a joint action of task {row['task_id']!r} could not be scored ({env.last_score}), and comlrl accepts "
                "no missing rewards; train on tasks whose judge does not fail"
            )
        return [value for value in rewards if value is not None]

    return reward
