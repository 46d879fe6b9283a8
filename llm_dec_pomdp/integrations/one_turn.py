"""What trainers of single texts have in common: a task is a row, and the texts of its agents are one joint action."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..envs import TextDecPOMDP


def refuse_others(env: TextDecPOMDP, library: str) -> None:
    """Raises ValueError, which names the library, unless the environment has one turn and one reward of the team."""
    if env.max_turns != 1:
        raise ValueError(
            f"the environment has {env.max_turns} turns, and {library} is told one text of each agent; make it with "
            "max_turns=1"
        )
    refuse_individual(env, library)


def refuse_individual(env: TextDecPOMDP, library: str) -> None:
    """Raises ValueError unless the environment has one reward of the team."""
    if not env.facts.joint_reward:
        raise ValueError(
            f"the environment pays its agents individually, and {library} is given the joint reward of a team"
        )


def first_observations(env: TextDecPOMDP, task_id: str) -> Mapping[str, str]:
    """What every agent is told at the beginning of a task."""
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
