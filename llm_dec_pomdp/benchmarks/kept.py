"""The episodes of a run, written while a cell is evaluated; `results.traces` reads them.

`cells/LABEL/episodes/step-N.jsonl` holds the evaluation after N training steps as traces; N is 0 for methods that do
not learn. Of every cell the evaluations before training and at the end are kept, without token ids; with `traces` all
of them, with token ids.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from ..envs.base import TextDecPOMDP
from ..episodes import Header, TraceWriter
from ..episodes.files import evaluation_file, evaluations
from ..types import Group
from .suite import Cell

Keep = Callable[[Sequence[Group]], None]


def header_of(cell: Cell, env: TextDecPOMDP, steps: int) -> Header:
    """The header of the episodes of a cell, in its evaluation environment, for the weights after `steps` updates."""
    options = dict(cell.environment.options)
    if cell.environment.max_turns is not None:
        options["max_turns"] = cell.environment.max_turns
    models = dict.fromkeys(env.possible_agents, cell.model.name)
    for member in cell.model.members:
        models |= {a: member.model for a in env.possible_agents if {a, env.role(a)} & set(member.agents)}
    drawn = {agent: cell.sampling_of(agent, env.role(agent)) for agent in env.possible_agents}
    return Header.of(
        env,
        cell.environment.id,
        options=options,
        protocol=cell.protocol,
        models=models,
        weights=steps,
        sampling=cell.sampling,
        samplings={agent: sampling for agent, sampling in drawn.items() if sampling != cell.sampling},
    )


@contextlib.contextmanager
def keeping(cell: Cell, env: TextDecPOMDP, folder: Path, steps: int, *, token_ids: bool) -> Generator[Keep]:
    """Write the episodes of an evaluation into a file of the cell's `folder`, which is there when all were played."""
    path = evaluation_file(folder, steps)
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)  # left by an attempt that was stopped after this evaluation
    header, items = header_of(cell, env, steps), {item.id: item for item in env.items}
    with TraceWriter(path, token_ids=token_ids) as writer:

        def keep(groups: Sequence[Group]) -> None:
            for episode in (episode for group in groups for episode in group.episodes):
                writer.write_episode(episode, header, items[episode.item_id])

        yield keep


def forget_after(folder: Path, steps: int) -> None:
    """Remove the evaluations of a cell after more training steps than those it goes on from."""
    for later, path in evaluations(folder).items():
        if later > steps:
            path.unlink()
