"""Commands that run one cell: `eval` measures a team as it is, `train` trains one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..algorithms.registration import find_algorithm
from .console import err, failure, out, print_json, stop, usage
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
    read_fields,
    read_options,
)

if TYPE_CHECKING:
    from ..benchmarks.cell import Result
    from ..benchmarks.suite import Cell


def eval_(
    env_id: EnvId,
    algorithm: Annotated[
        str, typer.Option("--method", help="Algorithm whose protocol the team acts under.")
    ] = "concat",
    model: Model = "builtin:tiny",
    team: Annotated[
        Path | None,
        typer.Option(help="Folder of a trained team (RUN/team), which names model and method, or a .toml of members."),
    ] = None,
    sharing: ShareOption = "shared",
    tasks: Tasks = "sample",
    field: Fields = None,
    split: Annotated[str, typer.Option(help="train, test or all.")] = "test",
    turns: Turns = 1,
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
              [bold]llm-dec-pomdp eval tldr-v0 --team runs/my-run/team[/]
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
    from ..config import build
    from ..training import TrainerConfig

    with usage():
        environment = EnvironmentConfig(
            id=env_id, tasks=tasks, fields=read_fields(field), max_turns=turns, options=read_options(env_option)
        )
        cell = Cell(
            environment,
            MethodConfig(name=algorithm),
            build(ModelConfig, {"name": model, "sharing": sharing, "device": device, "dtype": dtype}, source="options"),
            seed,
            SamplingConfig(temperature=temperature, top_p=top_p, max_new_tokens=max_new_tokens),
            TrainerConfig(),
            EvaluationConfig(split=split, items=items, samples=samples),
        )
        if team is not None and team.suffix == ".toml":
            cell, team = dataclasses.replace(cell, model=read_team(team)), None
        if team is not None:
            saved = Cell.from_dict(read_description(team))
            cell = dataclasses.replace(cell, method=saved.method, model=saved.model)
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
    turns: Turns = 1,
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

    Examples: [bold]llm-dec-pomdp train tldr-v0 --steps 40[/]
              [bold]llm-dec-pomdp train --resume runs/my-run[/]
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
    from ..config import build
    from ..training import TrainerConfig

    if env_id is None:
        with usage():
            cell = _cell_to_resume(context, resume)
        _run_cells([cell], resume, resume.name if resume else "", as_json, resume=True, other_versions=other_versions)
        return
    with usage():
        if not callable(getattr(find_algorithm(algorithm).load(), "update", None)):
            stop(f"{algorithm!r} does not learn; train magrpo, grpo or a learner of your own, or measure it with eval")
        cell = Cell(
            EnvironmentConfig(
                id=env_id,
                tasks=tasks,
                eval_tasks=eval_tasks,
                fields=read_fields(field),
                max_turns=turns,
                options=read_options(env_option),
            ),
            MethodConfig(name=algorithm, options=read_options(setting)),
            read_team(team)
            if team is not None
            else build(
                ModelConfig,
                {
                    "name": model,
                    "sharing": sharing,
                    "device": device,
                    "dtype": dtype,
                    "lora_rank": lora_rank,
                    "gradient_checkpointing": gradient_checkpointing,
                },
                source="options",
            ),
            seed,
            SamplingConfig(temperature=temperature, top_p=top_p, max_new_tokens=max_new_tokens),
            TrainerConfig(steps=steps, prompts_per_step=prompts, group_size=group_size, save_every=save_every),
            EvaluationConfig(items=items, samples=samples, every=eval_every),
        )
    folder, again = resume or out_folder, resume is not None
    _run_cells([cell], folder, f"train-{env_id}", as_json, resume=again, other_versions=other_versions)


def _cell_to_resume(context: typer.Context, folder: Path | None) -> Cell:
    """The only cell of a run, when nothing but its folder was given."""
    from ..benchmarks.suite import Cell

    if folder is None:
        stop("give an environment id to train on, see `llm-dec-pomdp list`, or a run to go on with: --resume RUN")
    free = {"resume", "other_versions", "as_json"}
    given = [name for name in context.params if name not in free and _was_given(context, name)]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        stop(f"{options}: --resume takes the options of the run; give none of your own, or the environment and all")
    cells = sorted(folder.glob("cells/*/cell.json"))
    if not cells:
        stop(f"{str(folder)!r} says not yet what it was to train; give the environment and all options with --resume")
    if len(cells) != 1:
        stop(f"{str(folder)!r} holds {len(cells)} trainings, not one; a benchmark goes on with bench --resume {folder}")
    return Cell.from_dict(json.loads(cells[0].read_text(encoding="utf-8")))


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


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
    from ..benchmarks.progress import bars
    from ..benchmarks.report import write_report
    from ..benchmarks.runner import new_run_folder, run_folder, write_results

    folder = folder or new_run_folder(name)
    with failure(folder), bars(err, quiet=as_json) as progress, run_folder(folder, resume=resume):
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
    out.print(f"Report, pictures and every episode: {folder}/report.html", highlight=False)
