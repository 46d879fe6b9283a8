"""Parts of the commands `eval` and `train`: their common options, and how they make and run a cell.

A cell is the configuration of one run: environment, method, model and seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..agents.options import ModelOptions
from ..config import override
from ..options import EvaluationConfig, Sampling, TrainerConfig
from ..printable import plain
from .console import err, failure, out, print_json, show_report, stop
from .options import (
    EnvOption,
    Fields,
    Json,
    Tasks,
    Traces,
    Turns,
    configured,
    flag,
    from_options,
    given,
    read_fields,
    with_options,
)
from .trust import Trust, allow

if TYPE_CHECKING:
    from ..benchmarks.suite import Cell, ModelConfig
    from ..results.runs import CellRecord
    from ..training import TrainerConfig

_DRAWN = ("temperature", "top_p", "max_new_tokens")
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "model": (
        Annotated[
            str,
            typer.Option(
                help="builtin:tiny, a folder, a .gguf file, a name on the Hugging Face hub, a server as "
                "http://HOST:PORT/v1#NAME, or a script such as script:optimal. Default: builtin:extractive for "
                "tldr-v0, builtin:table or builtin:words for environments with few actions or words, else "
                "builtin:tiny.",
                show_default=False,
            ),
        ],
        "",
    ),
    **configured(ModelOptions, "sharing", "device", "dtype"),
    "load": (
        Annotated[
            list[str] | None,
            typer.Option(help="Another option of the model, e.g. lora_rank=16 or gradient_checkpointing=true."),
        ],
        None,
    ),
    "tasks": (Tasks, "sample"),
    "field": (Fields, None),
    "turns": (Turns, None),
    "env_option": (EnvOption, None),
    **configured(EvaluationConfig, "items", "samples"),
    **configured(Sampling, *_DRAWN),
    "seed": (Annotated[int, typer.Option(help="Seed of the run.")], 0),
    "out_folder": (
        Annotated[Path | None, typer.Option("--out", help="Folder of the run. Default: a new folder in runs/.")],
        None,
    ),
    "traces": (Traces, False),
    "trust": (Trust, False),
    "as_json": (Json, False),
}


def cell_options(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options of a cell to a command, which receives them as `**options`.

    Args:
        defaults: Default values that differ from the common ones, by the name of the option.
    """
    return with_options(
        {name: (annotation, defaults.get(name, default)) for name, (annotation, default) in _OPTIONS.items()}
    )


def make_cell(
    env_id: str,
    algorithm: str,
    options: dict[str, Any],
    *,
    played: ModelConfig | None,
    training: TrainerConfig,
    settings: list[str] | None = None,
    environment: Mapping[str, Any] = MappingProxyType({}),
    **evaluation: Any,
) -> Cell:
    """Return the cell that the options of a command describe.

    Args:
        env_id: Id of the environment.
        algorithm: A name or module:Class.
        options: Values of the options of `cell_options`.
        played: The team, if a file describes it; else None.
        training: Length of the training.
        settings: Options of the algorithm, each as "name=value".
        environment: Further fields of `EnvironmentConfig`.
        evaluation: Further fields of `EvaluationConfig`.

    Raises:
        ConfigError: A value is refused; the message names the option.
        KeyError: There is no such algorithm.
    """
    from ..algorithms.registration import find_algorithm
    from ..benchmarks.suite import Cell, EnvironmentConfig, MethodConfig

    return Cell(
        from_options(
            EnvironmentConfig,
            id=env_id,
            tasks=options["tasks"],
            fields=read_fields(options["field"]),
            max_turns=options["turns"],
            options=override({}, options["env_option"] or []),
            **environment,
        ),
        MethodConfig(name=algorithm, options=find_algorithm(algorithm).config(override({}, settings or []))),
        played or _model(options),
        options["seed"],
        from_options(Sampling, **{name: options[name] for name in _DRAWN}),
        training,
        from_options(EvaluationConfig, items=options["items"], samples=options["samples"], **evaluation),
    )


