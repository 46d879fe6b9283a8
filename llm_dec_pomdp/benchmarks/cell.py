"""One cell: build it, train its learner, evaluate it, and write the results.

A cell is the configuration of one run: environment, method, model and seed. The folder of a cell contains:

- `cell.json`: the complete configuration;
- `train.jsonl`: a line for each update;
- `rollbacks.json`: the rollbacks of a training that diverged, if there were any;
- `curve.jsonl`: a line for each evaluation on the evaluation tasks;
- `principles.json`: the principles of `training.judge`, if it is set;
- `checkpoints/`;
- `episodes/`: the episodes of the evaluations before and after training, and with traces of every evaluation. The
  episodes of an unfinished evaluation are in `part-N.jsonl`;
- `team/`: trained weights;
- event files, with TensorBoard;
- `result.json`, when the run is done.

A run without a result resumes from its newest checkpoint, and an evaluation after its last finished episodes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..agents.base import Sampling, Team
from ..agents.io.load import load_team
from ..agents.io.models import TABLE, server_model
from ..agents.io.save import load_weights, save_team
from ..agents.principles import load_principles, read_principles
from ..algorithms.base import Algorithm
from ..algorithms.registration import find_algorithm
from ..algorithms.staged import Stage, Staged
from ..envs.base import TextDecPOMDP
from ..envs.judging import BASE
from ..evaluation import play
from ..evaluation.intervals import Interval, mean_interval
from ..evaluation.metrics import Summary, earned
from ..evaluation.sections import means
from ..evaluation.sections.influence import alarm
from ..progress import Progress, Silent
from ..rollout import Trajectories
from ..seeding import derive
from ..storage.files import replace_json
from ..storage.reading import find_json, is_there
from ..storage.runfolder import append, cut, read_lines
from ..storage.signals import finishing
from ..training import Rollback, TrainingStep, restore, train
from ..training.checkpoint import CheckpointError, Checkpoints
from ..training.divergence import describe_learning_rates
from ..training.judged import WithJudge
from ..training.partners import WithPartners
from ..training.tracking import Tracker, Trackers, train_numbers
from ..training.workers import Executor, run
from ..types import Group
from .kept import forget_after, keeping
from .result import ROLLBACKS, Result, find_result
from .setup import bind_base, build_env, build_team, with_defaults
from .suite import FREE_IN_CHECKPOINT, Cell, conflicts


@dataclass(frozen=True, slots=True)
class Setup:
    """The loaded parts of a cell: the algorithm with its team, and two environments under its protocol.

    A `Staged` algorithm has the training environments of earlier stages.
    """

    algorithm: Algorithm
    team: Team
    train_env: TextDecPOMDP
    eval_env: TextDecPOMDP
    sampling: Sampling


def build_cell(cell: Cell, weights: Path | None = None, load: Callable[..., Team] = load_team) -> Setup:
    """Build the environments, the team and the algorithm of a cell.

    Args:
        cell: The cell.
        weights: Folder of a saved team with the first weights. Default: `model.start` of the cell.
        load: Function that loads the models, with the arguments of `load_team`.
    """
    eval_env = build_env(cell, cell.protocol, evaluation=True)
    learns = cell.method.learns
    train_env = build_env(cell, cell.protocol, evaluation=False) if learns else eval_env
    of_stages = [
        build_env(cell.at_stage(stage), cell.protocol, evaluation=False) if str(stage.environment) else None
        for stage in cell.method.stages
    ]
    train_envs = [train_env, *filter(None, of_stages)]
    cell = with_defaults(cell, eval_env)
    team = build_team(cell, eval_env, *train_envs, train=learns, load=load)
    if weights is None and cell.model.start:
        weights = Path(cell.model.start)
    if weights is not None:
        load_weights(weights, team)
    if cell.judge == BASE:
        for task in (*train_envs, eval_env):
            bind_base(task, team, cell.model.name)
    sampling = cell.sampling
    chain = [*cell.method.stages, cell.method]
    learners: list[Algorithm] = []
    for place, method in enumerate(chain):
        same = place and (method.name, method.options) == (chain[place - 1].name, chain[place - 1].options)
        learners.append(learners[-1] if same else find_algorithm(method.name).build(team, sampling, method.options))
    algorithm = learners.pop()
    if learners:
        earlier = [
            Stage(learner, stage.steps, env)
            for learner, stage, env in zip(learners, cell.method.stages, of_stages, strict=True)
        ]
        algorithm = Staged([*earlier, Stage(algorithm, 0)])
    return Setup(algorithm, team, train_env, eval_env, sampling)


def run_cell(
    cell: Cell,
    folder: Path,
    progress: Progress | None = None,
    weights: Path | None = None,
    *,
    learn: bool = True,
    other_versions: bool = False,
    tracking: Sequence[Tracker] = (),
    executor: str = "local",
    address: str | None = None,
    traces: bool = False,
) -> Result:
    """Run a cell and write its folder, or the missing part of the folder.

    Args:
        cell: The cell.
        folder: Folder for the files; it is created.
        progress: Shows the progress.
        weights: Folder of a saved team to start from. Default in an existing folder: the team that the run started
            from.
        learn: Whether a learner is trained; False evaluates its team without training.
        other_versions: Resume from a checkpoint with other versions of packages.
        tracking: Trackers that also receive the metrics of a training.
        executor: Backend for the models, a name of `training.workers`; it changes no number.
        address: Address of a Ray cluster, for the executor ray.
        traces: Keep the traces of every evaluation.

    Raises:
        CheckpointError: The folder belongs to another cell, or its checkpoints cannot be used.
        WorkerLostError: The executor lost its workers too often; the checkpoints are kept.
    """
    progress = progress or Silent()
    folder.mkdir(parents=True, exist_ok=True)
    weights = _saved_weights(folder, weights)
    done = _prepare_folder(cell, folder)
    if done is not None:
        return done

    def carry_out(placement: Executor) -> Result:
        with progress.stage(f"{cell.short}: load", 1) as advance:
            setup = build_cell(cell, weights, placement.load_team)
            advance(1, "")
        return _carry_out(
            cell, setup, folder, progress, tracking, learn=learn, other_versions=other_versions, traces=traces
        )

    return run(executor, carry_out, **({"address": address} if address else {}))


def _carry_out(
    cell: Cell,
    setup: Setup,
    folder: Path,
    progress: Progress,
    tracking: Sequence[Tracker],
    *,
    learn: bool,
    other_versions: bool,
    traces: bool,
) -> Result:
    """Train and evaluate a cell that has no result yet."""
    train_seconds = 0.0
    learns = learn and setup.algorithm.learns()
    if learns:
        for line in _about_tasks(cell, setup):
            progress.say(f"{cell.short}: {line}")
    with Trackers.open(tracking if learns else (), folder, cell.label, cell.to_dict()) as trackers:
        if learns:
            train_seconds = _train(
                cell, setup, folder, progress, trackers, other_versions=other_versions, traces=traces
            )
            save_team(setup.team, folder / "team", cell.to_dict())
        trained = time.perf_counter()
        steps = cell.training.steps if learns else 0
        with keeping(cell, setup.team, setup.eval_env, folder, steps, token_ids=traces) as kept:
            summary = evaluate(cell, setup, progress, "", kept.keep, kept.done, kept.seconds)
        if learns:
            _note(folder, cell.training.steps, summary)
            trackers.log(cell.training.steps, evaluation_numbers(summary))
    seconds = time.perf_counter() - trained + kept.seconds
    summary = dataclasses.replace(summary, latency=_latency(cell, setup))
    env = setup.eval_env
    zero, maximum = env.facts.score_scale
    roles = {agent: env.role(agent) for agent in env.possible_agents}
    judge = env.facts.judge.name if env.facts.judge else ""
    result = Result(cell, summary, train_seconds, seconds, maximum, _tasks_digest(cell, env), zero, roles, judge)
    replace_json(folder / "result.json", result.to_dict())
    return result


def _about_tasks(cell: Cell, setup: Setup) -> Iterator[str]:
    """Yield messages for the user about the training and evaluation tasks."""
    stream, measured = setup.train_env.stream, {item.prompt for item in setup.eval_env.items}
    config = cell.environment
    trained = set[str]() if stream else {item.prompt for item in setup.train_env.items}
    if config.tasks not in ("sample", "hub") or config.split:
        rows = _rows(len(setup.train_env.items)) if stream is None else f"a stream ({stream.place})"
        known = sum(item.prompt in trained for item in setup.eval_env.items)
        held_out = f"to evaluate on ({known} of them also in training)" if known else "held out for evaluation"
        yield f"{rows} to train on, {_rows(len(setup.eval_env.items))} {held_out}"
    tables = TABLE in (cell.model.name, *(member.model for member in cell.model.members))
    if tables and measured - trained:
        yield (
            f"{TABLE} memorises each task, and {len(measured - trained)} of the {len(measured)} evaluation tasks are "
            "not in training; evaluate on the training tasks: --eval-split train (evaluation.split in a suite)"
        )


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"


def _prepare_folder(cell: Cell, folder: Path) -> Result | None:
    """Write the configuration into the folder; return the result if the cell already ran with as many steps."""
    path, result = folder / "cell.json", folder / "result.json"
    for name in cell.models:
        server_model(name)  # refuses addresses that contain a secret
    if is_there(path):
        check_conflicts(cell, folder)
        if is_there(result) and Cell.read(path).training.steps == cell.training.steps:
            return find_result(folder)
        result.unlink(missing_ok=True)  # the training continues, and the team is evaluated again
    replace_json(path, cell.to_dict())
    return None


def _saved_weights(folder: Path, weights: Path | None) -> Path | None:
    """Return the folder of the saved team that a cell starts from, and record it in `weights.json` for a resume.

    Raises:
        CheckpointError: The run started from another saved team.
    """
    path, here = folder / "weights.json", weights and str(weights.absolute())
    there = find_json(path, str)
    if here and not is_there(folder / "cell.json"):
        replace_json(path, here)
    elif here and here != there:
        raise CheckpointError(
            f"{str(folder)!r} started from the weights of {there!r}, not of {here!r}; resume with {there!r}, or give a "
            "new folder"
        )
    return Path(there) if there and not here else weights


def check_conflicts(cell: Cell, folder: Path) -> None:
    """Raise CheckpointError if the cell of a folder differs in anything that could change the training.

    The error names all differences. A training that is not done may end with fewer steps, but not with fewer than the
    newest checkpoint has.
    """
    there, saved = Cell.read(folder / "cell.json"), None
    if cell.training.steps < there.training.steps and not (folder / "result.json").exists():
        newest = Checkpoints(folder / "checkpoints", {}).newest()
        saved = newest.step if newest else 0
    if different := conflicts(there, cell, saved):
        raise CheckpointError(
            f"{str(folder)!r} belongs to another configuration (there -> here): {'; '.join(different)}; resume with "
            "the configuration of the run, or give a new folder"
        )


def _train(
    cell: Cell,
    setup: Setup,
    folder: Path,
    progress: Progress,
    trackers: Trackers,
    *,
    other_versions: bool,
    traces: bool,
) -> float:
    """Train, with a line per update in `train.jsonl` and a line per evaluation except the last in `curve.jsonl`.

    Returns:
        Seconds of training, including the time before a restart.
    """
    config = cell.without(*FREE_IN_CHECKPOINT)
    places = Checkpoints(folder / "checkpoints", config, keep=cell.training.keep, other_versions=other_versions)
    learner = WithPartners(setup.algorithm, cell.training.partners) if cell.training.partners else setup.algorithm
    if cell.training.judge:
        _keep_principles(folder, cell.training.judge)
        learner = WithJudge(learner, load_principles(cell.training.judge, cell.training.judge_model))
    done = restore(learner, setup.train_env, places)
    (folder / "train.jsonl").touch()  # marks the cell as one that is trained
    rollbacks = list(done.rollbacks)

    def go_back(step: int) -> None:
        cut(folder / "train.jsonl", "number", step)
        cut(folder / "curve.jsonl", "step", step)
        forget_after(folder, step)
        if rollbacks:
            replace_json(folder / ROLLBACKS, [asdict(rollback) for rollback in rollbacks])
        else:
            (folder / ROLLBACKS).unlink(missing_ok=True)

    go_back(done.step)

    def note(steps: int) -> None:
        written = traces or steps == 0
        with (
            keeping(cell, setup.team, setup.eval_env, folder, steps, token_ids=traces)
            if written
            else contextlib.nullcontext() as kept
        ):
            if kept:
                summary = evaluate(cell, setup, progress, f" {steps}", kept.keep, kept.done, kept.seconds)
            else:
                summary = evaluate(cell, setup, progress, f" {steps}")
        _note(folder, steps, summary)
        trackers.log(steps, evaluation_numbers(summary))

    rates = setup.algorithm.learning_rates()
    label = f"{cell.short}: train ({describe_learning_rates(rates)})"
    with progress.stage(label, cell.training.steps, done.step) as advance:

        def on_step(step: TrainingStep) -> None:
            nonlocal rates
            if step.learning_rates != rates:  # each stage of the method has its own learning rates
                progress.say(f"{cell.short}: step {step.number}, {describe_learning_rates(step.learning_rates)}")
            rates = step.learning_rates
            append(folder / "train.jsonl", asdict(step))
            trackers.log(step.number, train_numbers(step))
            advance(1, f"return {earned(step.return_percent, step.mean_return, setup.train_env.facts.optimum)}")
            if cell.evaluation.every and step.number % cell.evaluation.every == 0 and step.number < cell.training.steps:
                note(step.number)

        def on_rollback(rollback: Rollback) -> None:
            rollbacks.append(rollback)
            go_back(rollback.to)
            advance(rollback.to + 1 - rollback.at, "")

        if not read_lines(folder / "curve.jsonl"):
            note(0)
        with finishing("step") as stop:
            return train(
                learner,
                setup.train_env,
                setup.sampling,
                cell.training,
                cell.seed,
                on_step,
                checkpoints=places,
                done=done,
                stop=stop,
                on_rollback=on_rollback,
            ).seconds


def _keep_principles(folder: Path, judge: str) -> None:
    """Write the principles of a judge to `principles.json`; raise CheckpointError if a resumed run had others."""
    path, principles = folder / "principles.json", read_principles(judge)
    if is_there(path) and find_json(path, list[str]) != principles:
        raise CheckpointError(
            f"{judge} has changed since {str(folder)!r} began; restore the principles in {str(path)!r}, or give a new "
            "folder"
        )
    replace_json(path, principles)


def _note(folder: Path, steps: int, summary: Summary) -> None:
    """Append a line to `curve.jsonl`, unless it already has a line for this step."""
    path = folder / "curve.jsonl"
    if steps not in (line["step"] for line in read_lines(path)):
        episodes = sum(line["episodes"] for line in read_lines(folder / "train.jsonl"))
        append(path, {"step": steps, "training_episodes": episodes, **asdict(summary)})


def evaluate(
    cell: Cell,
    setup: Setup,
    progress: Progress,
    when: str = "",
    keep: Callable[[Sequence[Group]], object] = lambda groups: None,
    done: Sequence[Group] = (),
    seconds: float = 0.0,
) -> Summary:
    """Play independent episodes of the evaluation tasks; prompts and seeds depend only on the cell's seed.

    Args:
        cell: The cell.
        setup: Its loaded parts.
        progress: Shows the progress.
        when: Suffix for the name of the stage of the progress.
        keep: Receives finished groups.
        done, seconds: See `play.evaluate`.
    """
    env, asked = setup.eval_env, cell.evaluation
    with progress.stage(f"{cell.short}: evaluate{when}", len(env.items[: asked.items])) as advance:

        def played(groups: Sequence[Group]) -> None:
            keep(groups)
            advance(len(groups), "")

        advance(len(done), "")
        _, summary = play.evaluate(
            setup.algorithm.policy,
            env,
            setup.sampling,
            cell.seed,
            items=asked.items,
            samples=asked.samples,
            keep=played,
            done=done,
            seconds=seconds,
            agents=cell.method.learns,
        )
        advance(0, f"return {summary.earned}")
    if doubt := alarm(means([summary.measured.get("influence", {})])):
        progress.say(f"{cell.short}: evaluate{when}: warning: {doubt}")
    return summary


def _latency(cell: Cell, setup: Setup) -> Interval | None:
    """Return the response time of the first `evaluation.timing` tasks, played one at a time; None if `timing` is 0."""
    items = setup.eval_env.items[: cell.evaluation.timing]
    if not items:
        return None
    env, policy = setup.eval_env, setup.algorithm.policy
    played = [
        Trajectories(chance="own").play(env, policy, [item.id], [derive(cell.seed, "timing", item.id)], setup.sampling)[
            0
        ]
        for item in (items[0], *items)  # the first task is played twice, because its first episode is a warm-up
    ]
    return mean_interval([group.episodes[0].response_seconds for group in played[1:]])


def _tasks_digest(cell: Cell, env: TextDecPOMDP) -> str:
    """Return a digest of the ids and prompts of the evaluation tasks."""
    rows = [(item.id, item.prompt) for item in env.items[: cell.evaluation.items]]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def evaluation_numbers(summary: Summary) -> dict[str, float]:
    """Return the metrics of an evaluation for trackers, by name."""
    parts = {f"test/{name}": value.mean for name, value in summary.components.items()}
    measured = {
        f"{section}/{name}": v.mean for section, by_name in summary.measured.items() for name, v in by_name.items()
    }
    means = {"test/return_percent": summary.return_percent.mean, "test/distinct_2": summary.distinct_2}
    return means | parts | measured
