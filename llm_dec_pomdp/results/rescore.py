"""Score the texts of a run under another version of the reward; nothing is generated."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..benchmarks.setup import build_env
from ..benchmarks.suite import Cell
from ..envs.base import TextDecPOMDP
from ..envs.registration import arguments, spec, with_version
from ..envs.text_task import TextTask
from ..episodes import read, to_episode
from ..episodes.files import last_evaluation
from ..evaluation.metrics import Summary, summarise
from ..storage.files import clean, replace_json
from ..types import Episode, Group, grouped


class RescoreError(ValueError):
    """Episodes that another environment cannot score; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Rescored:
    """One cell, as it was measured and as another environment scores the same texts.

    Attributes:
        cell: Its label.
        env_id: The other environment.
        judge: The language model that the other environment asked, with a hash of its weights; "" for none.
        before, after: Summaries of the same episodes; only returns, parts and what follows from them differ.
    """

    cell: str
    env_id: str
    judge: str
    before: Summary
    after: Summary


def rescore(run: Path, env_id: str, options: Mapping[str, Any]) -> list[Rescored]:
    """Score the evaluated episodes of every finished cell of a run again, and write `rescored-ENV.json` into the run.

    The name of a judge follows that of the environment: scores of two judges lie in two files.

    Args:
        run: Folder of a run.
        env_id: An environment with the same tasks and roles.
        options: Of its constructor, instead of those of the run.

    Raises:
        RescoreError: There are no episodes, or the environment cannot score them.
    """
    folders = sorted(path.parent for path in run.glob("cells/*/result.json") if last_evaluation(path.parent))
    if not folders:
        raise RescoreError(f"{str(run)!r} holds no evaluated episodes; give the folder of a run that is done")
    cells = [_of_cell(folder, env_id, options) for folder in folders]
    name = clean("-".join(filter(None, (env_id.replace(":", "."), cells[0].judge))), "._-@")
    replace_json(run / f"rescored-{name}.json", [dataclasses.asdict(cell) for cell in cells])
    return cells


def cells_under(run: Path, env_id: str, options: Mapping[str, Any]) -> list[Cell]:
    """The cells of a run with another environment."""
    return [_other(path, env_id, options) for path in sorted(run.glob("cells/*/cell.json"))]


def _other(path: Path, env_id: str, options: Mapping[str, Any]) -> Cell:
    cell = Cell.read(path)
    before, takes = dict(cell.environment.options), arguments(spec(with_version(env_id)).load())
    if takes is not None and "judge" not in takes:  # a version of the reward that asks none
        before.pop("judge", None)
    environment = cell.environment.model_copy(update={"id": env_id, "options": before | dict(options)})
    return dataclasses.replace(cell, environment=environment)


def _of_cell(folder: Path, env_id: str, options: Mapping[str, Any]) -> Rescored:
    there = Cell.read(folder / "cell.json")
    here = _other(folder / "cell.json", env_id, options)
    old, new = (build_env(cell, here.protocol, evaluation=True) for cell in (there, here))
    if not isinstance(new.task, TextTask):
        raise RescoreError(
            f"{env_id} has a hidden state, so that texts alone do not say what they earn; `llm-dec-pomdp trace replay` "
            "plays recorded episodes again"
        )
    known = {item.id for item in new.items}
    file = last_evaluation(folder)
    episodes = [to_episode(trace) for trace in read(file)] if file else []
    if missing := [episode.item_id for episode in episodes if episode.item_id not in known]:
        raise RescoreError(
            f"{folder.name}: {env_id} has no task {missing[0]!r}; {len(missing)} of {len(episodes)} episodes are of "
            "tasks that it lacks; give an environment with the same tasks"
        )
    before = summarise(_groups(episodes), old.facts.score_scale, old.facts.components, 0.0)
    judge = new.facts.judge
    with judge.put_off() if judge else contextlib.nullcontext():
        for episode in episodes if judge else ():
            _scored(new, episode)
    scored = _groups(_scored(new, episode) for episode in episodes)
    after = summarise(scored, new.facts.score_scale, new.facts.components, 0.0)
    return Rescored(folder.name, env_id, judge.name if judge else "", before, after)


def _scored(env: TextDecPOMDP, episode: Episode) -> Episode:
    """The same texts with the scores of the environment, which may end the episode earlier."""
    env.reset(seed=episode.seed, options={"task_id": episode.item_id})
    turns = [dataclasses.replace(turn, score=None) for turn in episode.turns]
    for number, turn in enumerate(turns):
        if not env.agents:
            break
        texts = {agent: completion.text for agent, completion in turn.actions.items()}
        if missing := [agent for agent in env.agents if env.asked(agent) and agent not in texts]:
            raise RescoreError(
                f"task {episode.item_id!r}, turn {number}: {env.metadata['name']} asks {', '.join(missing)}, who said "
                "nothing in the run; give an environment with the same roles"
            )
        env.step({agent: texts.get(agent, "") for agent in env.agents})
        turns[number] = dataclasses.replace(
            turn, reward=env.latest.transition.reward, score=env.latest.transition.score
        )
    return dataclasses.replace(episode, turns=tuple(turns[: env.turn]))


def _groups(episodes: Iterable[Episode]) -> list[Group]:
    """By task, in the order of the file."""
    by_task = grouped(episodes, lambda episode: episode.item_id)
    return [Group(item_id, tuple(of_task)) for item_id, of_task in by_task.items()]
