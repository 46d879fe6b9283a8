"""The episodes that a cell of a run keeps: read, and written for tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from llm_dec_pomdp.episodes import Header, TraceWriter, read, to_episode
from llm_dec_pomdp.episodes.files import evaluation_file, last_evaluation
from llm_dec_pomdp.episodes.header import Player
from llm_dec_pomdp.types import Episode, TaskItem, Turn


def last_episodes(cell: Path) -> list[Episode]:
    """Those of a cell's last evaluation, without times."""
    file = last_evaluation(cell)
    assert file is not None
    return [timeless(to_episode(trace)) for trace in read(file)]


def timeless(episode: Episode) -> Episode:
    """An episode whose texts took no time."""
    turns = [
        dataclasses.replace(turn, actions={a: dataclasses.replace(c, seconds=0.0) for a, c in turn.actions.items()})
        for turn in episode.turns
    ]
    return dataclasses.replace(episode, turns=tuple(turns))


def write_evaluation(cell: Path, episodes: Iterable[tuple[str, Turn]], steps: int = 0) -> None:
    """Episodes of one turn, by task, as a cell keeps them after some training steps."""
    path = evaluation_file(cell, steps)
    path.parent.mkdir(parents=True, exist_ok=True)
    with TraceWriter(path) as writer:
        for task, turn in episodes:
            players = {agent: Player("", "") for agent in turn.actions}
            header = Header("tldr-v0", {}, "parallel", 1, "unknown", players)
            writer.write_episode(Episode(task, 0, (turn,), True), header, TaskItem(task, ""))
