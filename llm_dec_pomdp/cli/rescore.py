"""The command `rescore`, which scores the actions of a run with another version of a reward."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from ..config import override
from .console import print_json, print_table, usage
from .options import EnvOption, Json
from .trust import Trust, allow, typed


def rescore(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    env_id: Annotated[str, typer.Argument(metavar="ENV", help="Environment with the same tasks and another reward.")],
    env_option: EnvOption = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Score the evaluated actions of a run with another version of the reward; nothing is sampled again.

    The result is also written to rescored-ENV.json in the folder of the run. Each return is in % of the maximum of its
    own reward.

    Example: [bold]llm-dec-pomdp rescore runs/my-run tldr-v1[/]
    """
    from ..results.rescore import cells_under, rescore

    with usage():
        options = override({}, env_option or [])
        typed(env_id)
        allow(cells_under(run, env_id, options), run, (env_id,), trust=trust)
        scored = rescore(run, env_id, options)
    if as_json:
        print_json([dataclasses.asdict(cell) for cell in scored])
        return
    rows: list[list[str]] = []
    for cell in scored:
        returns = (f"{interval.mean:.1f} %" for interval in (cell.before.return_percent, cell.after.return_percent))
        parts = (f"{part.mean:.3g}" for part in cell.after.components.values())
        rows.append([cell.cell, *returns, *parts])
    print_table(["run", "before", env_id, *scored[0].after.components], rows)