def _model(options: dict[str, Any]) -> ModelConfig:
    from ..benchmarks.suite import ModelConfig

    load = override({}, options["load"] or [])
    for name in ("name", "members", "sharing", "device", "dtype"):
        if name in load:
            stop(f"--load {name} is refused; give it as its own option, or in a file with --team (see --help)")
    if "lora_rank" in load and options["sharing"] != "lora":
        refuse(["--load lora_rank"], f"it needs --sharing lora, but --sharing is {options['sharing']}")
    named = {name: options[name] for name in ("sharing", "device", "dtype")}
    return from_options(ModelConfig, further=list(load), name=options["model"], **named, **load)


# Parameters of `eval`, with the part of a cell and the field that each of them sets.
_MEASURED = {
    "tasks": ("environment", "tasks"),
    "field": ("environment", "fields"),
    "turns": ("environment", "max_turns"),
    "temperature": ("sampling", "temperature"),
    "top_p": ("sampling", "top_p"),
    "max_new_tokens": ("sampling", "max_new_tokens"),
    "split": ("evaluation", "split"),
    "items": ("evaluation", "items"),
    "samples": ("evaluation", "samples"),
}


def measured_as(context: typer.Context, trained: Cell, options: Cell) -> tuple[Cell, list[str]]:
    """Return the cell that evaluates a trained team as its run did, except for options of the command line.

    Args:
        context: Context of the command, which records the given options.
        trained: The cell of the run that trained the team.
        options: The cell that the options and their defaults describe.

    Returns:
        The cell, and its differences from the run, each as "a.b: 1 -> 2". If the environment differs from the one of
        the run, its tasks, fields, turns and options are those of `options`.
    """
    from ..training.checkpoint import differences

    same = options.environment.id == trained.environment.id
    parts: dict[str, Any] = {
        "environment": trained.environment if same else options.environment,
        "sampling": trained.sampling,
        "evaluation": trained.evaluation,
    }
    parts["environment"] = parts["environment"].model_copy(update={"protocol": trained.environment.protocol})
    for name, (part, key) in _MEASURED.items():
        if given(context, name):
            value = getattr(getattr(options, part), key)
            parts[part] = parts[part].model_copy(update={key: value})
    environment = parts["environment"]
    if given(context, "tasks", "split"):  # they replace the run's separate file of evaluation tasks
        environment = environment.model_copy(update={"eval_tasks": None})
    environment = environment.model_copy(update={"options": {**environment.options, **options.environment.options}})
    seed = options.seed if given(context, "seed") else trained.seed
    cell = dataclasses.replace(trained, **{**parts, "environment": environment}, seed=seed, training=options.training)
    return cell, differences(trained.without("training"), cell.without("training"))


def saved_team(context: typer.Context, place: Path, *further: str) -> tuple[Path, Cell]:
    """Return the folder of a saved team, and the cell that trained it, changed to the given device and dtype.

    Args:
        context: Context of the command. The options `model`, `sharing` and `load` are refused, because the saved team
            determines them.
        place: Folder of a run, of one of its cells, or of a saved team.
        further: Names of further parameters that are refused.
    """
    from ..benchmarks.suite import cell_of
    from ..training.checkpoint import find_team  # loads torch

    refuse(given(context, *further, "model", "sharing", "load"), f"the team in {place} has its own value")
    folder = find_team(place)
    cell = cell_of(folder)
    places = {name: context.params[name] for name in ("device", "dtype") if given(context, name)}
    return folder, dataclasses.replace(cell, model=cell.model.model_copy(update=places))


def cell_to_resume(
    context: typer.Context, folder: Path, free: Sequence[str] = (), changes: Sequence[str] = (), *, trust: bool
) -> Cell:
    """Return the only cell of a run, for a command that names the folder of the run and no environment.

    Args:
        context: Context of the command, which records the given options.
        folder: Folder of the run.
        free: Parameters that may be given in addition.
        changes: Those of them that change the cell; the error message lists them.
        trust: See `trust.allow`.
    """
    from ..benchmarks.suite import Cell

    allowed = given(context, "resume", "traces", "trust", "as_json", *free)
    if refused := [option for option in given(context) if option not in allowed]:
        may_change = f"; only {', '.join(map(flag, changes))} may change" if changes else ""
        stop(
            f"{', '.join(refused)}: --resume without an environment uses the options of the run{may_change}; leave it "
            "out, or give the environment and all options"
        )
    if not folder.is_dir():
        stop(f"the run {str(folder)!r} does not exist; `llm-dec-pomdp runs` lists all runs")
    cells = sorted(folder.glob("cells/*/cell.json"))
    if not cells:
        stop(f"{str(folder)!r} holds no cells/*/cell.json yet; give the environment and all options with --resume")
    if len(cells) != 1:
        stop(f"{str(folder)!r} holds {len(cells)} runs, not one; resume a benchmark with bench --resume {folder}")
    cell = Cell.read(cells[0])
    allow([cell], folder, trust=trust)
    return cell.loaded()


