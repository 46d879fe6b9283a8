"""Commands that run one cell: `eval` measures a team as it is, `train` trains one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..algorithms.registration import find_algorithm
from .console import err, failure, out, print_json, say_where, stop, usage
from .options import (
    Device,
    Dtype,
    EnvId,
    EnvOption,
    Fields,
    Items,
    Json,
    Model,
    NewTokens,
    OtherVersions,
    Resume,
    Samples,
    Seed,
    Set,
    ShareOption,
    Tasks,
    Temperature,
    TopP,
    Turns,
    from_options,
    given,
    read_fields,
    read_options,
)

if TYPE_CHECKING:
    from ..benchmarks.cell import Result
    from ..benchmarks.suite import Cell


def eval_(
    context: typer.Context,
    env_id: EnvId,
    algorithm: Annotated[
        str, typer.Option("--method", help="Algorithm whose protocol the team acts under.")
    ] = "concat",
    model: Model = "builtin:tiny",
    team: Annotated[
        Path | None,
        typer.Option(
            help="A run, one of its cells, or the team in it, which names model and method; or a .toml of members."
        ),
    ] = None,
    sharing: ShareOption = "shared",
    tasks: Tasks = "sample",
    field: Fields = None,
    split: Annotated[str, typer.Option(help="train, test or all.")] = "test",
    turns: Turns = None,
    env_option: EnvOption = None,
    items: Items = None,
    samples: Samples = 1,
    temperature: Temperature = 1.0,
    top_p: TopP = 1.0,
    max_new_tokens: NewTokens = 256,
    device: Device = "auto",
    dtype: Dtype = "auto",
    seed: Seed = 0,
    out_folder: Annotated[Path | None, typer.Option("--out", help="Folder of the run.")] = None,
    as_json: Json = False,
) -> None:
    """Measure a team as it is.

    Examples: [bold]llm-dec-pomdp eval humaneval-v0 --model model.gguf --split all[/]
              [bold]llm-dec-pomdp eval tldr-v0 --team runs/my-run[/]
    """
    from ..benchmarks.suite import (
        Cell,
        EnvironmentConfig,
        EvaluationConfig,
        MethodConfig,
        ModelConfig,
        SamplingConfig,
        read_team,
    )
    from ..checkpoint import read_description
    from ..training import TrainerConfig

    with usage():
        cell = Cell(
            from_options(
                EnvironmentConfig,
                id=env_id,
                tasks=tasks,
                fields=read_fields(field),
                max_turns=turns,
                options=read_options(env_option),
            ),
            MethodConfig(name=algorithm),
            from_options(ModelConfig, name=model, sharing=sharing, device=device, dtype=dtype),
            seed,
            from_options(SamplingConfig, temperature=temperature, top_p=top_p, max_new_tokens=max_new_tokens),
            TrainerConfig(steps=0),
            from_options(EvaluationConfig, split=split, items=items, samples=samples),
        )
        if team is not None and team.suffix == ".toml":
            _refuse(given(context, "model", "sharing", "device", "dtype"), f"{team} says who plays")
            cell, team = dataclasses.replace(cell, model=read_team(team)), None
        if team is not None:
            from ..benchmarks.export import find_team

            _refuse(given(context, "algorithm", "model", "sharing"), f"the team in {team} has its own")
            team = find_team(team)
            saved = Cell.from_dict(read_description(team))
            places = {name: getattr(cell.model, name) for name in ("device", "dtype") if given(context, name)}
            cell = dataclasses.replace(cell, method=saved.method, model=saved.model.model_copy(update=places))
        _check(cell, learn=False)
    _run_cells([cell], out_folder, f"eval-{env_id}", as_json, weights=team, learn=False)


def train(
    context: typer.Context,
    env_id: Annotated[str | None, typer.Argument(help="Environment id; with --resume the run's when left out.")] = None,
    algorithm: Annotated[str, typer.Option(help="A registered learner or module:Class.")] = "magrpo",
    model: Model = "builtin:tiny",
    team: Annotated[
        Path | None, typer.Option(help="A .toml file that says who plays whom, instead of --model and --sharing.")
    ] = None,
    sharing: ShareOption = "separate",
    tasks: Tasks = "sample",
    eval_tasks: Annotated[
        str | None, typer.Option(help="File for the evaluation; else the test split of --tasks.")
    ] = None,
    field: Fields = None,
    turns: Turns = None,
    env_option: EnvOption = None,
    steps: Annotated[int, typer.Option(help="Updates.")] = 40,
    prompts: Annotated[int, typer.Option(help="Tasks per update.")] = 8,
    group_size: Annotated[int, typer.Option(help="Episodes per task (G).")] = 4,
    items: Items = None,
    samples: Samples = 1,
    eval_every: Annotated[int, typer.Option(help="Evaluate every so many updates; 0: before and after only.")] = 0,
    temperature: Temperature = 1.0,
    top_p: TopP = 1.0,
    max_new_tokens: NewTokens = 128,
    lora_rank: Annotated[int, typer.Option(help="Rank of the adapters with --sharing lora.")] = 8,
    device: Device = "auto",
    dtype: Dtype = "auto",
    gradient_checkpointing: Annotated[
        bool, typer.Option("--gradient-checkpointing", help="Less memory in updates, more time.")
    ] = False,
    save_every: Annotated[
        int, typer.Option(help="Checkpoint after every so many updates; 0: after the last, and on a signal.")
    ] = 10,
    seed: Seed = 0,
    setting: Set = None,
    out_folder: Annotated[Path | None, typer.Option("--out", help="Folder of the run.")] = None,
    resume: Resume = None,
    other_versions: OtherVersions = False,
    as_json: Json = False,
) -> None:
    """Train a team and measure it before and after on the test rows.

    A run that is done goes on to more steps with --resume RUN --steps N, and is measured again.

    Examples: [bold]llm-dec-pomdp train tldr-v0 --steps 40[/]
              [bold]llm-dec-pomdp train --resume runs/my-run[/]
              [bold]llm-dec-pomdp train --resume runs/my-run --steps 80[/]
              [bold]llm-dec-pomdp train tldr-v0 --model model.gguf --sharing lora --tasks my.jsonl --field prompt=x[/]
              [bold]llm-dec-pomdp train tldr-v0 --team team.toml[/]
    """
    from ..benchmarks.suite import (
        Cell,
        EnvironmentConfig,
        EvaluationConfig,
        MethodConfig,
        ModelConfig,
        SamplingConfig,
        read_team,
    )
    from ..training import TrainerConfig

    if env_id is None:
        with usage():
            cell = _cell_to_resume(context, resume)
            _check(cell)
        _run_cells([cell], resume, resume.name if resume else "", as_json, resume=True, other_versions=other_versions)
        return
    with usage():
        if team is not None:
            named = ("model", "sharing", "lora_rank", "device", "dtype", "gradient_checkpointing")
            _refuse(given(context, *named), f"{team} says who plays")
        elif sharing != "lora":
            _refuse(given(context, "lora_rank"), f"it is for --sharing lora, and this is --sharing {sharing}")
        played = read_team(team) if team is not None else None
        cell = Cell(
            from_options(
                EnvironmentConfig,
                id=env_id,
                tasks=tasks,
                eval_tasks=eval_tasks,
                fields=read_fields(field),
                max_turns=turns,
                options=read_options(env_option),
            ),
            MethodConfig(name=algorithm, options=read_options(setting)),
            played
            or from_options(
                ModelConfig,
                name=model,
                sharing=sharing,
                device=device,
                dtype=dtype,
                lora_rank=lora_rank,
                gradient_checkpointing=gradient_checkpointing,
            ),
            seed,
            from_options(SamplingConfig, temperature=temperature, top_p=top_p, max_new_tokens=max_new_tokens),
            from_options(
                TrainerConfig, steps=steps, prompts_per_step=prompts, group_size=group_size, save_every=save_every
            ),
            from_options(EvaluationConfig, items=items, samples=samples, every=eval_every),
        )
        if resume is not None:
            _refuse_another(cell, resume)
        _check(cell)
    folder, again = resume or out_folder, resume is not None
    _run_cells([cell], folder, f"train-{env_id}", as_json, resume=again, other_versions=other_versions)


def _refuse(options: list[str], reason: str) -> None:
    """Options that would have no effect are no options."""
    if options:
        stop(f"{', '.join(options)} would have no effect: {reason}; leave it out")


def _check(cell: Cell, *, learn: bool = True) -> None:
    """Find what is wrong with a cell before its folder is made.

    Raises:
        ConfigError, KeyError, ValueError: The message says what.
    """
    from ..benchmarks.checks import check_cells

    check_cells([cell], learn=learn)
    name = cell.method.name
    if learn and not callable(getattr(find_algorithm(name).load(), "update", None)):
        stop(f"{name!r} does not learn; train magrpo, grpo or a learner of your own, or measure it with eval")


def _refuse_another(cell: Cell, folder: Path) -> None:
    """A run that is gone on with trains what it trained.

    Raises:
        CheckpointError: The message names every value that differs.
    """
    from ..benchmarks.cell import refuse_conflicts
    from ..benchmarks.suite import Cell

    for path in sorted(folder.glob("cells/*/cell.json")):
        refuse_conflicts(Cell.from_dict(json.loads(path.read_text(encoding="utf-8"))), cell, folder)


def _cell_to_resume(context: typer.Context, folder: Path | None) -> Cell:
    """The only cell of a run, when nothing but its folder was given, or with more steps or another cadence."""
    from ..benchmarks.suite import Cell, EvaluationConfig
    from ..training import TrainerConfig

    if folder is None:
        stop("give an environment id to train on, see `llm-dec-pomdp list`, or a run to go on with: --resume RUN")
    changes = {"steps", "save_every", "eval_every"}
    free = given(context, "resume", "other_versions", "as_json", *changes)
    if own := [option for option in given(context) if option not in free]:
        stop(
            f"{', '.join(own)}: --resume takes the options of the run, of which --steps, --save-every and --eval-every "
            "may change; leave it out, or give the environment and all options"
        )
    cells = sorted(folder.glob("cells/*/cell.json"))
    if not cells:
        stop(f"{str(folder)!r} says not yet what it was to train; give the environment and all options with --resume")
    if len(cells) != 1:
        stop(f"{str(folder)!r} holds {len(cells)} trainings, not one; a benchmark goes on with bench --resume {folder}")
    cell = Cell.from_dict(json.loads(cells[0].read_text(encoding="utf-8")))
    if not cell.training.steps:
        stop(f"{str(folder)!r} holds an evaluation, in which nothing is trained; measure again with eval")
    changed = {name: context.params[name] for name in changes if given(context, name)}
    every = {"every": changed.pop("eval_every")} if "eval_every" in changed else {}
    cell = dataclasses.replace(
        cell,
        training=from_options(TrainerConfig, **{**cell.training.model_dump(), **changed}),
        evaluation=from_options(EvaluationConfig, **{**cell.evaluation.model_dump(), **every}),
    )
    _refuse_another(cell, folder)
    return cell


def _run_cells(
    cells: list[Cell],
    folder: Path | None,
    name: str,
    as_json: bool,
    weights: Path | None = None,
    *,
    learn: bool = True,
    resume: bool = False,
    other_versions: bool = False,
) -> None:
    """Run cells into one folder and show what came out."""
    from ..benchmarks.cell import run_cell
    from ..benchmarks.progress import shown
    from ..benchmarks.report import write_report
    from ..benchmarks.runner import new_run_folder, run_folder, write_results

    folder = folder or new_run_folder(name)
    with failure(folder, goes_on=learn), shown(err, quiet=as_json) as progress, run_folder(folder, resume=resume):
        results = [
            run_cell(cell, folder / "cells" / cell.label, progress, weights, learn=learn, other_versions=other_versions)
            for cell in cells
        ]
        write_results(folder, results)
        write_report(folder)
    _show(results, folder, as_json)


def _show(results: list[Result], folder: Path, as_json: bool) -> None:
    from ..benchmarks.report import tables

    if as_json:
        print_json({"folder": str(folder), "results": [result.to_dict() for result in results]})
        return
    for table in tables(results):
        out.print(table)
    say_where(folder)
