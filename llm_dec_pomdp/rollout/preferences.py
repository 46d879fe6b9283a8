"""Recorded preference pairs of episodes, tokenized for the policies that are trained on them."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..seeding import derive, generator
from ..types import Group
from .base import Batch, BatchRollout
from .recorded import Recorded, files_of, of_task, play_recorded, read_rows, recorded_episode, texts_of

Choice = Literal["extremes", "all", "random"]
_ROUNDING = 1e-12  # returns closer than this are equal; relative to their size if they are larger than 1
_SHAPE = (
    "give rows with `task`, and `chosen` and `rejected` with a text or a list of texts for every agent; or episodes of "
    "a run or a trace (`task_id`, `events`) with their texts"
)


class Pair(NamedTuple):
    """Two episodes of a task, of which the first is preferred."""

    chosen: Recorded
    rejected: Recorded


def pairs_by_return(totals: Sequence[float], choice: Choice, margin: float, seed: int) -> list[tuple[int, int]]:
    """Return pairs of episodes of a task: the index of the preferred one, and the index of the other.

    Args:
        totals: The returns; an episode with NaN, which could not be scored, is in no pair.
        choice: "extremes": the best against the worst. "all": every pair with different returns. "random": one pair of
            "all".
        margin: The return of the preferred episode must be higher by more than this. Differences of rounding size count
            as equal.
        seed: The seed of "random".
    """
    scored = [total for total in totals if not math.isnan(total)]
    rounding = _ROUNDING * max([1.0, *map(abs, scored)])
    places = range(len(totals))
    better = [(a, b) for a, b in itertools.permutations(places, 2) if totals[a] - totals[b] > margin + rounding]
    if not better or choice == "all":
        return better
    if choice == "random":
        return [better[int(generator(seed, "pair").integers(len(better)))]]
    best = next(place for place in places if totals[place] >= max(scored) - rounding)
    return [(best, next(place for place in places if totals[place] <= min(scored) + rounding))]


@dataclass(frozen=True, slots=True)
class Preferences(BatchRollout):
    """Recorded preference pairs; the episodes of a group are chosen, rejected, chosen, rejected, ...

    If a single agent writes all parts, its action joins the texts of all agents.

    Attributes:
        source: A file of rows {"task": id, "chosen": {agent: text}, "rejected": {agent: text}}, with lists of texts if
            there are several turns, and the seeds of the chance of both episodes as "seeds", if they are known. A row
            with "task" alone is a task without a preference (`results.labels`). Or recorded episodes, which are paired
            by their returns: a file of traces with their texts, a file in `episodes/` of a run's cell, or the folder of
            a cell or a run.
        choice: The pairs of a task's episodes, see `pairs_by_return`; "random" samples a new pair each time.
        margin: The return of the preferred episode must be higher by more than this.

    Raises:
        ValueError: There is no such file or no pair, a row is not a pair, or `choice` or `margin` is set although the
            source has pairs.
    """

    source: str
    choice: Choice = "extremes"
    margin: float = 0.0

    def __post_init__(self) -> None:
        self.pairs()

    def pairs(self) -> Mapping[str, Sequence[Pair]]:
        """Return all pairs by task."""
        return _recorded(self.source, self.choice, self.margin)

    def groups(self, batch: Batch) -> list[Group]:
        """Return groups of width / 2 pairs (at least one), sampled with replacement; the policy only tokenizes.

        The group of a task without pairs has no episodes.

        Raises:
            ValueError: A task was not recorded.
        """

        def choose(item_id: str, seed: int) -> list[Recorded]:
            pairs = of_task(self.pairs(), item_id, self.source, "pair")
            count = max(1, batch.width // 2) if pairs else 0
            places = [derive(seed, "pair", k) % len(pairs) for k in range(count)]
            return [episode for place in places for episode in pairs[place]]

        return play_recorded(batch, choose)


@functools.lru_cache(maxsize=8)
def _recorded(source: str, choice: Choice, margin: float) -> Mapping[str, Sequence[Pair]]:
    """Return the pairs of a source by task."""
    files = files_of(source)
    if not files:
        raise ValueError(
            f"there is no file or run {source!r} of pairs; give a file of rows with `task`, `chosen` and `rejected`, a "
            "file of traces, or the folder of a run"
        )
    pairs: dict[str, list[Pair]] = {}
    episodes: dict[str, list[Recorded]] = {}
    for path in files:
        for task, recorded in read_rows(path, _pair_or_episode, "pair", _SHAPE):
            if recorded is None:
                pairs.setdefault(task, [])
            elif isinstance(recorded, Pair):
                pairs.setdefault(task, []).append(recorded)
            else:
                episodes.setdefault(task, []).append(recorded)
    if pairs and (choice, margin) != ("extremes", 0.0):
        raise ValueError(f"the options pairs and margin are for episodes, but {source} has pairs; leave them out")
    kind: Choice = "extremes" if choice == "extremes" else "all"  # "random" samples among all pairs
    for task, played in episodes.items():
        places = pairs_by_return([episode.total for episode in played], kind, margin, 0)
        pairs.setdefault(task, []).extend(Pair(played[a], played[b]) for a, b in places)
    if not episodes and not any(pairs.values()):
        raise ValueError(f"{source} has no preference; compare pairs first: llm-dec-pomdp label RUN --out {source}")
    if not any(pairs.values()):
        raise ValueError(
            f"{source} has no two episodes of a task whose returns differ by more than {margin:g}; record several "
            "episodes of each task (--samples), or lower margin"
        )
    return pairs


def _pair_or_episode(row: Any) -> tuple[str, Pair | Recorded | None]:
    """Return the pair or the episode of a row; None for a task without a preference."""
    if "events" in row:
        episode = recorded_episode(row)
        return episode.task, episode
    task = str(row["task"])
    if set(row) <= {"task", "pair", "answer"}:
        return task, None
    chosen, rejected = (
        Recorded(task, texts_of(row[name]), seed=seed)
        for name, seed in zip(("chosen", "rejected"), row.get("seeds", (None, None)), strict=True)
    )
    return task, Pair(chosen, rejected)