def check_same_cell(cell: Cell, folder: Path) -> None:
    """Raise CheckpointError, which names every difference, if the run in the folder has another configuration."""
    from ..benchmarks.cell import check_conflicts

    for path in sorted(folder.glob("cells/*/cell.json")):
        check_conflicts(cell, path.parent)


def refuse(options: list[str], reason: str) -> None:
    """Refuse options that would have no effect."""
    if options:
        stop(f"{', '.join(options)} would have no effect: {reason}; leave it out")


def check_cell(cell: Cell, *, learn: bool = True, executor: str = "local") -> Cell:
    """Check a cell before its folder is made.

    Returns:
        The cell, completed with the defaults of its environment.

    Raises:
        ConfigError, KeyError, ValueError: The cell cannot be run; the message gives the reason.
    """
    from ..benchmarks.checks import check_cells

    (complete,) = check_cells([cell], learn=learn, executor=executor)
    if learn and not cell.method.learns:
        name = cell.method.name
        stop(f"--algorithm {name!r} does not learn; train magrpo, grpo or your own learner, or use the command eval")
    return complete


def _before_and_after(entry: CellRecord) -> str:
    """Return one line with the return before and after training; "" if nothing was trained."""
    from ..evaluation.intervals import Interval

    points = entry.curve()
    if len(points) < 2:
        return ""
    first, last, who = points[0], points[-1], f"{entry.environment} {entry.method}"
    if (then := first.get("measured", {}).get("regret")) and (now := last.get("measured", {}).get("regret")):
        before, after, optimum = (
            Interval.read(values).mean for values in (then["return"], now["return"], now["optimum"])
        )
        change = f"{who}: return before {before:.2f}, after {after:.2f}: {after - before:+.2f}"
        return f"{change} (optimum {optimum:.2f}, regret {optimum - after:.2f})"
    before, after = (Interval.read(point["return_percent"]).mean for point in (first, last))
    return f"{who}: return before {before:.1f} %, after {after:.1f} % of the maximum: {after - before:+.1f} points"


def run_one(
    cell: Cell,
    folder: Path | None,
    name: str,
    as_json: bool,
    *,
    learn: bool = True,
    resume: bool = False,
    **arguments: Any,
) -> None:
    """Run a cell and print its result.

    Args:
        cell: The configuration of the run.
        folder: Folder for the results; None makes a new folder.
        name: First part of the name of a new folder.
        as_json: Print JSON in place of tables.
        learn: Train before the evaluation.
        resume: Continue the run in the folder.
        arguments: Further arguments of `run_cell`.
    """
    from ..benchmarks.cell import run_cell
    from ..benchmarks.runner import run_folder, write_results
    from ..progress import shown
    from ..report.findings import findings
    from ..report.terminal import summary
    from ..report.text import write_report
    from ..results.runs import read_run
    from ..storage.runfolder import new_run_folder

    folder = folder or new_run_folder(name)
    command = "train" if learn else "eval"
    if cell.outside:
        command += " --trust"
    with failure(folder, command=command), shown(err, quiet=as_json) as progress, run_folder(folder, resume=resume):
        result = run_cell(cell, folder / "cells" / cell.label, progress, learn=learn, **arguments)
        write_results(folder, [result])
        write_report(folder)
    if as_json:
        print_json({"folder": str(folder), "results": [result.to_dict()]})
    else:
        entries = read_run(folder).entries
        change = _before_and_after(entries[0])
        show_report([plain(change)] if change else summary(findings(entries), entries, out.width), folder)
