"""Recorded episodes, of runs and of traces that hold their texts: read, and played again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from ..agents.base import Policy, Request, Sampling, Team
from ..agents.scripted import Replay
from ..envs.base import TextDecPOMDP
from ..episodes import to_episode
from ..episodes.files import last_evaluation
from ..seeding import derive
from ..storage.reading import is_there, iterate_lines, parse
from ..types import Completion, Episode, Group
from .base import Batch
from .trajectories import Trajectories

Texts = Mapping[str, Sequence[str]]  # by agent, in their order
T = TypeVar("T")


class Recorded(NamedTuple):
    """An episode as it was recorded.

    Attributes:
        task: Id of the task.
        texts: What each agent said.
        total: The return; NaN where it is not known.
        seed: With it the environment's chance is the same again; None where it is not known.
    """

    task: str
    texts: Texts
    total: float = math.nan
    seed: int | None = None


def files_of(source: str) -> list[Path]:
    """The files of a source: itself, or the last evaluation of a cell, or those of all cells of a run; [] for none."""
    path = Path(source)
    if is_there(path) and not path.is_dir():
        return [path]
    cells = (path, *sorted(path.glob("cells/*")))
    return [file for cell in cells if (file := last_evaluation(cell)) is not None]


def read_rows(path: Path, make: Callable[[Any], T], what: str, shape: str) -> Iterator[T]:
    """What `make` makes of each row of a file of JSON lines; messages say `what` that is and what a row looks like.

    Raises:
        ValueError: A row that `make` cannot read, or a file without rows.
    """
    number = 0
    for number, line in iterate_lines(path):
        try:
            yield make(parse(line, "the row"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}, row {number}: is no {what} ({type(error).__name__}: {error}); {shape}") from None
    if not number:
        raise ValueError(f"{path} is empty; give a file of {what}s")


def recorded_episode(trace: Any) -> Recorded:
    """The episode of a trace with its texts.

    Raises:
        ValueError: It is no trace of this package, or lacks its texts.
    """
    episode, header = to_episode(trace), trace["events"][0]["header"]
    texts: dict[str, list[str]] = {}
    for agent, completion in (pair for turn in episode.turns for pair in turn.actions.items()):
        texts.setdefault(agent, []).append(completion.text)
    seed = episode.seed if header["seed"] == derive(episode.seed, "env") else None
    return Recorded(episode.item_id, texts, episode.total, seed)


def texts_of(value: Any) -> Texts:
    """Texts of a row by agent, each a text or a list of them; raises TypeError or AttributeError for anything else."""
    texts: dict[str, list[str]] = {}
    for agent, written in value.items():
        texts[agent] = [written] if isinstance(written, str) else list(written)
        if not all(isinstance(text, str) for text in cast("list[Any]", texts[agent])):
            raise TypeError(f"{agent!r} says something that is no text")
    return texts


def of_task(recordings: Mapping[str, Sequence[T]], item_id: str, source: str, what: str) -> Sequence[T]:
    """What was recorded of a task; raises ValueError where nothing was."""
    if item_id not in recordings:
        raise ValueError(
            f"{source} holds no {what} of task {item_id!r}, but of {len(recordings)} others "
            f"({next(iter(recordings))!r}, ...); train on the tasks that were recorded, with the split and options of "
            "the recording"
        )
    return recordings[item_id]


def play_recorded(batch: Batch, choose: Callable[[str, int], Sequence[Recorded]]) -> list[Group]:
    """Recorded episodes, in the tokens of the policy that learns from them.

    The environment's chance is that of the recording, where its seed is known and the protocol is the same. Where one
    agent writes all parts, it says the texts of all agents as one text.

    Args:
        batch: The tasks, and whose tokens.
        choose: From a task and its seed to its episodes.
    """
    groups: list[Group] = []
    for item_id, seed in zip(batch.item_ids, batch.seeds, strict=True):
        played = [_again(episode, batch, seed) for episode in choose(item_id, seed)]
        groups.append(Group(item_id, tuple(played)))
    return groups


def _again(recorded: Recorded, batch: Batch, seed: int) -> Episode:
    """A recorded episode; `seed` is of the chance where none is known."""
    env, sampling = batch.env, batch.sampling
    seed = seed if recorded.seed is None else recorded.seed
    texts = recorded.texts
    if env.facts.parts_per_action > 1 and not set(texts) <= set(env.possible_agents):
        turns = _played(env.task, Replay(texts), recorded.task, seed, sampling).turns  # who is asked when
        joint_texts = [{agent: completion.text for agent, completion in turn.actions.items()} for turn in turns]
        joint = [
            env.facts.join([of_turn.get(agent, "") for agent in env.task.possible_agents]) for of_turn in joint_texts
        ]
        texts = {env.possible_agents[0]: joint}
    return _played(env, Shown(Replay(texts), batch.policy), recorded.task, seed, sampling)


def _played(env: TextDecPOMDP, policy: Policy, item_id: str, seed: int, sampling: Sampling) -> Episode:
    return Trajectories().play(env, policy, [item_id], [seed], sampling)[0].episodes[0]


@dataclass(frozen=True)
class Shown(Policy):
    """Says what the teacher says, with the tokens that the pupil would have sampled for it."""

    teacher: Policy
    pupil: Policy

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """The teacher's texts; those for a pupil that cannot be shown a text have no tokens."""
        answers = self.teacher.generate(requests, sampling)
        return [
            self._as_sampled(request, completions, sampling)
            for request, completions in zip(requests, answers, strict=True)
        ]

    def _as_sampled(self, request: Request, completions: list[Completion], sampling: Sampling) -> list[Completion]:
        pupil, limit = self.pupil, sampling.max_new_tokens
        if isinstance(pupil, Team):
            limit = pupil.sampling_of(request.agent, sampling).max_new_tokens
            pupil = pupil.members[request.agent]
        return [pupil.to_completion(request, completion.text, limit) for completion in completions]
