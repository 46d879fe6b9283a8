"""One cell: build environment, team and algorithm by name, train if it learns, evaluate, and write it all down.

A cell's folder holds `cell.json` (its resolved configuration), `train.jsonl` (a line per step), `curve.jsonl` (a line
per evaluation on the test rows), `checkpoints/`, `episodes.jsonl` (every evaluated episode), `team/` (trained weights),
event files for TensorBoard, and last `result.json`. Run again, a cell with a result is done, and one without goes on
from its newest checkpoint.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..agents.assembly import assemble_team
from ..agents.base import Sampling, Team
from ..agents.loading import load_policy
from ..agents.remote import Expert
from ..algorithms.base import Learner, check_algorithm
from ..algorithms.registration import find_algorithm
from ..checkpoint import CheckpointError, Checkpoints, load_weights, save_team
from ..config import ConfigError, build
from ..envs.base import TextDecPOMDP
from ..envs.check import unwrapped_task
from ..envs.registration import make
from ..envs.registration import spec as find_environment
from ..envs.wrappers import with_protocol
from ..rollout import collect
from ..runfolder import append, cut, read_lines
from ..seeding import derive
from ..storage import replace_json
from ..training import Step, restore, train
from ..types import Episode, Group
from .intervals import Interval, mean_interval
from .metrics import Summary, summarise
from .progress import Progress, Silent
from .schemes import scheme_shares
from .suite import FREE_IN_CHECKPOINT, Cell, Tracker, conflicts
from .tracking import Trackers

_OPTIONS = {"max_turns": "turns", "fields": "field"}  # of the command line
_CHUNK = 32  # episodes played at once in an evaluation


@dataclass(frozen=True, slots=True)
class Result:
    """What a cell produced.

    Attributes:
        cell: What was run.
        summary: What was measured.
        train_seconds: 0 for methods that do not learn.
        eval_seconds: Playing and judging the evaluation tasks.
        maximum: Highest score of a joint action.
        tasks: Digest of the evaluation tasks; results with different ones do not compare. "" where unknown.
    """

    cell: Cell
    summary: Summary
    train_seconds: float
    eval_seconds: float
    maximum: float
    tasks: str = ""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Result:
        """The inverse of `to_dict`."""
        cell, summary = Cell.from_dict(values["cell"]), Summary.from_dict(values["summary"])
        maximum = values.get("maximum") or find_environment(cell.environment.id).load().score_range[1]  # type: ignore[attr-defined]
        return cls(cell, summary, values["train_seconds"], values["eval_seconds"], maximum, values.get("tasks", ""))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for files."""
        return {**asdict(self), "cell": self.cell.to_dict()}


@dataclass(frozen=True, slots=True)
class Setup:
    """A cell, built: its algorithm with its team, and the two environments under the algorithm's protocol."""

    algorithm: Any
    team: Team
    train_env: TextDecPOMDP
    eval_env: TextDecPOMDP
    sampling: Sampling


def build_env(cell: Cell, protocol: str, *, evaluation: bool) -> TextDecPOMDP:
    """The training or the evaluation environment of a cell, under a protocol."""
    return with_protocol(build_task(cell, evaluation=evaluation), protocol)


def build_task(cell: Cell, *, evaluation: bool) -> TextDecPOMDP:
    """The training or the evaluation environment of a cell."""
    config = cell.environment
    split: str | None = cell.evaluation.split if evaluation else "train"
    tasks = config.tasks
    if config.eval_tasks is not None:
        tasks, split = (config.eval_tasks if evaluation else tasks), "all"
    options = dict(config.options)
    if isinstance(options.get("expert"), str):  # the name of a reviewing model
        options["expert"] = Expert(load_policy(options["expert"]))
    if config.fields:
        options["fields"] = config.fields
    return make_task(config.id, options, tasks=tasks, split=split, max_turns=config.max_turns)


