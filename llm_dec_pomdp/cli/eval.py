"""The command `eval`: measure a team as it is."""

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
        typer.Argument(help="Environment id; with --team RUN the run's when left out.", autocompletion=environments),
    ] = None,
    algorithm: Annotated[
        str, typer.Option(help="Whose protocol the team acts under.", autocompletion=algorithms)
    ] = "concat",
    team: Annotated[
        Path | None,
        typer.Option(
            help="A run, one of its cells, or a saved or exported team: its model, algorithm, tasks and sampling, "
            "where no option says otherwise; or a .toml of members."
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="train, test or all.")] = "test",
    resume: Annotated[
        Path | None, typer.Option(help="Continue the evaluation in this folder; finished episodes stay.")
    ] = None,
    **options: Any,
) -> None:
    """Measure a team as it is.

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
                stop(
                    f"{str(resume)!r} holds more than an evaluation; continue it with train --resume or bench --resume"
                )
            cell = check_cell(cell, learn=False)
            run_one(cell, folder, "", as_json, learn=False, resume=True, traces=traces)
            return
        played = saved = trained = None
        if team is not None and team.suffix == ".toml":
            refuse(given(context, "model", "sharing", "load", "device", "dtype"), f"{team} says who plays")
            played = read_team(team)
        elif team is not None:
            saved, trained = saved_team(context, team, "algorithm")
        by_hand = [name for name in (env_id, algorithm) if name]
        env_id = env_id or (trained and trained.environment.id)
        if env_id is None:
            stop("give an environment id, see `llm-dec-pomdp list`, or a trained team: --team RUN")
        typed(*by_hand)
        training = TrainerConfig(steps=0)
        cell = make_cell(env_id, algorithm, options, played=played, training=training, split=split)
        if played is None:
            by_hand += cell.models
        if trained is not None:
            cell, changes = measured_as(context, trained, cell)
            if changes:
                err.print(f"not as in {team} (there -> here): {'; '.join(changes)}", soft_wrap=True)
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
