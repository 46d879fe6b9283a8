"""Suites of the leaderboard: their tasks, limits and seed, in files that never change.

A suite fixes everything except the team: environments, rows, protocol options, numbers of episodes, token limits, and
the seed of chance. Its digest is in every submission. A change of any of these is a suite with another name.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import Field

from ..config import Config, Positive, build, read_toml
from ..envs.base import TextDecPOMDP
from ..envs.registration import make
from ..envs.tasks import item_as_json
from ..envs.wrappers import with_protocol
from ..registries import UnknownNameError, nearest
from ..seeding import derive

CHARACTERS = 8  # maximum number of characters of a text per token of its limit
DEFAULT = "board-1"
Protocol = Literal["parallel", "centralized", "sequential", "discussion"]
_SUITES = Path(__file__).parent


class BoardError(ValueError):
    """A submission or a suite that cannot be used; the message names the first problem."""


class Planned(NamedTuple):
    """One episode that a submission must have.

    Attributes:
        item_id: Id of the row.
        seed: Seed of the completions; the environment's chance is seeded by `derive(seed, "env")`.
        changed: The member that is silent or that another team plays; "" if the whole team plays.
    """

    item_id: str
    seed: int
    changed: str = ""


class BoardTask(Config):
    """One environment of a suite, with its rows and limits."""

    environment: str
    """Id with a version; its test rows are played."""
    items: Annotated[list[str], Field(min_length=1)]
    """Ids of the rows, in order."""
    digest: str
    """SHA-256 of these rows, with their references, as JSON."""
    samples: Positive = 1
    """Episodes per row."""
    silent: Positive
    """Number of further episodes with a silent member, spread over the rows; each member is silent in turn. A team with
    a partner team plays as many episodes with a member of that team."""
    max_new_tokens: Positive
    """Token limit of an agent's text; a single agent has this limit for each part that it writes."""
    max_turns: Positive | None = None
    """Turns of an episode. Default: as many as the environment has."""

    @property
    def options(self) -> dict[str, int]:
        """The arguments of the environment's constructor, as the headers of traces have them."""
        return {} if self.max_turns is None else {"max_turns": self.max_turns}

    def protocol(self, protocol: str) -> Protocol:
        """Return the protocol under which a team of the given protocol plays this task.

        The agents of a hierarchy call each other, so every team except a single agent plays it under "parallel".

        Raises:
            BoardError: Suites have no such protocol.
        """
        for known in get_args(Protocol):
            if protocol == known:
                hierarchical = make(self.environment).facts.hierarchical
                return "parallel" if hierarchical and protocol != "centralized" else known
        raise BoardError(f"protocol {protocol!r} is not played; {nearest(protocol, get_args(Protocol))}")

    def env(self, protocol: Protocol) -> TextDecPOMDP:
        """Return the environment with the rows of the suite.

        Raises:
            BoardError: The rows of this installation differ from those of the suite.
        """
        env = make(self.environment, split="test", **self.options)
        rows = {item.id: item for item in env.items}
        items = [rows[name] for name in self.items if name in rows]
        if digest([item_as_json(item) for item in items]) != self.digest:
            raise BoardError(
                f"the rows of {self.environment} in this installation differ from those of the suite; install the "
                "package unchanged, with the embedded data"
            )
        return with_protocol(env.with_items(items), protocol)

    def characters(self, env: TextDecPOMDP) -> int:
        """Return the maximum length of a text, in characters."""
        return CHARACTERS * self.tokens(env)

    def tokens(self, env: TextDecPOMDP) -> int:
        """Return the maximum length of a text, in tokens."""
        return self.max_new_tokens * env.facts.parts_per_action


class BoardSuite(Config):
    """A suite of the leaderboard."""

    name: str
    seed: int
    """Seed of all chance."""
    tasks: list[BoardTask]

    @property
    def digest(self) -> str:
        """The SHA-256 of the suite."""
        return digest(self.model_dump(exclude_unset=True))  # so that later packages may add fields with defaults

    def task(self, environment: str) -> BoardTask:
        """Return the task of an environment.

        Raises:
            UnknownNameError: The suite has no such task.
        """
        tasks = {task.environment: task for task in self.tasks}
        if environment not in tasks:
            raise UnknownNameError(f"{self.name} has no task {environment!r}; {nearest(environment, tasks)}")
        return tasks[environment]

    def plan(self, task: BoardTask) -> list[Planned]:
        """Return the episodes of a task, in order, that the whole team plays."""
        return [
            Planned(item, derive(derive(self.seed, "evaluation", item), number))
            for item in task.items
            for number in range(task.samples)
        ]

    def plan_changed(self, task: BoardTask, env: TextDecPOMDP) -> list[Planned]:
        """Return the episodes of a task with a changed member, in order; [] for a single agent.

        They have the rows and seeds of episodes of the whole team, so both can be compared in pairs.
        """
        members, whole = list(members_of(env)), self.plan(task)
        if len(members) < 2:
            return []
        places = [number * len(whole) // task.silent for number in range(task.silent)]
        return [whole[p]._replace(changed=members[n % len(members)]) for n, p in enumerate(places)]


def members_of(env: TextDecPOMDP) -> dict[str, list[str]]:
    """Return the agents of each member of a team, by the name of the member.

    A member is an agent, and has the name of its role if no other agent has that role. In a hierarchy a member is a
    role: all invocations of a sub-agent.
    """
    roles = [env.role(agent) for agent in env.possible_agents]
    members: dict[str, list[str]] = {}
    for agent, role in zip(env.possible_agents, roles, strict=True):
        shared = env.facts.hierarchical or roles.count(role) == 1
        members.setdefault(role if shared else agent, []).append(agent)
    return members


def load(name: str = DEFAULT) -> BoardSuite:
    """Return a suite of this package.

    Raises:
        BoardError: There is no such suite.
    """
    names = sorted(path.stem for path in _SUITES.glob("*.toml"))
    if name not in names:
        raise BoardError(f"there is no suite {name!r:.60} in this package; {nearest(name, names)}")
    return build(BoardSuite, read_toml(_SUITES / f"{name}.toml"), source=name)


def digest(value: object) -> str:
    """Return the SHA-256 of a plain value as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
