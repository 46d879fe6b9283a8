"""Functions for trainers of single completions: a task is a row, and its agents' completions are a joint action."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..envs import TextDecPOMDP


def check_single_turn(env: TextDecPOMDP, library: str) -> None:
    """Raise ValueError unless the environment has one turn and a joint reward; the message names the library."""
    if env.max_turns != 1:
        raise ValueError(
            f"the environment has max_turns {env.max_turns}, but {library} takes one action of each agent; set "
            "max_turns=1"
        )
    check_joint_reward(env, library)


def check_joint_reward(env: TextDecPOMDP, library: str) -> None:
    """Raise ValueError unless the environment has a joint reward."""
    if not env.facts.joint_reward:
        raise ValueError(
            f"the rewards of the environment are individual, but {library} needs the joint reward of a team; choose "
            "another environment"
        )


def first_observations(env: TextDecPOMDP, task_id: str) -> Mapping[str, str]:
    """Return the first observation of every agent in a task."""
    observations, _ = env.reset(options={"task_id": task_id})
    return observations


def team_reward(env: TextDecPOMDP, task_id: str, texts: Sequence[str]) -> float | None:
    """Return the joint reward of the agents' texts, given in agent order; None if they could not be scored."""
    env.reset(options={"task_id": task_id})
    _, rewards, *_ = env.step(dict(zip(env.possible_agents, texts, strict=True)))
    reward = rewards[env.possible_agents[0]]
    return None if math.isnan(reward) else reward


def chat_of(text: str) -> list[dict[str, Any]]:
    """Return an observation as a chat of one user message."""
    return [{"role": "user", "content": text}]
