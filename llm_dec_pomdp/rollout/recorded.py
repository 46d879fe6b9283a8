"""What was said in recorded episodes: of runs, and of traces with their texts in them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

Texts = Mapping[str, Sequence[str]]  # by agent, in their order
T = TypeVar("T")
_EPISODES = "episodes.jsonl"


class Recorded(NamedTuple):
    """An episode as it was recorded.

    Attributes:
        task: Its id.
        texts: What each agent said.
        total: The return; NaN where it is not known.
    """

    task: str
    texts: Texts
    total: float


def files_of(source: str) -> list[Path]:
    """The files that a source means: itself, or the episodes of a run's cell or of all cells of a run; [] for none."""
    path = Path(source)
    if path.is_file():
        return [path]
    return [path / _EPISODES] if (path / _EPISODES).is_file() else sorted(path.glob(f"cells/*/{_EPISODES}"))


def read_rows(path: Path, make: Callable[[Any], T], what: str, shape: str) -> Iterator[T]:
    """Something made of every row of a file.

    Args:
        path: Of JSON lines.
        make: From a row.
        what: It makes, for messages.
        shape: What a row has, for messages.

    Raises:
        ValueError: A row that `make` cannot read, by its number, or a file without rows.
    """
    number = 0
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield make(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(
                    f"{path}, row {number}: is no {what} ({type(error).__name__}: {error}); {shape}"
                ) from None
    if not number:
        raise ValueError(f"{path} is empty; give a file of {what}s")


def recorded_episode(row: Any) -> Recorded:
    """The episode of a row of `episodes.jsonl` (`task` and `turns`), or of a trace (`events`).

    Raises:
        ValueError, KeyError, TypeError, AttributeError: It is none.
    """
    texts: dict[str, list[str]] = {}
    if "events" not in row:
        for agent, text in (pair for turn in row["turns"] for pair in turn["actions"].items()):
            texts.setdefault(agent, []).append(text)
        return Recorded(str(row["task"]), texts, sum(turn.get("reward", math.nan) for turn in row["turns"]))
    total = 0.0
    for event in row["events"]:
        if event["type"] == "message" and event["agent"] != "environment":
            if "content" not in event:
                raise ValueError("a trace without its texts: export it with --texts inline")
            texts.setdefault(event["agent"], []).append(event["content"])
        elif event["type"] == "aggregate":
            total += math.nan if event["reward"] is None else event["reward"]
    return Recorded(str(row["task_id"]), texts, total)
