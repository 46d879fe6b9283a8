"""The command `eval`: measure a team as it is."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from .cells import cell_options, check_cell, make_cell, refuse, run_one, saved_team
from .console import usage
from .options import EnvId, given
from .trust import allow, typed


@cell_options(sharing="shared", max_new_tokens=256)
def eval_(
    context: typer.Context,
    env_id: EnvId,
    algorithm: Annotated[
        str, typer.Option("--method", help="Algorithm whose protocol the team acts under.")
    ] = "concat",
    team: Annotated[
        Path | None,
        typer.Option(
            help="A run, one of its cells, or the team in it, which names model and method; or a .toml of members."
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="train, test or all.")] = "test",
    **options: Any,
) -> None:
    """Measure a team as it is.

    Examples: [bold]llm-dec-pomdp eval humaneval-v0 --model model.gguf --split all[/]
              [bold]llm-dec-pomdp eval tldr-v0 --team runs/my-run[/]
    """
    from ..benchmarks.suite import read_team
    from ..training import TrainerConfig

    with usage():
        played = None
        if team is not None and team.suffix == ".toml":
            refuse(given(context, "model", "sharing", "load", "device", "dtype"), f"{team} says who plays")
            played = read_team(team)
        training = TrainerConfig(steps=0)
        cell = make_cell(env_id, algorithm, options, played=played, training=training, split=split)
        typed(env_id, algorithm)
        by_hand, saved = cell.outside if played is None else [env_id, algorithm], None
        if team is not None and played is None:
            saved, told = saved_team(context, team, "algorithm")
            environment = cell.environment.model_copy(update={"protocol": told.environment.protocol})
            cell = dataclasses.replace(cell, environment=environment, method=told.method, model=told.model)
        if team is not None:
            allow([cell], team, by_hand, trust=options["trust"])
        check_cell(cell, learn=False)
    how: dict[str, Any] = {"weights": saved, "learn": False, "traces": options["traces"]}
    run_one(cell, options["out_folder"], f"eval-{env_id}", options["as_json"], **how)
