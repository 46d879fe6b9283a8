"""Demonstrations: a teacher speaks in place of the team, in the tokens of its policies."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..agents.base import Policy, Request, Sampling
from ..agents.scripted import Scripted, Uniform
from ..envs.base import TextDecPOMDP
from ..registries import nearest
from ..seeding import derive
from ..types import Group, grouped
from .base import Batch, BatchRollout
from .recorded import Recorded, Shown, files_of, of_task, play_recorded, read_rows, recorded_episode, texts_of
from .trajectories import Trajectories

TEACHERS: Mapping[str, Callable[[TextDecPOMDP], Policy]] = {
    "script:optimal": lambda task: Scripted(task.script("optimal")),
    "script:gold": lambda task: Scripted(task.script("gold")),
    "script:uniform": lambda task: Uniform(task.choices),
}


@dataclass(frozen=True, slots=True)
class Demonstrations(BatchRollout):
    """Trajectories of a teacher, in the tokens of the policies that are to learn from them.

    Chance differs from episode to episode of a task: nothing compares them, and a teacher who knows what is right would
    say the same in all of them.

    Attributes:
        teacher: script:optimal, an optimal team; script:gold, the reference texts; script:uniform, well-formed texts at
            random; or recorded episodes: a file of traces with their texts, a file of `episodes/` in a run's
            cell, or the folder of that cell or run.

    Raises:
        ValueError: There is no such script or file, or a row that is no episode.
    """

    teacher: str = "script:optimal"

    def __post_init__(self) -> None:
        if self.teacher not in TEACHERS:
            _recorded(self.teacher)

    @property
    def labels(self) -> bool:
        """Whether the teacher may know what is right; script:uniform knows only the form."""
        return self.teacher != "script:uniform"

    def incompatibility(self, env: TextDecPOMDP) -> str:
        """Return the reason why a scripted teacher cannot act at the beginning of the first task, else "".

        A recorded teacher is not checked.
        """
        if (make := TEACHERS.get(self.teacher)) is None:
            return ""
        task = env.task.fork()
        task.reset(seed=0, options={"index": 0})
        asked = [Request(agent, task.history(agent)) for agent in task.agents if task.asked(agent)]
        try:
            make(task).generate(asked, Sampling())
        except (ValueError, KeyError) as error:
            return str(error.args[0])
        return ""

    def groups(self, batch: Batch) -> list[Group]:
        """The policy says nothing. Texts of agents whose policy cannot be shown a text have no tokens.

        Raises:
            ValueError: No episode of a task was recorded.
        """
        if make_teacher := TEACHERS.get(self.teacher):
            teacher = Shown(make_teacher(batch.env.task), batch.policy)
            return Trajectories(chance="own").groups(batch._replace(policy=teacher))

        def choose(item_id: str, seed: int) -> list[Recorded]:
            recorded = of_task(_recorded(self.teacher), item_id, self.teacher, "episode")
            return [
                recorded[derive(derive(seed, "recorded", k), "episode") % len(recorded)] for k in range(batch.width)
            ]

        return play_recorded(batch, choose)


@functools.lru_cache(maxsize=8)
def _recorded(name: str) -> Mapping[str, Sequence[Recorded]]:
    """Recorded episodes, by task."""
    files = files_of(name)
    if not files:
        raise ValueError(
            f"no teacher {name!r}: there is no such file, nor the folder of a run; {nearest(name, TEACHERS)}"
        )
    shape = (
        "a row has `task`, and `texts` with a text, or a list of texts, for every agent; or it is an episode as a "
        "run or a trace keeps it (`task_id`, `events`), with its texts"
    )
    episodes = (episode for path in files for episode in read_rows(path, _demonstration, "episode", shape))
    return grouped(episodes, lambda episode: episode.task)


def _demonstration(row: Any) -> Recorded:
    return recorded_episode(row) if "events" in row else Recorded(str(row["task"]), texts_of(row["texts"]))
