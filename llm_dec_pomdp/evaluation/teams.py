"""The default model of an environment, and the data of an environment that the agents of a team need."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from ..agents.io.models import TABLE, TINY
from ..agents.word_model import NAME as WORDS
from ..envs.base import Script, TextDecPOMDP
from ..types import Message

MOST_TASKS = 100  # tasks of an environment for which a table is the default


def default_model(env: TextDecPOMDP, *, shows_texts: bool = False) -> str:
    """Return the name of the model that is used by default.

    Args:
        env: The environment, under the protocol of the team.
        shows_texts: Whether policies are trained on given texts, which a table does not support.

    Returns:
        The model that the environment names (`Facts.default_model`). Otherwise `builtin:table`, if every agent chooses
        from a list of actions and there are at most `MOST_TASKS` tasks, since a table learns each task separately;
        else `builtin:words`, if the vocabulary is small; else `builtin:tiny`.
    """
    known, named = known_of(env), env.task.facts.default_model
    if named and not shows_texts:
        return named
    if all(known["menus"].values()) and len(env.items) <= MOST_TASKS and not shows_texts:
        return TABLE
    return WORDS if known["vocabulary"] else TINY


def known_of(env: TextDecPOMDP, *others: TextDecPOMDP) -> dict[str, Any]:
    """Return the arguments of `assemble_team` that come from an environment.

    These are the roles of its agents, their possible actions, its vocabulary, and its scripts. The scripts also know
    the tasks of the environments in `others`.
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
    """Return a script that acts as the first of these scripts that knows the task of a history."""

    def say(agent: str, history: Sequence[Message]) -> str:
        for script in scripts[:-1]:
            with contextlib.suppress(KeyError, ValueError):
                return script(agent, history)
        return scripts[-1](agent, history)

    return say
