"""Recorded episodes of runs and of traces with their texts: reading and replaying them."""

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

Texts = Mapping[str, Sequence[str | Completion]]  # by agent, in their order; completions have thoughts
T = TypeVar("T")


class Recorded(NamedTuple):
    """A recorded episode.

    Attributes:
        task: The id of the task.
        texts: The actions of each agent.
        total: The return; NaN if it is unknown.
        seed: The seed that reproduces the environment's chance; None if it is unknown.
    """

    task: str
    texts: Texts
    total: float = math.nan
    seed: int | None = None


def files_of(source: str) -> list[Path]:
    """Return the files of a source: the file itself, or the last evaluation of a cell or of each cell of a run.

    Return [] if there is no such file or folder.
    """
    path = Path(source)
    if is_there(path) and not path.is_dir():
        return [path]
    cells = (path, *sorted(path.glob("cells/*")))
    return [file for cell in cells if (file := last_evaluation(cell)) is not None]


def read_rows(path: Path, make: Callable[[Any], T], what: str, shape: str) -> Iterator[T]:
    """Yield the result of `make` for each row of a JSON Lines file.

    Args:
        path: The file.
        make: The function that reads a row.
        what: The kind of a row, for error messages.
        shape: The form of a row in words, for error messages.

    Raises:
        ValueError: `make` cannot read a row, or the file has no rows.
    """
    number = 0
    for number, line in iterate_lines(path):
        try:
            yield make(parse(line, "the row"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path}, row {number}: it is not a valid {what} ({reason}); {shape}") from None
    if not number:
        raise ValueError(f"{path} is empty; give a file of {what}s")


def recorded_episode(trace: Any) -> Recorded:
    """Return the episode of a trace that has its texts.

    Raises:
        ValueError: It is not a trace of this package, or it has no texts.
    """
    episode, header = to_episode(trace), trace["events"][0]["header"]
    texts: dict[str, list[str | Completion]] = {}
    for agent, completion in (pair for turn in episode.turns for pair in turn.actions.items()):
        texts.setdefault(agent, []).append(Completion(completion.text, thought=completion.thought))
    seed = episode.seed if header["seed"] == derive(episode.seed, "env") else None
    return Recorded(episode.item_id, texts, episode.total, seed)


def texts_of(value: Any) -> Texts:
    """Return the texts of a row by agent.

    Args:
        value: A mapping from agent to a text or a list of texts.

    Raises:
        TypeError, AttributeError: `value` has another form.
    """
    texts: dict[str, list[str | Completion]] = {}
    for agent, written in value.items():
        texts[agent] = [written] if isinstance(written, str) else list(written)
        if not all(isinstance(text, str) for text in cast("list[Any]", texts[agent])):
            raise TypeError(f"an action of {agent!r} is not text")
    return texts


def of_task(recordings: Mapping[str, Sequence[T]], item_id: str, source: str, what: str) -> Sequence[T]:
    """Return the recordings of a task.

    Raises:
        ValueError: The task was not recorded.
    """
    if item_id not in recordings:
        raise ValueError(
            f"{source} has no {what} of task {item_id!r}, but of {len(recordings)} other tasks "
            f"({next(iter(recordings))!r}, ...); train on the recorded tasks, with the split and options of the "
            "recording"
        )
    return recordings[item_id]


def play_recorded(batch: Batch, choose: Callable[[str, int], Sequence[Recorded]]) -> list[Group]:
    """Replay recorded episodes, with the token ids of the policy that is trained on them.

    The environment's chance is reproduced if the seed of the recording is known and the protocol is the same. If a
    single agent writes all parts, its action joins the texts of all agents.

    Args:
        batch: The tasks, and the policy that tokenizes.
        choose: A function from the id and seed of a task to its recorded episodes.

    Returns:
        One group per task, in order.
    """
    groups: list[Group] = []
    for item_id, seed in zip(batch.item_ids, batch.seeds, strict=True):
        played = [_again(episode, batch, seed) for episode in choose(item_id, seed)]
        groups.append(Group(item_id, tuple(played)))
    return groups


def _again(recorded: Recorded, batch: Batch, seed: int) -> Episode:
    """Replay a recorded episode; `seed` is the seed of chance if the recorded one is unknown."""
    env, sampling = batch.env, batch.sampling
    seed = seed if recorded.seed is None else recorded.seed
    texts = recorded.texts
    if env.facts.parts_per_action > 1 and not set(texts) <= set(env.possible_agents):
        turns = _played(env.task, Replay(texts), recorded.task, seed, sampling).turns  # shows which agents act
        joint_texts = [{agent: completion.text for agent, completion in turn.actions.items()} for turn in turns]
        joint = [
            env.facts.join([of_turn.get(agent, "") for agent in env.task.possible_agents]) for of_turn in joint_texts
        ]
        texts = {env.possible_agents[0]: joint}
    return _played(env, TeacherPolicy(Replay(texts), batch.policy), recorded.task, seed, sampling)


def _played(env: TextDecPOMDP, policy: Policy, item_id: str, seed: int, sampling: Sampling) -> Episode:
    return Trajectories().play(env, policy, [item_id], [seed], sampling)[0].episodes[0]


@dataclass(frozen=True)
class TeacherPolicy(Policy):
    """A policy that returns the teacher's actions with the token ids of the student.

    Attributes:
        teacher: The policy that acts.
        pupil: The policy (the student) that is trained on these actions.
    """

    teacher: Policy
    pupil: Policy

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """Return the teacher's actions, without tokens if the student cannot tokenize a given text."""
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
        return [pupil.to_completion(request, c.text, limit, c.thought) for c in completions]
