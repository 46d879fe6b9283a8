"""Recorded pairs of joint texts, one preferred to the other, in the tokens of the policies that learn from them."""

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
_ROUNDING = 1e-12  # returns closer than this are equal; where they are larger than 1, relative to their size
_SHAPE = (
    "a row has `task`, and `chosen` and `rejected` with a text, or a list of texts, for every agent; or it is an "
    "episode as a run or a trace keeps it (`task_id`, `events`), with its texts"
)


class Pair(NamedTuple):
    """Two episodes of a task, of which the first is preferred."""

    chosen: Recorded
    rejected: Recorded


def pairs_by_return(totals: Sequence[float], choice: Choice, margin: float, seed: int) -> list[tuple[int, int]]:
    """Pairs of episodes of a task: the place of the preferred one, and of the other.

    Args:
        totals: Their returns; NaN where one could not be scored, which is in no pair.
        choice: "extremes", the best against the worst; "all", every better one against every worse one; "random", one
            of these.
        margin: How much higher the return of the preferred one must be. Those that differ by rounding alone are equal.
        seed: Decides which one "random" takes.
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
    """Plays recorded pairs again: the episodes of a group are chosen, rejected, chosen, rejected, ...

    Where one agent writes all parts, it says the texts of all agents as one text.

    Attributes:
        source: A file of rows {"task": id, "chosen": {agent: text}, "rejected": {agent: text}}; over several turns
            lists of texts. Or recorded episodes, which are paired by their returns: a file of traces with their texts,
            a file of `episodes/` in a run's cell, the folder of that cell, or of the run.
        choice: Which episodes of a task make pairs, see `pairs_by_return`; "random" draws anew each time.
        margin: How much higher the return of the preferred one must be.

    Raises:
        ValueError: No such file, a row that is no pair, no pair at all, or `choice` or `margin` where pairs are given.
    """

    source: str
    choice: Choice = "extremes"
    margin: float = 0.0

    def __post_init__(self) -> None:
        self.pairs()

    def pairs(self) -> Mapping[str, Sequence[Pair]]:
        """All pairs by task."""
        return _recorded(self.source, self.choice, self.margin)

    def groups(self, batch: Batch) -> list[Group]:
        """The policy says nothing. Each task has width / 2 pairs, at least one, drawn anew each time.

        A task whose recorded episodes make no pair has none.

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
    """The pairs of a source, by task."""
    files = files_of(source)
    if not files:
        raise ValueError(
            f"no file of pairs {source!r}; give one with rows of `task`, `chosen` and `rejected`, a file of traces, or "
            "the folder of a run"
        )
    pairs: dict[str, list[Pair]] = {}
    episodes: dict[str, list[Recorded]] = {}
    for path in files:
        for task, recorded in read_rows(path, _pair_or_episode, "pair", _SHAPE):
            if isinstance(recorded, Pair):
                pairs.setdefault(task, []).append(recorded)
            else:
                episodes.setdefault(task, []).append(recorded)
    if pairs and (choice, margin) != ("extremes", 0.0):
        raise ValueError(f"pairs and margin choose among episodes, and {source} holds pairs; leave them out")
    kind: Choice = "extremes" if choice == "extremes" else "all"  # of which one is drawn anew each time
    for task, played in episodes.items():
        places = pairs_by_return([episode.total for episode in played], kind, margin, 0)
        pairs.setdefault(task, []).extend(Pair(played[a], played[b]) for a, b in places)
    if not any(pairs.values()):
        raise ValueError(
            f"{source} holds episodes, of which no two of a task differ in their return by more than {margin:g}; "
            "record several of each task (--samples)"
        )
    return pairs


def _pair_or_episode(row: Any) -> tuple[str, Pair | Recorded]:
    if "events" in row:
        episode = recorded_episode(row)
        return episode.task, episode
    task = str(row["task"])
    return task, Pair(Recorded(task, texts_of(row["chosen"])), Recorded(task, texts_of(row["rejected"])))
