"""Demonstrations: a scripted teacher speaks in place of the team, in the tokens of its policies."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..agents.base import Policy, Request, Sampling, TeachablePolicy, Team
from ..agents.scripted import Gold, Replay, Scripted, Uniform
from ..envs.base import TextDecPOMDP
from ..registries import nearest
from ..seeding import derive
from ..types import Completion, Group
from .recorded import Texts, files_of, read_rows, recorded_episode
from .trajectories import Trajectories

TEACHERS: Mapping[str, Callable[[Any], Policy]] = {
    "script:optimal": lambda task: Scripted(task.optimal_action),
    "script:gold": lambda task: Gold(task.gold_table()),
    "script:uniform": lambda task: Uniform(task.choices),
}


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """Trajectories of a teacher, in the tokens of the policies that are to learn from them.

    The episodes of a task meet chance of their own: nothing compares them, and a teacher who knows what is right would
    say the same in all of them.

    Attributes:
        teacher: Who speaks: script:optimal, an optimal team; script:gold, the reference texts; script:uniform, any
            well-formed text as likely as any other; or whoever spoke in recorded episodes: the path of a file of
            traces with their texts, of a file like `episodes.jsonl` of a run's cell, or the folder of that cell or run.

    Raises:
        ValueError: There is no such script or file, or a row that is no episode.
    """

    teacher: str = "script:optimal"

    def __post_init__(self) -> None:
        if self.teacher not in TEACHERS:
            _recorded(self.teacher)

    @property
    def labels(self) -> bool:
        """Whether the teacher may know what is right; script:uniform knows the form alone."""
        return self.teacher != "script:uniform"

    def play(
        self,
        env: TextDecPOMDP,
        policy: Policy,
        item_ids: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        width: int = 1,
    ) -> list[Group]:
        """See `Rollout`; `policy` says nothing. Texts of agents whose policy cannot be shown a text have no tokens.

        Raises:
            ValueError: No episode of a task was recorded.
        """
        if made := TEACHERS.get(self.teacher):
            return Trajectories(chance="own").play(env, Shown(made(env.task), policy), item_ids, seeds, sampling, width)
        groups: list[Group] = []
        for item_id, seed in zip(item_ids, seeds, strict=True):
            chosen = [_one_of(self.teacher, item_id, derive(seed, "recorded", k)) for k in range(width)]
            played = [
                Trajectories().play(env, Shown(Replay(texts), policy), [item_id], [seed], sampling)[0].episodes[0]
                for texts in chosen
            ]
            groups.append(Group(item_id, tuple(played)))
        return groups


def _one_of(name: str, item_id: str, seed: int) -> Texts:
    """The texts of one of the episodes of a task that were recorded."""
    episodes = _recorded(name)
    if item_id not in episodes:
        raise ValueError(
            f"{name} holds no episode of task {item_id!r}, but of {len(episodes)} others ({next(iter(episodes))!r}, "
            "...); train on the tasks that were recorded, with the split and options of the recording"
        )
    return episodes[item_id][derive(seed, "episode") % len(episodes[item_id])]


@functools.lru_cache(maxsize=8)
def _recorded(name: str) -> Mapping[str, Sequence[Texts]]:
    """What was said in the episodes of a file, by task."""
    files = files_of(name)
    if not files:
        raise ValueError(
            f"no teacher {name!r}: there is no such file, nor a folder with episodes.jsonl; {nearest(name, TEACHERS)}"
        )
    shape = "a row has `task` and `turns`, each with `actions` by agent, or is a trace with its texts"
    by_task: dict[str, list[Texts]] = {}
    for path in files:
        for episode in read_rows(path, recorded_episode, "episode", shape):
            by_task.setdefault(episode.task, []).append(episode.texts)
    return by_task


@dataclass(frozen=True, slots=True)
class Shown:
    """What the teacher says, as the pupil would have sampled it."""

    teacher: Policy
    pupil: Policy

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
        """The teacher's texts."""
        answers = self.teacher.generate(requests, sampling)
        return [self._as_sampled(request, own, sampling) for request, own in zip(requests, answers, strict=True)]

    def _as_sampled(self, request: Request, said: list[Completion], sampling: Sampling) -> list[Completion]:
        pupil = self.pupil.members[request.agent] if isinstance(self.pupil, Team) else self.pupil
        if not isinstance(pupil, TeachablePolicy):
            return said
        return [pupil.written(request, one.text, sampling.max_new_tokens) for one in said]
