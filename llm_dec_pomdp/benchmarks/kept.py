"""Files with the episodes of an evaluation, written while it runs; `results.traces` reads them.

`cells/LABEL/episodes/step-N.jsonl` contains the evaluation after N updates as traces; N is 0 for methods that do not
learn. The evaluations before and after training are kept, without token ids. With the option `traces`, all evaluations
are kept, with token ids.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from ..agents.answers import Answers
from ..agents.base import Team
from ..agents.remote import keeping_answers
from ..envs.base import TextDecPOMDP
from ..episodes import Header, Trace, TraceWriter, from_episode, to_episode
from ..episodes.files import evaluation_file, unfinished_evaluation
from ..storage.runfolder import append, cut, iterate_records
from ..types import Group, grouped
from .suite import Cell


def header_of(cell: Cell, env: TextDecPOMDP, steps: int) -> Header:
    """Return the header for evaluation episodes of a cell with the weights after `steps` updates."""
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


class EpisodeWriter:
    """A writer of an evaluation, which also reads the part that an earlier process finished.

    Attributes:
        done: Groups that an earlier process has played.
        seconds: Wall time of these groups.
    """

    def __init__(self, path: Path, answers: Answers, header: Header, writer: TraceWriter, env: TextDecPOMDP) -> None:
        self._path, self._answers, self._header, self._writer = path, answers, header, writer
        self._items = {item.id: item for item in env.items}
        self.done: list[Group] = []
        self.seconds = 0.0
        self._lines = 0
        self._read({agent: env.role(agent) for agent in env.possible_agents})
        self._since = time.perf_counter()

    def _read(self, roles: Mapping[str, str]) -> None:
        """Read the finished portions of the file, and remove the lines of an unfinished portion."""
        portion: list[Trace] = []
        for number, line in enumerate(iterate_records(self._path)):
            portion.append(line["trace"])
            if line["more"] == 0:
                for trace in portion:
                    self._writer.write(trace)
                by_task = grouped(map(to_episode, portion), lambda episode: episode.item_id)
                self.done += [Group(task, tuple(episodes), roles=roles) for task, episodes in by_task.items()]
                self.seconds += line["seconds"]
                self._lines, portion = number + 1, []
        cut(self._path, "number", self._lines - 1)

    def keep(self, groups: Sequence[Group]) -> None:
        """Write groups that were played together, so that they survive a crash."""
        now = time.perf_counter()
        episodes = [episode for group in groups for episode in group.episodes]
        for more, episode in zip(reversed(range(len(episodes))), episodes, strict=True):
            trace = from_episode(episode, self._header, self._items[episode.item_id], token_ids=True)
            line = {"number": self._lines, "more": more, "seconds": now - self._since, "trace": trace}
            append(self._path, line)
            self._writer.write(trace)
            self._lines += 1
        self._answers.clear()
        self._since = now


@contextlib.contextmanager
def keeping(
    cell: Cell, team: Team, env: TextDecPOMDP, folder: Path, steps: int, *, token_ids: bool
) -> Generator[EpisodeWriter]:
    """Write the episodes of an evaluation into a file of the cell's `folder`.

    The file appears when all episodes are finished. Until then, finished episodes and the answers of servers to
    unfinished ones are in other files, so that a failed or killed evaluation can be resumed.
    """
    path = evaluation_file(folder, steps)
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)  # from an attempt that was stopped after this evaluation
    part, answers = unfinished_evaluation(folder, steps)
    with (
        TraceWriter(path, token_ids=token_ids) as writer,
        keeping_answers(team.policies, answers) as kept_answers,
    ):
        header = header_of(cell, env, steps)
        yield EpisodeWriter(part, kept_answers, header, writer, env)
    part.unlink(missing_ok=True)
    answers.unlink(missing_ok=True)


def forget_after(folder: Path, steps: int) -> None:
    """Remove the evaluations of a cell that are later than the update from which it resumes."""
    for path in (folder / "episodes").glob("*.jsonl"):
        name = re.fullmatch(r"(step|part|answers)-(\d{1,9})\.jsonl", path.name)
        if name and int(name[2]) > steps:
            path.unlink()
