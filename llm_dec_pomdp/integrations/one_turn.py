"""What trainers of single texts have in common: a task is a row, and the texts of its agents are one joint action."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..envs import TextDecPOMDP


def check_single_turn(env: TextDecPOMDP, library: str) -> None:
    """Raise ValueError unless the environment has one turn and a joint reward; `library` is named in the message."""
    if env.max_turns != 1:
        raise ValueError(
            f"the environment has {env.max_turns} turns, and {library} takes one text of each agent; set max_turns=1"
        )
    check_joint_reward(env, library)


def check_joint_reward(env: TextDecPOMDP, library: str) -> None:
    """Raise ValueError unless the environment has a joint reward."""
    if not env.facts.joint_reward:
        raise ValueError(
            f"the rewards of the environment are individual, and {library} takes the joint reward of a team"
        )


def first_observations(env: TextDecPOMDP, task_id: str) -> Mapping[str, str]:
    """Return the first observation of every agent in a task."""
    observations, _ = env.reset(options={"task_id": task_id})
    return observations


def team_reward(env: TextDecPOMDP, task_id: str, texts: Sequence[str]) -> float | None:
    """The joint reward of the agents' texts, in their order; None where they could not be scored."""
    env.reset(options={"task_id": task_id})
    _, rewards, *_ = env.step(dict(zip(env.possible_agents, texts, strict=True)))
    reward = rewards[env.possible_agents[0]]
    return None if math.isnan(reward) else reward


def chat_of(text: str) -> list[dict[str, Any]]:
    """What an agent is told first, as a chat."""
    return [{"role": "user", "content": text}]
