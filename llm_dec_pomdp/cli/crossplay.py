"""The command `crossplay`, which evaluates every pair of trained teams."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..printable import plain
from .console import err, failure, print_json, print_table, show_report, usage
from .options import environments, with_options
from .partners import OPTIONS, base_cell, evaluate_all, find_teams


@with_options(OPTIONS)
def crossplay(
    context: typer.Context,
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="At least two trained teams: folders of runs, of their cells, or of saved teams. A run with several "
            "trained teams, such as a benchmark over seeds, gives all of them.",
        ),
    ],
    env_id: Annotated[
        str | None,
        typer.Option(
            "--env",
            help="Another environment with the same roles. Default: the environment of the runs.",
            autocompletion=environments,
        ),
    ] = None,
    **options: Any,
) -> None:
    """Evaluate every pair of teams: the member of one role from one team, the remaining members from another.

    A large loss with members of other teams shows that each team follows its own conventions. In games of two players
    with opposite rewards, the report has Elo ratings.

    Examples: [bold]llm-dec-pomdp crossplay runs/seed0 runs/seed1 runs/seed2[/]
              [bold]llm-dec-pomdp crossplay runs/my-bench --out runs/crossed[/]
    """
    from ..benchmarks.checks import check_cells
    from ..benchmarks.partners import check_partners, check_roles, crossplay_cells
    from ..benchmarks.runner import run_folder, write_results
    from ..benchmarks.setup import build_env
    from ..evaluation.crossplay import CrossPlay, roles_of
    from ..evaluation.elo import differences
    from ..progress import shown
    from ..report.partners import crossplay_blocks, crossplay_figures, crossplay_sentences, write_partners_report
    from ..results.runs import read_entry
    from ..storage.files import replace_json
    from ..storage.runfolder import new_run_folder

    as_json = options["as_json"]
    with usage():
        teams = find_teams(runs, [env_id] if env_id else [], trust=options["trust"])
        check_partners(teams)
        base = base_cell(context, teams[0], options, env_id)
        env = build_env(base, base.protocol, evaluation=True)
        check_roles(teams[0], env)
        cells = crossplay_cells(teams, base, env)
        cells = dict(zip(cells, check_cells(list(cells.values()), learn=False), strict=True))
    folder = options["out_folder"] or new_run_folder(f"crossplay-{base.environment.id}")
    command = " ".join(["crossplay", *map(str, runs)])
    with (
        failure(folder, command=command, option="--out"),
        shown(err, quiet=as_json) as progress,
        run_folder(folder, resume=True),
    ):
        results = evaluate_all(cells, folder, progress, traces=options["traces"])
        summaries = {sources: result.summary for sources, result in results.items()}
        entries = [read_entry(folder / "cells" / cell.label, folder.name) for cell in cells.values()]
        games = {sources: differences(env, entry.episodes()) for sources, entry in zip(cells, entries, strict=True)}
        found = CrossPlay.of([team.name for team in teams], list(roles_of(env)), summaries, games)
        write_results(folder, list(results.values()))
        replace_json(folder / "crossplay.json", found.to_dict())
        sentences, blocks = crossplay_sentences(found), crossplay_blocks(found)
        title = f"Cross-play on {base.environment.title}"
        write_partners_report(folder, title, sentences, blocks, crossplay_figures(found), entries)
    if as_json:
        print_json({"folder": str(folder), **found.to_dict()})
        return
    table = blocks[1].table
    print_table(table.columns, table.to_numpy().tolist(), title=blocks[1].note)
    show_report(map(plain, sentences), folder)
