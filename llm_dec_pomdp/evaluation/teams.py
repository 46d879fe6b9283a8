"""Who plays an environment: the model where none is named, and what the members of a team need to know of it."""

from __future__ import annotations

from typing import Any

from ..agents.loading import TABLE, TINY
from ..agents.word_model import NAME as WORDS
from ..envs.base import TextDecPOMDP


def default_model(env: TextDecPOMDP, *, shows_texts: bool = False) -> str:
    """The model that plays where none is named.

    Args:
        env: The environment, under the protocol of the team.
        shows_texts: Policies are shown the texts of others, which tables cannot be.

    Returns:
        A table where every agent has a few texts to choose from, a model of words where there are few, or the small
        language model.
    """
    known = known_of(env)
    if all(known["menus"].values()) and not shows_texts:
        return TABLE
    return WORDS if known["vocabulary"] else TINY


def known_of(env: TextDecPOMDP, *others: TextDecPOMDP) -> dict[str, Any]:
    """What members may need to know of an environment, as arguments of `assemble_team`.

    These are the roles of its agents, their menus, its words and its scripts; references are those of `others` too.
    """
    agents = env.possible_agents
    tasks: list[Any] = [known.task for known in (env, *others)]

    def gold() -> dict[tuple[str, str], str]:
        tables = [task.gold_table() for task in tasks]
        return {key: text for table in tables for key, text in table.items()}

    return {
        "roles": [env.role(agent) for agent in agents],
        "menus": {agent: env.menu(agent) for agent in agents},
        "vocabulary": tasks[0].vocabulary,
        "gold": gold,
        "scripts": tasks[0].scripts,
        "choices": tasks[0].choices,
    }