def make_task(env_id: str, options: Mapping[str, Any], **given: Any) -> Any:
    """Make an environment with options that a user wrote.

    Args:
        env_id: A registered id or "module:Class".
        options: Of its constructor, by name.
        given: Further arguments, which have settings of their own; None leaves the constructor's default.

    Raises:
        ConfigError: An option that has a setting of its own, or a value that its constructor does not take.
        KeyError: Unknown id; the message names the nearest ones.
    """
    for name in options:
        if name in given or name == "max_cycles":
            own = {"max_cycles": "max_turns"}.get(name, name)
            raise ConfigError(
                f"option {name} = {options[name]!r} of {env_id}: give it as --{_OPTIONS.get(own, own)}, or as `{own}` "
                "in a suite"
            )
    try:
        return make(env_id, **{name: value for name, value in given.items() if value is not None}, **options)
    except TypeError as error:
        said = ", ".join(f"{name} = {value!r}" for name, value in options.items()) or "no options"
        raise ConfigError(
            f"{env_id} cannot be made with {said}: {error}; its manual says what they take (llm-dec-pomdp list "
            "--verbose)"
        ) from error


def build_cell(cell: Cell, weights: Path | None = None) -> Setup:
    """Build everything that a cell names.

    Args:
        cell: What to build.
        weights: Folder of a saved team whose weights to take.
    """
    spec = find_algorithm(cell.method.name)
    kind: Any = spec.load()
    check_algorithm(kind, cell.method.name)
    eval_env = build_env(cell, kind.protocol, evaluation=True)
    learns = callable(getattr(kind, "update", None))
    train_env = build_env(cell, kind.protocol, evaluation=False) if learns else eval_env
    team = build_team(cell, eval_env, train_env, train=learns)
    if weights is not None:
        load_weights(weights, team)
    sampling = cell.sampling.build()
    options = build(kind.Config, {**spec.kwargs, **cell.method.options}, source=f"options of {cell.method.name}")
    return Setup(kind(team, sampling, options), team, train_env, eval_env, sampling)


def build_team(cell: Cell, env: TextDecPOMDP, *others: TextDecPOMDP, train: bool = True) -> Team:
    """The team that a cell names, for the agents of an environment; scripted members know the tasks of all.

    Without `train` no weights are trainable, so that on CUDA all of them are bfloat16.
    """
    model, seed = cell.model, derive(cell.seed, "team")
    if model.members:
        roles = [env.role(agent) for agent in env.possible_agents]

        def gold() -> dict[tuple[str, str], str]:
            tables = [unwrapped_task(one).gold_table() for one in (env, *others)]
            return {key: text for table in tables for key, text in table.items()}

        return assemble_team(env.possible_agents, roles, model.members, gold=gold, seed=seed)
    return model.load(env.possible_agents, model.name, seed=seed, train=train)


def run_cell(
    cell: Cell,
    folder: Path,
    progress: Progress | None = None,
    weights: Path | None = None,
    *,
    learn: bool = True,
    other_versions: bool = False,
    tracking: Sequence[Tracker] = ("tensorboard",),
) -> Result:
    """Run a cell and write its folder, or what is missing of it.

    Args:
        cell: What to run.
        folder: Where its files go; created.
        progress: Shows what is going on.
        weights: Saved team to start from.
        learn: Whether a learner is trained; False measures its team as it is.
        other_versions: Go on from a checkpoint although packages have changed since.
        tracking: Where the numbers of a training run also go.

    Raises:
        CheckpointError: The folder is that of another cell, or its checkpoints cannot be used.
    """
    progress = progress or Silent()
    folder.mkdir(parents=True, exist_ok=True)
    done = _begin(cell, folder)
    if done is not None:
        return done
    with progress.stage(f"{cell.label}: load", 1) as advance:
        setup = build_cell(cell, weights)
        advance(1, "")
    train_seconds = 0.0
    learns = learn and isinstance(setup.algorithm, Learner)
    with Trackers.open(tracking if learns else (), folder, cell.label, cell.to_dict()) as trackers:
        if learns:
            train_seconds = _train(cell, setup, folder, progress, trackers, other_versions=other_versions)
            save_team(folder / "team", setup.team, cell.to_dict())
        trained = time.perf_counter()
        groups, summary = evaluate(cell, setup, progress)
        if learns:
            _note(folder, cell.training.steps, summary)
            trackers.log(cell.training.steps, evaluation_numbers(summary))
    _write_lines(folder / "episodes.jsonl", (episode_record(e) for group in groups for e in group.episodes))
    seconds = time.perf_counter() - trained
    summary = dataclasses.replace(summary, latency=_latency(cell, setup))
    maximum = setup.eval_env.score_range[1]
    result = Result(cell, summary, train_seconds, seconds, maximum, _tasks_digest(cell, setup.eval_env))
    replace_json(folder / "result.json", result.to_dict())
    return result


