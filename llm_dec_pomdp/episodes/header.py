"""The header of a trace: all that is needed to play its texts again, and who played."""

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
FORMAT = 1  # of the header and of the keys that events have beyond the published schema


class TraceError(FileError):
    """A trace, or a file of them, that cannot be used; the message names it, the event, the field and its value."""


class Player(NamedTuple):
    """Who plays an agent.

    Attributes:
        role: Human name of the agent.
        model: Name of the model; "" where nobody said.
        weights: Training steps that its weights have seen.
        sampling: How its texts were drawn, where that is not as the header says for all.
    """

    role: str
    model: str = ""
    weights: int = 0
    sampling: Sampling | None = None

    def to_json(self) -> dict[str, Any]:
        """As a header has it."""
        plain: dict[str, Any] = {"role": self.role, "model": self.model, "weights": self.weights}
        return plain | ({"sampling": self.sampling.model_dump()} if self.sampling else {})


@dataclass(frozen=True)
class Header:
    """What the episodes of one evaluation share.

    Attributes:
        environment: Id.
        options: Arguments of its constructor, as JSON has them; the tasks, which every trace has itself, aside.
        protocol: Communication protocol.
        max_turns: H under the protocol.
        topology: One of the words that the published schema has for it.
        players: By agent, in the order of the environment.
        sampling: How texts were drawn, but for players with a sampling of their own; None where nobody said.
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
        """Describe an environment and who plays it.

        Args:
            env: Under its protocol.
            env_id: Under which it was made; its own name when left out.
            options: That it was made with, `tasks`, `split` and `fields` aside.
            protocol: That it stands under.
            models: Name of the model of every agent, or of them all.
            weights: Training steps that their weights have seen.
            sampling: How texts are drawn.
            samplings: The same of agents whose texts are drawn otherwise.
        """
        names = {agent: models if isinstance(models, str) else models[agent] for agent in env.possible_agents}
        players = {
            agent: Player(env.role(agent), names[agent], weights, (samplings or {}).get(agent))
            for agent in env.possible_agents
        }
        name = env_id or str(env.task.metadata["name"])
        # The schema has no word for teams whose members are alike and do not speak to each other.
        known = {"centralized": "centralized", "discussion": "debate"}
        topology = "hierarchical" if env.facts.hierarchical else known.get(protocol, "unknown")
        return cls(name, dict(options or {}), protocol, env.max_turns, topology, players, sampling)

    def of_task(self, item: TaskItem) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the traces of a task share: of their header; and the task."""
        content = item_as_json(item)
        return {**self.shared, "task": {"id": item.id, "digest": digest(plain_text(content))}}, content

    @functools.cached_property
    def shared(self) -> dict[str, Any]:
        """The part that is the same in every trace, as JSON has it."""
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
    """The reference of a text in a content store: SHA-256 of its UTF-8, lone surrogates kept."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def plain_text(content: str | Mapping[str, Any]) -> str:
    """The text that is hashed for the reference of a content: itself, or its JSON with sorted keys."""
    return content if isinstance(content, str) else _sorted(content)


@functools.lru_cache(maxsize=8)
def _environment(env_id: str, options: str, protocol: str) -> TextDecPOMDP:
    return with_protocol(make(env_id, **json.loads(options)), protocol)


def environment_of(header: Mapping[str, Any], *, trusted: bool = False) -> TextDecPOMDP:
    """The environment of a recorded header.

    Args:
        header: Of a replayable trace.
        trusted: Whether code that only the trace names may be run.

    Raises:
        TraceError: It is code that only a file names, it is unknown, or it does not take its options.
    """
    env_id, options = header["environment"]["id"], header["environment"]["options"]
    if ":" in env_id and not trusted:
        raise TraceError(
            f"event 'e0', field header.environment.id: {env_id!r} is code; look at what it is, and make it yourself "
            "(replay(trace, env))"
        )
    judge = options.get("judge", "")  # a server would be sent the texts
    judges = [] if str(judge).startswith("builtin:") else [judge]
    for model in filter(None, [*map(named_model, options.values()), *judges]):
        raise TraceError(
            f"event 'e0', field header.environment.options: the environment asks the model {model!r}; make it "
            "yourself (replay(trace, env))"
        )
    try:
        return _environment(env_id, json.dumps(options), header["protocol"])
    except (ImportError, KeyError, TypeError, ValueError) as error:
        raise TraceError(f"event 'e0', field header: {env_id} cannot be made: {error}") from error
