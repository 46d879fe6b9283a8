"""Recorded pairs of joint texts, one preferred to the other, in the tokens of the policies that learn from them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from ..agents.base import Policy, Sampling
from ..agents.scripted import Replay
from ..envs.base import TextDecPOMDP
from ..seeding import derive
from ..types import Group
from .demonstrations import Shown, Texts
from .trajectories import Trajectories


class Pair(NamedTuple):
    """What was said in two episodes of a task, by agent; the first is preferred."""

    chosen: Texts
    rejected: Texts


@dataclass(frozen=True, slots=True)
class Preferences:
    """Plays recorded pairs: the episodes of a group are chosen, rejected, chosen, rejected, ... as they were recorded.

    Attributes:
        source: A file of rows {"task": id, "chosen": {agent: text}, "rejected": {agent: text}}; over several turns
            lists of texts.

    Raises:
        ValueError: There is no such file, or a row that is no pair.
    """

    source: str

    def __post_init__(self) -> None:
        _recorded(self.source)

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

        Raises:
            ValueError: No pair of a task was recorded.
        """
        pairs = _recorded(self.source)
        groups: list[Group] = []
        for item_id, seed in zip(item_ids, seeds, strict=True):
            if item_id not in pairs:
                raise ValueError(
                    f"{self.source} holds no pair of task {item_id!r}, but of {len(pairs)} others "
                    f"({next(iter(pairs))!r}, ...); train on the tasks that were recorded"
                )
            own = pairs[item_id]
            drawn = [own[derive(seed, "pair", k) % len(own)] for k in range(max(1, width // 2))]
            shown = [Shown(Replay(texts), policy) for pair in drawn for texts in pair]
            played = [Trajectories().play(env, one, [item_id], [seed], sampling)[0].episodes[0] for one in shown]
            groups.append(Group(item_id, tuple(played)))
        return groups


@functools.lru_cache(maxsize=8)
def _recorded(source: str) -> Mapping[str, Sequence[Pair]]:
    """The pairs of a file, by task."""
    path = Path(source)
    if not path.is_file():
        raise ValueError(f"no file of pairs {source!r}; give one with rows of `task`, `chosen` and `rejected`")
    pairs: dict[str, list[Pair]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            pairs.setdefault(str(row["task"]), []).append(Pair(_texts(row["chosen"]), _texts(row["rejected"])))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path}, row {number}: is no pair ({type(error).__name__}: {error}); a row has `task`, and `chosen` "
                "and `rejected` with a text, or a list of texts, for every agent"
            ) from None
    if not pairs:
        raise ValueError(f"{path} is empty; give a file of pairs")
    return pairs


def _texts(said: Any) -> Texts:
    texts: dict[str, list[str]] = {}
    for agent, own in said.items():
        texts[agent] = [own] if isinstance(own, str) else list(own)
        if not all(isinstance(text, str) for text in cast("list[Any]", texts[agent])):
            raise TypeError(f"{agent!r} says something that is no text")
    return texts
