"""Who plays an environment: the model where none is named, and what the members of a team need to know of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from ..agents.loading import TABLE, TINY
from ..agents.word_model import NAME as WORDS
from ..envs.base import Script, TextDecPOMDP
from ..types import Message

MOST_TASKS = 100  # that a table learns by default


def default_model(env: TextDecPOMDP, *, shows_texts: bool = False) -> str:
    """The model that plays where none is named.

    Args:
        env: The environment, under the protocol of the team.
        shows_texts: Policies are shown the texts of others, which only language models can be.

    Returns:
        The model that the environment names (`Facts.default_model`). Where it names none: a table, if every agent has
        a few texts to choose from and tasks are few too, since it learns each by itself; a model of words, if there are
        few words; else the small language model.
    """
    known, named = known_of(env), env.task.facts.default_model
    if named and not shows_texts:
        return named
    if all(known["menus"].values()) and len(env.items) <= MOST_TASKS and not shows_texts:
        return TABLE
    return WORDS if known["vocabulary"] else TINY


def known_of(env: TextDecPOMDP, *others: TextDecPOMDP) -> dict[str, Any]:
    """What members may need to know of an environment, as arguments of `assemble_team`.

    These are the roles of its agents, what they may say, its words, and its scripts, which know the tasks of `others`
    too.
    """
    agents, tasks = env.possible_agents, [known.task for known in (env, *others)]

    def script(name: str) -> Script:
        return _first_that_knows([task.script(name) for task in tasks])

    return {
        "roles": [env.role(agent) for agent in agents],
        "menus": {agent: env.choices(agent) for agent in agents},
        "vocabulary": tasks[0].facts.vocabulary,
        "excerpt": tasks[0].facts.excerpt,
        "scripts": tasks[0].facts.scripts,
        "script": script,
        "choices": tasks[0].choices,
    }


def _first_that_knows(scripts: Sequence[Script]) -> Script:
    """What the first script says that knows the task of a history."""

    def say(agent: str, history: Sequence[Message]) -> str:
        for script in scripts[:-1]:
            with contextlib.suppress(KeyError, ValueError):
                return script(agent, history)
        return scripts[-1](agent, history)

    return say
