"""Score the texts of a run under another version of the reward, without sampling."""

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
    """Episodes that another environment cannot score; the message names them and the reason."""


@dataclass(frozen=True, slots=True)
class Rescored:
    """The original and the new scores of the texts of one cell.

    Attributes:
        cell: Label of the cell (one environment, method and seed).
        env_id: Id of the other environment.
        judge: The LLM judge of the other environment, with a hash of its weights; "" if it has none.
        before, after: Summaries of the same episodes; they differ in scores only.
    """

    cell: str
    env_id: str
    judge: str
    before: Summary
    after: Summary


def rescore(run: Path, env_id: str, options: Mapping[str, Any]) -> list[Rescored]:
    """Score the evaluated episodes of every finished cell of a run again, and write `rescored-ENV.json` into the run.

    The name of the file includes the LLM judge, if there is one: two judges give two files.

    Args:
        run: Folder of a run.
        env_id: An environment with the same tasks and roles.
        options: Arguments of its constructor, in place of the options of the run.

    Raises:
        RescoreError: There are no episodes, or the environment cannot score them.
    """
    folders = sorted(path.parent for path in run.glob("cells/*/result.json") if last_evaluation(path.parent))
    if not folders:
        raise RescoreError(f"{str(run)!r} has no evaluated episodes; give the folder of a run that is done")
    cells = [_of_cell(folder, env_id, options) for folder in folders]
    name = clean("-".join(filter(None, (env_id.replace(":", "."), cells[0].judge))), "._-@")
    replace_json(run / f"rescored-{name}.json", [dataclasses.asdict(cell) for cell in cells])
    return cells


def cells_under(run: Path, env_id: str, options: Mapping[str, Any]) -> list[Cell]:
    """Return the cells of a run with their environment replaced."""
    return [_other(path, env_id, options) for path in sorted(run.glob("cells/*/cell.json"))]


def _other(path: Path, env_id: str, options: Mapping[str, Any]) -> Cell:
    cell = Cell.read(path)
    before, takes = dict(cell.environment.options), arguments(spec(with_version(env_id)).load())
    if takes is not None and "judge" not in takes:  # this version of the reward has no LLM judge
        before.pop("judge", None)
    environment = cell.environment.model_copy(update={"id": env_id, "options": before | dict(options)})
    return dataclasses.replace(cell, environment=environment)


def _of_cell(folder: Path, env_id: str, options: Mapping[str, Any]) -> Rescored:
    there = Cell.read(folder / "cell.json")
    here = _other(folder / "cell.json", env_id, options)
    old, new = (build_env(cell, here.protocol, evaluation=True) for cell in (there, here))
    if not isinstance(new.task, TextTask):
        raise RescoreError(
            f"{env_id} has a hidden state, so scores cannot be computed from texts; `llm-dec-pomdp trace replay` "
            "plays recorded episodes again"
        )
    known = {item.id for item in new.items}
    file = last_evaluation(folder)
    episodes = [to_episode(trace) for trace in read(file)] if file else []
    if missing := [episode.item_id for episode in episodes if episode.item_id not in known]:
        raise RescoreError(
            f"{folder.name}: {env_id} has no task {missing[0]!r}; it lacks the tasks of {len(missing)} of "
            f"{len(episodes)} episodes; give an environment with the same tasks"
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
    """Return the episode with the scores of the environment, which may end it earlier."""
    env.reset(seed=episode.seed, options={"task_id": episode.item_id})
    turns = [dataclasses.replace(turn, score=None) for turn in episode.turns]
    for number, turn in enumerate(turns):
        if not env.agents:
            break
        texts = {agent: completion.text for agent, completion in turn.actions.items()}
        if missing := [agent for agent in env.agents if env.asked(agent) and agent not in texts]:
            raise RescoreError(
                f"task {episode.item_id!r}, turn {number}: {env.metadata['name']} needs an action of "
                f"{', '.join(missing)}, and the run has none; give an environment with the same roles"
            )
        env.step({agent: texts.get(agent, "") for agent in env.agents})
        turns[number] = dataclasses.replace(
            turn, reward=env.latest.transition.reward, score=env.latest.transition.score
        )
    return dataclasses.replace(episode, turns=tuple(turns[: env.turn]))


def _groups(episodes: Iterable[Episode]) -> list[Group]:
    """Group episodes by task, in the order of the file."""
    by_task = grouped(episodes, lambda episode: episode.item_id)
    return [Group(item_id, tuple(of_task)) for item_id, of_task in by_task.items()]
