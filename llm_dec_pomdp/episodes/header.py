"""The header of a trace: the data for a replay, and the agents with their models."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..__about__ import __version__
from ..agents.base import Sampling
from ..config import named_model
from ..envs.base import TextDecPOMDP
from ..envs.registration import make
from ..envs.tasks import item_as_json
from ..envs.wrappers import with_protocol
from ..storage.reading import FileError
from ..types import TaskItem

encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False, default=float).encode
_sorted = json.JSONEncoder(sort_keys=True).encode
HUMAN = "human"  # name of the model of a person
FORMAT = 1  # version of the header and of the keys that extend the published schema


class TraceError(FileError):
    """A trace or a file of traces that cannot be used; the message names the event, the field and its value."""


class Player(NamedTuple):
    """The model of an agent.

    Attributes:
        role: Role of the agent.
        model: Name of the model; "" if unknown, `HUMAN` for a person.
        weights: Number of training steps of its weights.
        sampling: Sampling options, if they differ from those of the header.
    """

    role: str
    model: str = ""
    weights: int = 0
    sampling: Sampling | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the player as JSON."""
        plain: dict[str, Any] = {"role": self.role, "model": self.model, "weights": self.weights}
        return plain | ({"sampling": self.sampling.model_dump()} if self.sampling else {})


@dataclass(frozen=True)
class Header:
    """The data that all episodes of one evaluation share.

    Attributes:
        environment: Id of the environment.
        options: Arguments of its constructor as JSON, without the tasks, which are in each trace.
        protocol: Communication protocol.
        max_turns: Horizon H under the protocol, in turns.
        topology: "hierarchical", "centralized", "debate" or "unknown"; words of the trace schema.
        players: The model of each agent, in the order of the environment.
        sampling: Sampling options of all players without their own; None if unknown.
    """

    environment: str
    options: Mapping[str, Any]
    protocol: str
    max_turns: int
    topology: str
    players: Mapping[str, Player]
    sampling: Sampling | None = None

    @classmethod
    def of(
        cls,
        env: TextDecPOMDP,
        env_id: str | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        protocol: str = "parallel",
        models: Mapping[str, str] | str = "",
        weights: int = 0,
        sampling: Sampling | None = None,
        samplings: Mapping[str, Sampling] | None = None,
    ) -> Header:
        """Build the header of an environment and the models of its agents.

        Args:
            env: The environment, under its protocol.
            env_id: Id under which it was made; default: its own name.
            options: Options with which it was made, without `tasks`, `split` and `fields`.
            protocol: Communication protocol.
            models: Name of the model of each agent, or of all agents.
            weights: Number of training steps of the weights.
            sampling: Sampling options.
            samplings: Sampling options of agents that differ.
        """
        names = {agent: models if isinstance(models, str) else models[agent] for agent in env.possible_agents}
        players = {
            agent: Player(env.role(agent), names[agent], weights, (samplings or {}).get(agent))
            for agent in env.possible_agents
        }
        name = env_id or str(env.task.metadata["name"])
        # The schema has no word for teams of equal agents without communication.
        known = {"centralized": "centralized", "discussion": "debate"}
        topology = "hierarchical" if env.facts.hierarchical else known.get(protocol, "unknown")
        return cls(name, dict(options or {}), protocol, env.max_turns, topology, players, sampling)

    def of_task(self, item: TaskItem) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the common part of the headers of a task's traces, and the task as JSON."""
        content = item_as_json(item)
        return {**self.shared, "task": {"id": item.id, "digest": digest(plain_text(content))}}, content

    @functools.cached_property
    def shared(self) -> dict[str, Any]:
        """The part of the header that all traces share, as JSON."""
        return {
            "format": FORMAT,
            "version": __version__,
            "environment": {"id": self.environment, "options": dict(self.options)},
            "protocol": self.protocol,
            "max_turns": self.max_turns,
            "players": {agent: player.to_json() for agent, player in self.players.items()},
            "sampling": self.sampling.model_dump() if self.sampling else None,
        }


def digest(text: str) -> str:
    """Return the reference of a text in a content store: the SHA-256 of its UTF-8, with lone surrogates kept."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def plain_text(content: str | Mapping[str, Any]) -> str:
    """Return the text that is hashed for a content: the text itself, or JSON with sorted keys."""
    return content if isinstance(content, str) else _sorted(content)


@functools.lru_cache(maxsize=8)
def _environment(env_id: str, options: str, protocol: str) -> TextDecPOMDP:
    return with_protocol(make(env_id, **json.loads(options)), protocol)


def environment_of(header: Mapping[str, Any], *, trusted: bool = False) -> TextDecPOMDP:
    """Return the environment of a recorded header.

    Args:
        header: Header of a replayable trace.
        trusted: Whether code that only the trace names may be run.

    Raises:
        TraceError: The environment is code that only the trace names, needs a model, is unknown, or refuses its
            options.
    """
    env_id, options = header["environment"]["id"], header["environment"]["options"]
    if ":" in env_id and not trusted:
        raise TraceError(
            f"event 'e0', field header.environment.id: {env_id!r} is code that only the trace names; inspect it, and "
            "make the environment yourself (replay(trace, env))"
        )
    judge = options.get("judge", "")  # a server would receive the texts
    judges = [] if str(judge).startswith("builtin:") else [judge]
    for model in filter(None, [*map(named_model, options.values()), *judges]):
        raise TraceError(
            f"event 'e0', field header.environment.options: the environment asks the model {model!r}; make the "
            "environment yourself (replay(trace, env))"
        )
    try:
        return _environment(env_id, json.dumps(options), header["protocol"])
    except (ImportError, KeyError, TypeError, ValueError) as error:
        raise TraceError(f"event 'e0', field header: {env_id} cannot be made: {error}") from error