def _begin(cell: Cell, folder: Path) -> Result | None:
    """Write down what is going to run; the result when it ran before with as many steps."""
    path, result = folder / "cell.json", folder / "result.json"
    if path.exists():
        there = Cell.from_dict(json.loads(path.read_text(encoding="utf-8")))
        refuse_conflicts(there, cell, folder)
        if result.exists() and there.training.steps == cell.training.steps:
            return Result.from_dict(json.loads(result.read_text(encoding="utf-8")))
        result.unlink(missing_ok=True)  # it goes on: what it earns has to be measured anew
    replace_json(path, cell.to_dict())
    return None


def refuse_conflicts(there: Cell, here: Cell, folder: Path) -> None:
    """Let a cell go on in the folder of another only where nothing differs that could change what is learnt.

    Args:
        there: The cell of the folder.
        here: What is to go on there.
        folder: For the message.

    Raises:
        CheckpointError: The message names every value that differs.
    """
    if found := conflicts(there, here):
        raise CheckpointError(
            f"{str(folder)!r} is the folder of another configuration (there -> here): {'; '.join(found)}; resume with "
            "the configuration of the run, or give a new folder"
        )


def _train(
    cell: Cell, setup: Setup, folder: Path, progress: Progress, trackers: Trackers, *, other_versions: bool
) -> float:
    """Train, with a line per step in `train.jsonl` and a line per evaluation before the last in `curve.jsonl`.

    Returns:
        Seconds, those before a restart included.
    """
    config = cell.without(*FREE_IN_CHECKPOINT)
    places = Checkpoints(folder / "checkpoints", config, keep=cell.training.keep, other_versions=other_versions)
    done = restore(setup.algorithm, setup.train_env, places)
    (folder / "train.jsonl").touch()  # from here on it is known that this cell learns
    cut(folder / "train.jsonl", "number", done.step)
    cut(folder / "curve.jsonl", "step", done.step)

    def note(steps: int) -> None:
        summary = evaluate(cell, setup, progress, f" after step {steps}")[1]
        _note(folder, steps, summary)
        trackers.log(steps, evaluation_numbers(summary))

    with progress.stage(f"{cell.label}: train", cell.training.steps) as advance:
        advance(done.step, "")

        def on_step(step: Step) -> None:
            append(folder / "train.jsonl", asdict(step))
            trackers.log(step.number, train_numbers(step))
            advance(1, f"return {step.return_percent:.1f} %")
            if cell.evaluation.every and step.number % cell.evaluation.every == 0 and step.number < cell.training.steps:
                note(step.number)

        if not read_lines(folder / "curve.jsonl"):
            note(0)
        how = setup.train_env, setup.sampling, cell.training, cell.seed, on_step
        return train(setup.algorithm, *how, checkpoints=places, done=done).seconds


