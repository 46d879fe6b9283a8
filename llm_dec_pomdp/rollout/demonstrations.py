"""Demonstrations: episodes of a teacher, tokenized for the policies that are trained on them."""

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
from .recorded import Recorded, TeacherPolicy, files_of, of_task, play_recorded, read_rows, recorded_episode, texts_of
from .trajectories import Trajectories

TEACHERS: Mapping[str, Callable[[TextDecPOMDP], Policy]] = {
    "script:optimal": lambda task: Scripted(task.script("optimal")),
    "script:gold": lambda task: Scripted(task.script("gold")),
    "script:uniform": lambda task: Uniform(task.choices),
}


@dataclass(frozen=True, slots=True)
class Demonstrations(BatchRollout):
    """Trajectories of a teacher, with the token ids that the trained policies use for its actions.

    Each episode of a task has its own seed of chance. The episodes are not compared with each other, and with shared
    chance a scripted teacher would act identically in all of them.

    Attributes:
        teacher: The source of the actions. `script:optimal` is an optimal team, `script:gold` plays the reference
            texts, and `script:uniform` plays random well-formed actions. Recorded episodes are given as a file of
            traces with their texts, a file in `episodes/` of a run's cell, or the folder of a cell or a run.

    Raises:
        ValueError: There is no such script or file, or a row is not an episode.
    """

    teacher: str = "script:optimal"

    def __post_init__(self) -> None:
        if self.teacher not in TEACHERS:
            _recorded(self.teacher)

    @property
    def labels(self) -> bool:
        """Return whether the teacher may know the right actions; `script:uniform` knows only their form."""
        return self.teacher != "script:uniform"

    def incompatibility(self, env: TextDecPOMDP) -> str:
        """Return the reason why a scripted teacher cannot act at the start of the first task; "" if it can.

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
        """Return groups of the teacher's episodes; the trained policy only tokenizes the texts.

        An action has no tokens if the agent's policy cannot tokenize a given text.

        Raises:
            ValueError: No episode of a task was recorded.
        """
        if make_teacher := TEACHERS.get(self.teacher):
            teacher = TeacherPolicy(make_teacher(batch.env.task), batch.policy)
            return Trajectories(chance="own").groups(batch._replace(policy=teacher))

        def choose(item_id: str, seed: int) -> list[Recorded]:
            recorded = of_task(_recorded(self.teacher), item_id, self.teacher, "episode")
            return [
                recorded[derive(derive(seed, "recorded", k), "episode") % len(recorded)] for k in range(batch.width)
            ]

        return play_recorded(batch, choose)


@functools.lru_cache(maxsize=8)
def _recorded(name: str) -> Mapping[str, Sequence[Recorded]]:
    """Return recorded episodes by task."""
    files = files_of(name)
    if not files:
        raise ValueError(
            f"teacher is {name!r}, which is neither a script nor a file nor the folder of a run; "
            f"{nearest(name, TEACHERS)}"
        )
    shape = (
        "give rows with `task`, and `texts` with a text or a list of texts for every agent; or episodes of a run or a "
        "trace (`task_id`, `events`) with their texts"
    )
    episodes = (episode for path in files for episode in read_rows(path, _demonstration, "episode", shape))
    return grouped(episodes, lambda episode: episode.task)


def _demonstration(row: Any) -> Recorded:
    return recorded_episode(row) if "events" in row else Recorded(str(row["task"]), texts_of(row["texts"]))
