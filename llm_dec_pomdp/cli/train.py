"""The command `train`: train a team, and measure it before and after."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options import EvaluationConfig, TrainerConfig
from .cells import (
    cell_options,
    cell_to_resume,
    check_cell,
    check_same_cell,
    make_cell,
    refuse,
    run_one,
    saved_team,
)
from .console import stop, usage
from .options import (
    Address,
    OtherVersions,
    Track,
    algorithms,
    check_executor,
    configured,
    environments,
    from_options,
    given,
    with_options,
)
from .trust import allow, typed

if TYPE_CHECKING:
    from ..benchmarks.suite import Cell
    from ..config import ConfigT


_LENGTH = ("steps", "prompts_per_step", "group_size", "save_every", "staleness")


@cell_options()
@with_options({**configured(TrainerConfig, *_LENGTH), **configured(EvaluationConfig, "every")})
def train(
    context: typer.Context,
    env_id: Annotated[
        str | None,
        typer.Argument(help="Environment id; with --resume the run's when left out.", autocompletion=environments),
    ] = None,
    algorithm: Annotated[
        str, typer.Option(help="A registered learner or module:Class.", autocompletion=algorithms)
    ] = "magrpo",
    team: Annotated[
        Path | None,
        typer.Option(
            help="A run, one of its cells, or a saved or exported team to begin with; or a .toml of who plays whom."
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Rows to train on: train, test or all. Left out: train; with --eval-tasks all.")
    ] = None,
    eval_tasks: Annotated[
        str | None, typer.Option(help="File for the evaluation, with all its rows; else those of --eval-split.")
    ] = None,
    eval_split: Annotated[str, typer.Option(help="Rows of --tasks to measure on: train, test or all.")] = "test",
    protocol: Annotated[
        str | None, typer.Option(help="parallel, sequential, discussion, ...; the learner's own when left out.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the algorithm, e.g. learning_rate=1e-4.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder, bit for bit.")] = None,
    other_versions: OtherVersions = False,
    executor: Annotated[
        str,
        typer.Option(
            help="Where the models live: local (this process), processes (one for each), ray (actors), "
            "torchrun (over all of its processes)."
        ),
    ] = "local",
    address: Address = None,
    track: Track = None,
    **options: Any,
) -> None:
    """Train a team and measure it before and after on the test rows.

    Rows of a file say by a field `split` which they are, train or test. Without it a fifth of them are test rows,
    always the same ones.

    With --resume RUN --steps N, a run that is done goes on to more steps, and one that was stopped may end with fewer;
    it is measured after N steps.

    Examples: [bold]llm-dec-pomdp train tldr-v0 --steps 40[/]
              [bold]llm-dec-pomdp train --resume runs/my-run[/]
              [bold]llm-dec-pomdp train --resume runs/my-run --steps 80[/]
              [bold]llm-dec-pomdp train tldr-v0 --model model.gguf --sharing lora --tasks my.jsonl --field prompt=x[/]
              [bold]llm-dec-pomdp train tldr-v0 --tasks my.jsonl --split all --eval-split test[/]
              [bold]llm-dec-pomdp train tldr-v0 --team runs/my-run[/]
    """
    from ..benchmarks.suite import read_team
    from ..training import TrainerConfig
    from ..training.tracking import check_trackers
    from ..training.workers import executors

    check_executor(executor, address)
    with usage():
        executors.find(executor)
        if executor == "torchrun":
            from ..training.workers.torchrun import take_part  # loads torch

            typed(*([env_id] if env_id else []), algorithm)
            take_part()
        trackers = check_trackers(track or [])
        if env_id is None:
            cell = _cell_to_resume(context, resume, trust=options["trust"])
        else:
            if eval_tasks is not None:
                refuse(given(context, "eval_split"), "all rows of --eval-tasks are measured")
            played = None
            if team is not None and team.suffix == ".toml":
                refuse(given(context, "model", "sharing", "load", "device", "dtype"), f"{team} says who plays")
                played = read_team(team)
            elif team is not None:
                start, trained = saved_team(context, team)
                played = trained.model.model_copy(update={"start": str(start)})
            typed(env_id, algorithm)
            cell = make_cell(
                env_id,
                algorithm,
                options,
                played=played,
                training=from_options(TrainerConfig, **{name: options[name] for name in _LENGTH}),
                settings=setting,
                environment={"split": split, "eval_tasks": eval_tasks, "protocol": protocol},
                split=eval_split,
                every=options["every"],
            )
            if team is not None:
                allow([cell], team, (env_id, algorithm), trust=options["trust"])
        cell = check_cell(cell, executor=executor)
        if resume is not None:
            check_same_cell(cell, resume)
        executors.find(executor).load()  # whose package may not be installed
    folder, name = resume or options["out_folder"], f"train-{cell.environment.id}"
    arguments: dict[str, Any] = {"resume": resume is not None, "other_versions": other_versions}
    arguments |= {"executor": executor, "address": address, "traces": options["traces"], "tracking": trackers}
    run_one(cell, folder, name, options["as_json"], **arguments)


def _cell_to_resume(context: typer.Context, folder: Path | None, *, trust: bool) -> Cell:
    """The only cell of a run, where only its folder was given, or also steps, --save-every or --eval-every."""
    if folder is None:
        stop("give an environment id to train on, see `llm-dec-pomdp list`, or a run to go on with: --resume RUN")
    changes = ("steps", "save_every", "every")
    free = (*changes, "other_versions", "executor", "address", "track")
    cell = cell_to_resume(context, folder, free, changes, trust=trust)
    if not cell.training.steps:
        stop(f"{str(folder)!r} holds an evaluation without training; continue it with eval --resume {folder}")
    changed = {name: context.params[name] for name in changes if given(context, name)}

    def renewed(part: ConfigT) -> ConfigT:
        values = part.model_dump()
        return from_options(type(part), **{**values, **{n: v for n, v in changed.items() if n in values}})

    return dataclasses.replace(cell, training=renewed(cell.training), evaluation=renewed(cell.evaluation))
