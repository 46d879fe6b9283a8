"""The command `eval`, which evaluates a team without training it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..options import TrainerConfig
from .cells import (
    cell_options,
    cell_to_resume,
    check_cell,
    check_same_cell,
    make_cell,
    measured_as,
    refuse,
    run_one,
    saved_team,
)
from .console import err, stop, usage
from .options import algorithms, environments, given
from .trust import allow, typed


@cell_options(sharing="shared")
def eval_(
    context: typer.Context,
    env_id: Annotated[
        str | None,
        typer.Argument(
            help="Environment id, or module:Class. Default with --team RUN: the environment of the run.",
            autocompletion=environments,
        ),
    ] = None,
    algorithm: Annotated[
        str,
        typer.Option(
            help="Baseline or learner whose protocol the team uses: concat (in parallel), sequential, ...",
            autocompletion=algorithms,
        ),
    ] = "concat",
    team: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a run, or of a saved or exported team. Its model, algorithm, tasks and sampling are the "
            "defaults of the other options. Or a .toml file with a model for each role."
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Tasks of this split: train, test or all.")] = "test",
    resume: Annotated[
        Path | None, typer.Option(help="Resume the evaluation in this folder; finished episodes are kept.")
    ] = None,
    **options: Any,
) -> None:
    """Evaluate a team without training it.

    Examples: [bold]llm-dec-pomdp eval humaneval-v0 --model model.gguf --split all[/]
              [bold]llm-dec-pomdp eval --team runs/my-run[/]
              [bold]llm-dec-pomdp eval --resume runs/my-eval[/]
    """
    from ..benchmarks.suite import read_team

    folder, traces, as_json = resume or options["out_folder"], options["traces"], options["as_json"]
    with usage():
        if resume is not None and env_id is None and team is None:
            cell = cell_to_resume(context, resume, trust=options["trust"])
            if cell.training.steps or (resume / "suite.json").exists():
                stop(f"{str(resume)!r} is not a folder of eval; resume it with train --resume or bench --resume")
            cell = check_cell(cell, learn=False)
            run_one(cell, folder, "", as_json, learn=False, resume=True, traces=traces)
            return
        played = saved = trained = None
        if team is not None and team.suffix == ".toml":
            refuse(given(context, "model", "sharing", "load", "device", "dtype"), f"{team} has the models")
            played = read_team(team)
        elif team is not None:
            saved, trained = saved_team(context, team, "algorithm")
        by_hand = [name for name in (env_id, algorithm) if name]
        env_id = env_id or (trained and trained.environment.id)
        if env_id is None:
            stop("there is no environment; give its id (`llm-dec-pomdp list` shows all), or a trained team: --team RUN")
        typed(*by_hand)
        training = TrainerConfig(steps=0)
        cell = make_cell(env_id, algorithm, options, played=played, training=training, split=split)
        if played is None:
            by_hand += cell.models
        if trained is not None:
            cell, changes = measured_as(context, trained, cell)
            if changes:
                err.print(f"changed from {team} (there -> here): {'; '.join(changes)}", soft_wrap=True)
        if team is not None:
            allow([cell], team, by_hand, trust=options["trust"])
        if trained is not None:
            cell = cell.loaded()
        cell = check_cell(cell, learn=False)
        if resume is not None:
            check_same_cell(cell, resume)
    run_one(
        cell,
        folder,
        f"eval-{cell.environment.id}",
        as_json,
        weights=saved,
        learn=False,
        resume=resume is not None,
        traces=traces,
    )
