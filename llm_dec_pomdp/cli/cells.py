"""What `eval` and `train` share: options, the cell that they make, and running it."""

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
                help="builtin:tiny, a folder, a .gguf file, a hub id, or a script such as script:optimal. Left out: "
                "builtin:extractive for tldr-v0, builtin:table or builtin:words where agents have few texts or words "
                "to say, else builtin:tiny.",
                show_default=False,
            ),
        ],
        "",
    ),
    **configured(ModelOptions, "sharing", "device", "dtype"),
    "load": (
        Annotated[
            list[str] | None,
            typer.Option(help="Further option of the model, e.g. lora_rank=16 or gradient_checkpointing=true."),
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
    "out_folder": (Annotated[Path | None, typer.Option("--out", help="Folder of the run.")], None),
    "traces": (Traces, False),
    "trust": (Trust, False),
    "as_json": (Json, False),
}


def cell_options(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a cell, which it takes as `**options`; some with other defaults."""
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
    """Return the cell that options describe.

    Args:
        env_id: Environment.
        algorithm: A name or module:Class.
        options: Values of `cell_options`.
        played: The team, where a file describes it.
        training: How long to train.
        settings: Options of the algorithm.
        environment: Further values of the environment, by the fields of `EnvironmentConfig`.
        evaluation: Further values of the evaluation.

    Raises:
        ConfigError: A value that is refused, named as its option.
        KeyError: No such algorithm.
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
            stop(f"--load {name}: it has an option of its own, or a file (--team); see --help")
    if "lora_rank" in load and options["sharing"] != "lora":
        refuse(["--load lora_rank"], f"it is for --sharing lora, and this is --sharing {options['sharing']}")
    named = {name: options[name] for name in ("sharing", "device", "dtype")}
    return from_options(ModelConfig, further=list(load), name=options["model"], **named, **load)


# Parts of a cell and their values that options of `eval` set, by the names of their parameters.
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
    """The cell that measures a trained team as its run did, and what options of the command line change in that.

    Args:
        context: What was given.
        trained: The cell of the run.
        options: The cell that the options describe with their defaults.

    Returns:
        The cell, and its differences from the run, as "a.b: 1 -> 2". Another environment than that of the run keeps its
        own tasks, fields, turns and options.
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
    if given(context, "tasks", "split"):  # not those of another file for the evaluation
        environment = environment.model_copy(update={"eval_tasks": None})
    environment = environment.model_copy(update={"options": {**environment.options, **options.environment.options}})
    seed = options.seed if given(context, "seed") else trained.seed
    cell = dataclasses.replace(trained, **{**parts, "environment": environment}, seed=seed, training=options.training)
    return cell, differences(trained.without("training"), cell.without("training"))


def saved_team(context: typer.Context, place: Path, *further: str) -> tuple[Path, Cell]:
    """The folder of a saved team (a run's, a cell's, or its own), and the cell that trained it, on the device given.

    Options of the model, and `further` ones, are refused: the team has them already.
    """
    from ..results.export import cell_of
    from ..training.checkpoint import find_team  # loads torch

    refuse(given(context, *further, "model", "sharing", "load"), f"the team in {place} has its own")
    folder = find_team(place)
    cell = cell_of(folder)
    places = {name: context.params[name] for name in ("device", "dtype") if given(context, name)}
    return folder, dataclasses.replace(cell, model=cell.model.model_copy(update=places))


def cell_to_resume(
    context: typer.Context, folder: Path, free: Sequence[str] = (), changes: Sequence[str] = (), *, trust: bool
) -> Cell:
    """Return the only cell of a run, where its folder was given without an environment.

    Args:
        context: Parameters of the command.
        folder: Of the run.
        free: Parameters that may be given in addition.
        changes: Those of them that change the cell, for messages.
        trust: See `trust.allow`.
    """
    from ..benchmarks.suite import Cell

    allowed = given(context, "resume", "traces", "trust", "as_json", *free)
    if refused := [option for option in given(context) if option not in allowed]:
        may_change = f", of which {', '.join(map(flag, changes))} may change" if changes else ""
        stop(
            f"{', '.join(refused)}: --resume takes the options of the run{may_change}; leave it out, or give the "
            "environment and all options"
        )
    if not folder.is_dir():
        stop(f"the run {str(folder)!r} does not exist; see llm-dec-pomdp runs for those that do")
    cells = sorted(folder.glob("cells/*/cell.json"))
    if not cells:
        stop(f"{str(folder)!r} has no cell yet; give the environment and all options with --resume")
    if len(cells) != 1:
        stop(f"{str(folder)!r} holds {len(cells)} cells, not one; continue a benchmark with bench --resume {folder}")
    cell = Cell.read(cells[0])
    allow([cell], folder, trust=trust)
    return cell.loaded()


def check_same_cell(cell: Cell, folder: Path) -> None:
    """Refuse to resume a run with another cell, with a CheckpointError that names every difference."""
    from ..benchmarks.cell import check_conflicts

    for path in sorted(folder.glob("cells/*/cell.json")):
        check_conflicts(cell, path.parent)


def refuse(options: list[str], reason: str) -> None:
    """Refuse options that would have no effect."""
    if options:
        stop(f"{', '.join(options)} would have no effect: {reason}; leave it out")


def check_cell(cell: Cell, *, learn: bool = True, executor: str = "local") -> Cell:
    """Find mistakes in a cell before its folder is made.

    Returns:
        The cell, with what it leaves to its environment.

    Raises:
        ConfigError, KeyError, ValueError: The message says what.
    """
    from ..benchmarks.checks import check_cells

    (complete,) = check_cells([cell], learn=learn, executor=executor)
    if learn and not cell.method.learns:
        name = cell.method.name
        stop(f"{name!r} does not learn; train magrpo, grpo or a learner of your own, or measure it with eval")
    return complete


def _before_and_after(entry: CellRecord) -> str:
    """What a training changed, in a line; "" where nothing was trained."""
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
    """Run a cell into a folder, or into a new one with this name, and show its result.

    `arguments` are further ones of `run_cell`.
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
