"""Evaluated episodes as lines of a file: what everybody saw and said, and what it was worth."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pydantic
from typing_extensions import NotRequired, TypedDict  # pydantic reads that of typing from Python 3.12 on

from ..storage.files import replacing
from ..storage.secrets import masked
from ..types import Completion, Episode, Event, Group, Score, Turn

BEFORE_TRAINING, AT_THE_END = "start.jsonl", "episodes.jsonl"  # files of a cell
_Tokens = Annotated[int, pydantic.Field(ge=0, le=1 << 20)]  # of one text, which are made again, with 0 for each
_Numbers = dict[str, float | None]
_Logged = pydantic.FiniteFloat | None  # null where it was not finite


class TurnRecord(TypedDict):
    """A turn as a line of a file holds it; older files lack what need not be there."""

    observations: dict[str, str]
    actions: dict[str, str]
    tokens: NotRequired[dict[str, tuple[_Tokens, _Tokens]]]
    seconds: NotRequired[dict[str, float]]
    truncated: NotRequired[list[str]]
    reward: float
    rewards: NotRequired[dict[str, float]]
    score: NotRequired[float | None]
    components: _Numbers | None
    diagnostics: NotRequired[_Numbers | None]
    notes: NotRequired[dict[str, str] | None]
    events: NotRequired[list[tuple[str, str, dict[str, str]]]]
    told: NotRequired[dict[str, str]]


EpisodeRecord = TypedDict(
    "EpisodeRecord",
    {
        "task": str,
        "seed": NotRequired[int],
        "return": NotRequired[float | None],
        "terminated": NotRequired[bool],
        "turns": Annotated[list[TurnRecord], pydantic.Field(min_length=1)],
    },
)


class StepRecord(TypedDict):
    """A line of `train.jsonl`: what readers of runs need of a training step."""

    number: int
    episodes: NotRequired[int]
    mean_return: NotRequired[_Logged]
    return_percent: NotRequired[_Logged]
    components: NotRequired[dict[str, _Logged]]
    metrics: dict[str, _Logged]


class MeanRecord(TypedDict):
    """An interval as a line of a file holds it."""

    mean: float | None
    low: float | None
    high: float | None


RegretRecord = TypedDict("RegretRecord", {"return": MeanRecord, "regret": MeanRecord, "optimum": MeanRecord})


class MeasuredRecord(TypedDict):
    """What readers of runs need of the sections of a report, of which most measure nothing in most environments."""

    regret: NotRequired[RegretRecord]


class PointRecord(TypedDict):
    """A line of `curve.jsonl`: what readers of runs need of an evaluation during training."""

    step: int
    training_episodes: int
    return_percent: MeanRecord
    components: NotRequired[dict[str, MeanRecord]]
    distinct_2: NotRequired[float | None]
    truncated: NotRequired[float | None]
    measured: NotRequired[MeasuredRecord]


def write_episodes(path: Path, groups: Sequence[Group]) -> None:
    """Write a file with a line for each episode."""
    with replacing(path) as place, place.open("wb") as file:
        file.writelines(
            masked(json.dumps(episode_record(e)).encode()) + b"\n" for group in groups for e in group.episodes
        )


def episode_record(episode: Episode) -> dict[str, Any]:
    """An episode as plain values; of tokens only their number."""
    return {
        "task": episode.item_id,
        "seed": episode.seed,
        "return": episode.total,
        "terminated": episode.terminated,
        "turns": [_turn_record(turn) for turn in episode.turns],
    }


def _turn_record(turn: Turn) -> dict[str, Any]:
    said = turn.actions.items()
    return {
        "observations": dict(turn.observations),
        "actions": {agent: c.text for agent, c in said},
        "tokens": {agent: [len(c.prompt_ids), len(c.token_ids)] for agent, c in said},
        "seconds": {agent: c.seconds for agent, c in said},
        "truncated": [agent for agent, c in said if c.truncated],
        "reward": turn.reward,
        "rewards": dict(turn.rewards),
        "score": turn.score.total if turn.score else None,
        "components": dict(turn.score.components) if turn.score else None,
        "diagnostics": dict(turn.score.diagnostics) if turn.score else None,
        "notes": dict(turn.score.notes) if turn.score else None,
        "events": [[event.kind, event.agent, dict(event.details)] for event in turn.events],
        "told": dict(turn.told),
    }


def recorded_episode(record: EpisodeRecord) -> Episode:
    """The inverse of `episode_record`, with 0 for every token, since only their number is known.

    Older records have no events, seconds and individual rewards; the oldest have no seed and no end.
    """
    turns: Sequence[Mapping[str, Any]] = record["turns"]
    seed, terminated = record.get("seed", 0), record.get("terminated", False)
    return Episode(str(record["task"]), seed, tuple(map(_recorded_turn, turns)), terminated)


def _recorded_turn(turn: Mapping[str, Any]) -> Turn:
    score = None
    if turn["components"] is not None:
        total = turn.get("score", turn["reward"])
        facts: Mapping[str, float] = turn.get("diagnostics") or {}
        notes: Mapping[str, str] = turn.get("notes") or {}
        score = Score(math.nan if total is None else total, turn["components"], facts, notes)
    return Turn(
        turn["observations"],
        {agent: _completion(turn, agent, text) for agent, text in turn["actions"].items()},
        turn["reward"],
        score,
        turn.get("rewards", {}),
        tuple(Event(*event) for event in turn.get("events", ())),
        turn.get("told", {}),
    )


def _completion(turn: Mapping[str, Any], agent: str, text: str) -> Completion:
    prompt, sampled = turn.get("tokens", {}).get(agent, (0, 0))
    seconds = turn.get("seconds", {}).get(agent, 0.0)
    return Completion(text, (0,) * prompt, (0,) * sampled, (), agent in turn.get("truncated", ()), seconds)