def _note(folder: Path, steps: int, summary: Summary) -> None:
    """One line of `curve.jsonl`, unless it is there."""
    path = folder / "curve.jsonl"
    if steps not in (line["step"] for line in read_lines(path)):
        episodes = sum(line["episodes"] for line in read_lines(folder / "train.jsonl"))
        append(path, {"step": steps, "training_episodes": episodes, **asdict(summary)})


def evaluate(cell: Cell, setup: Setup, progress: Progress, when: str = "") -> tuple[list[Group], Summary]:
    """Play the evaluation tasks; prompts and seeds depend on the cell's seed alone, not on its method."""
    env = setup.eval_env
    ids = [item.id for item in env.items[: cell.evaluation.items]]
    per_chunk = max(1, _CHUNK // cell.evaluation.samples)
    groups: list[Group] = []
    started = time.perf_counter()
    with progress.stage(f"{cell.label}: evaluate{when}", len(ids)) as advance:
        for first in range(0, len(ids), per_chunk):
            chunk = ids[first : first + per_chunk]
            seeds = [derive(cell.seed, "evaluation", item_id) for item_id in chunk]
            groups += collect(env, setup.team, chunk, seeds, setup.sampling, cell.evaluation.samples)
            advance(len(chunk), "")
        seconds = time.perf_counter() - started
        summary = summarise(groups, env.score_range[1], env.components, seconds)
        advance(0, f"return {summary.return_percent.mean:.1f} %")
    return groups, dataclasses.replace(summary, schemes=scheme_shares(env, groups))


def _latency(cell: Cell, setup: Setup) -> Interval | None:
    """Response time of the first `evaluation.timing` tasks, each played alone."""
    items = setup.eval_env.items[: cell.evaluation.timing]
    if not items:
        return None
    played = [
        collect(setup.eval_env, setup.team, [item.id], [derive(cell.seed, "timing", item.id)], setup.sampling)[0]
        for item in (items[0], *items)  # the first one twice: it warms up
    ]
    return mean_interval([group.episodes[0].response_seconds for group in played[1:]])


def _tasks_digest(cell: Cell, env: TextDecPOMDP) -> str:
    """Tells evaluation tasks apart, by their ids and prompts."""
    rows = [(item.id, item.prompt) for item in env.items[: cell.evaluation.items]]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def train_numbers(step: Step) -> dict[str, float]:
    """What is tracked of a training step."""
    parts = {f"train/{name}": value for name, value in step.components.items()}
    metrics = {f"train/{name}": float(value) for name, value in step.metrics.items()}
    seconds = {"time/rollout": step.seconds_rollout, "time/update": step.seconds_update}
    return {"train/return_percent": step.return_percent, "train/return": step.mean_return} | parts | metrics | seconds


def evaluation_numbers(summary: Summary) -> dict[str, float]:
    """What is tracked of an evaluation."""
    parts = {f"test/{name}": value.mean for name, value in summary.components.items()}
    schemes = {f"schemes/{name}": value for name, value in summary.schemes.items()}
    return {
        "test/return_percent": summary.return_percent.mean,
        "test/distinct_2": summary.distinct_2,
        **parts,
        **schemes,
    }


def episode_record(episode: Episode) -> dict[str, Any]:
    """An episode as plain values: what each agent saw and said, and what it was worth."""
    return {
        "task": episode.item_id,
        "seed": episode.seed,
        "return": episode.total,
        "terminated": episode.terminated,
        "turns": [
            {
                "observations": dict(turn.observations),
                "actions": {agent: c.text for agent, c in turn.actions.items()},
                "tokens": {agent: [len(c.prompt_ids), len(c.token_ids)] for agent, c in turn.actions.items()},
                "reward": turn.reward,
                "score": turn.score.total if turn.score else None,
                "components": dict(turn.score.components) if turn.score else None,
                "diagnostics": dict(turn.score.diagnostics) if turn.score else None,
                "notes": dict(turn.score.notes) if turn.score else None,
            }
            for turn in episode.turns
        ],
    }


def _write_lines(path: Path, records: Any) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
