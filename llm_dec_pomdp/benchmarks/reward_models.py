"""Reward models by name: the trained team of a run of `reward_model`, or any language model."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..agents.io.load import check_model, load_team
from ..agents.io.save import DESCRIPTION, load_weights, read_description
from ..agents.judges import ModelJudge, value
from ..agents.options import ModelOptions
from ..training.checkpoint import find_team
from ..types import Message
from .suite import Cell

_AGENT = "agent_0"
_LIMIT = 512  # tokens of a joint action, for a model that was not trained here


@dataclass(frozen=True)
class LearnedScore:
    """A reward model that is loaded at the first call, once in a process.

    Attributes:
        name: Folder of a run of `reward_model`, of one of its cells or of its team; or name of a model.
        roles: Number of parts of a joint action.
        vocabulary: Words of the environment, for builtin:words.

    Raises:
        CheckpointError: The run has no trained team.
        ModelError: The name is neither a run nor a model.
    """

    name: str
    roles: int
    vocabulary: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if _saved(self.name) is None:
            check_model(self.name)

    def __call__(self, history: Sequence[Message], text: str) -> float:
        """Return the score of a joint action after a history."""
        [likelihood] = _load(self).log_likelihoods([tuple(history)], [text])
        return value(likelihood)


def _saved(name: str) -> Path | None:
    """Return the folder of the saved team of a run; None if the name is the name of a model."""
    place = Path(name)
    if not (any(place.glob("cells/*/cell.json")) or (place / "cell.json").is_file() or (place / DESCRIPTION).is_file()):
        return None
    return find_team(place)


@functools.lru_cache(maxsize=2)
def _load(learnt: LearnedScore) -> ModelJudge:
    saved = _saved(learnt.name)
    name, options, limit = learnt.name, ModelOptions().options(), _LIMIT
    if saved is not None:
        cell = Cell.from_dict(read_description(saved))
        name, options = cell.model.name, cell.model.options()
        limit = cell.sampling.max_new_tokens * learnt.roles
    team = load_team([_AGENT], name, vocabulary=learnt.vocabulary, **options)
    if saved is not None:
        load_weights(saved, team)
    return ModelJudge(team.members[_AGENT], name, agent=_AGENT, limit=limit)
