"""Recorded pairs of joint texts, one preferred to the other, in the tokens of the policies that learn from them."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from ..agents.base import Policy, Sampling
from ..agents.scripted import Replay
from ..envs.base import TextDecPOMDP
from ..seeding import derive, generator
from ..types import Group
from .demonstrations import Shown
from .recorded import Texts, files_of, read_rows, recorded_episode
from .trajectories import Trajectories

Choice = Literal["extremes", "all", "random"]
_SHAPE = (
    "a row has `task`, and `chosen` and `rejected` with a text, or a list of texts, for every agent; or it is an "
    "episode (`task`, `turns`) or a trace with its texts (`task_id`, `events`)"
)


class Pair(NamedTuple):
    """What was said in two episodes of a task, by agent; the first is preferred."""

    chosen: Texts
    rejected: Texts


def pairs_by_return(totals: Sequence[float], choice: Choice, margin: float, seed: int) -> list[tuple[int, int]]:
    """Which episodes of a task make a pair: places of the preferred and of the other one.

    Args:
        totals: Their returns, NaN where one could not be scored: that one is in no pair.
        choice: "extremes", the best against the worst; "all", every better one against every worse one; "random", one
            of these.
        margin: By how much the return of the preferred one has to be higher.
        seed: Of the random one.
    """
    better = [(a, b) for a, b in itertools.permutations(range(len(totals)), 2) if totals[a] - totals[b] > margin]
    if not better or choice == "all":
        return better
    if choice == "random":
        return [better[int(generator(seed, "pair").integers(len(better)))]]
    scored = [place for place, total in enumerate(totals) if not math.isnan(total)]
    return [(max(scored, key=lambda place: totals[place]), min(scored, key=lambda place: totals[place]))]


@dataclass(frozen=True, slots=True)
class Preferences:
    """Plays recorded pairs: the episodes of a group are chosen, rejected, chosen, rejected, ... as they were recorded.

    Where one agent writes all parts, it says the texts of all agents as one text.

    Attributes:
        source: A file of rows {"task": id, "chosen": {agent: text}, "rejected": {agent: text}}; over several turns
            lists of texts. Or recorded episodes, which are paired by their returns: a file of traces with their texts,
            a file like `episodes.jsonl` of a run's cell, the folder of that cell, or of the run.
        choice: Which episodes of a task make pairs, see `pairs_by_return`; "random" draws anew each time.
        margin: By how much the return of the preferred one has to be higher.

    Raises:
        ValueError: There is no such file, a row that is no pair, no pair at all, or a choice where pairs are given.
    """

    source: str
    choice: Choice = "extremes"
    margin: float = 0.0

    def __post_init__(self) -> None:
        self.pairs()

    def pairs(self) -> Mapping[str, Sequence[Pair]]:
        """All pairs by task."""
        return _recorded(self.source, self.choice, self.margin)

    def play(
        self,
        env: TextDecPOMDP,
        policy: Policy,
        item_ids: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        width: int = 2,
    ) -> list[Group]:
        """See `Rollout`; `policy` says nothing. Of every task width / 2 pairs, at least one, drawn anew each time.

        A task whose recorded episodes make no pair has none.

        Raises:
            ValueError: Nothing of a task was recorded.
        """
        pairs = self.pairs()
        groups: list[Group] = []
        for item_id, seed in zip(item_ids, seeds, strict=True):
            if item_id not in pairs:
                raise ValueError(
                    f"{self.source} holds no pair of task {item_id!r}, but of {len(pairs)} others "
                    f"({next(iter(pairs))!r}, ...); train on the tasks that were recorded"
                )
            own = pairs[item_id]
            drawn = [own[derive(seed, "pair", k) % len(own)] for k in range(max(1, width // 2) if own else 0)]
            shown = [Shown(Replay(_for(env, texts)), policy) for pair in drawn for texts in pair]
            played = [Trajectories().play(env, one, [item_id], [seed], sampling)[0].episodes[0] for one in shown]
            groups.append(Group(item_id, tuple(played)))
        return groups


def _for(env: TextDecPOMDP, texts: Texts) -> Texts:
    """Texts as the agents of an environment say them: all in one, where one agent writes all parts."""
    if env.parts_per_action == 1 or set(texts) <= set(env.possible_agents):
        return texts
    turns = itertools.zip_longest(*(texts.get(agent, ()) for agent in env.task.possible_agents), fillvalue="")
    return {env.possible_agents[0]: [env.join_texts(parts) for parts in turns]}


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
    episodes: dict[str, list[tuple[float, Texts]]] = {}
    for path in files:
        for task, made in read_rows(path, _pair_or_episode, "pair", _SHAPE):
            if isinstance(made, Pair):
                pairs.setdefault(task, []).append(made)
            else:
                episodes.setdefault(task, []).append(made)
    if pairs and (choice, margin) != ("extremes", 0.0):
        raise ValueError(f"pairs and margin choose among episodes, and {source} holds pairs; leave them out")
    kind: Choice = "extremes" if choice == "extremes" else "all"  # of which one is drawn anew each time
    for task, played in episodes.items():
        places = pairs_by_return([total for total, _ in played], kind, margin, 0)
        pairs.setdefault(task, []).extend(Pair(played[a][1], played[b][1]) for a, b in places)
    if not any(pairs.values()):
        raise ValueError(
            f"{source} holds episodes, of which no two of a task differ in their return by more than {margin:g}; "
            "record several of each task (--samples)"
        )
    return pairs


def _pair_or_episode(row: Any) -> tuple[str, Pair | tuple[float, Texts]]:
    if "turns" in row or "events" in row:
        episode = recorded_episode(row)
        return episode.task, (episode.total, episode.texts)
    return str(row["task"]), Pair(_texts(row["chosen"]), _texts(row["rejected"]))


def _texts(said: Any) -> Texts:
    texts: dict[str, list[str]] = {}
    for agent, own in said.items():
        texts[agent] = [own] if isinstance(own, str) else list(own)
        if not all(isinstance(text, str) for text in cast("list[Any]", texts[agent])):
            raise TypeError(f"{agent!r} says something that is no text")
    return texts
