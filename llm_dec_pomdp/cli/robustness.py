"""The command `robustness`, which changes single members of a trained team, and its size."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import ConfigError
from .console import err, failure, print_json, print_table, show_report, stop, usage
from .options import with_options
from .partners import OPTIONS, base_cell, evaluate_all, find_teams

if TYPE_CHECKING:
    from ..benchmarks.suite import Cell
    from ..envs.base import TextDecPOMDP
    from ..results.runs import CellRecord


@with_options(OPTIONS)
def robustness(
    context: typer.Context,
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A trained team: folder of a run, of its cell, or of a saved team.")
    ],
    sizes: Annotated[
        str,
        typer.Option(
            metavar="M,...",
            help="Also evaluate teams of these sizes, e.g. 2,3,5,8, where roles are exchangeable. Default: none.",
        ),
    ] = "",
    **options: Any,
) -> None:
    """Measure how many points a trained team loses if one member is untrained, silent, noisy, late or hostile.

    The table has a row for each change and a column for each role. It shows which members are critical, and which ones
    the team does not need.

    Examples: [bold]llm-dec-pomdp robustness runs/my-run[/]
              [bold]llm-dec-pomdp robustness runs/my-run --sizes 2,3,5[/]
    """
    from ..benchmarks.checks import check_cells
    from ..benchmarks.partners import changes_of, earlier_checkpoint, intact_cell, scripts_of, size_cells
    from ..benchmarks.runner import run_folder, write_results
    from ..benchmarks.setup import build_env
    from ..episodes.files import evaluation_file
    from ..evaluation.crossplay import roles_of
    from ..evaluation.robustness import Loss, Robustness, SizedReturn, loss_between
    from ..printable import plain
    from ..progress import shown
    from ..report.partners import (
        robustness_blocks,
        robustness_figures,
        robustness_sentences,
        write_partners_report,
    )
    from ..results.runs import read_entry
    from ..storage.files import replace_json
    from ..storage.runfolder import new_run_folder

    as_json, traces = options["as_json"], options["traces"]
    with usage():
        numbers = _sizes(sizes)
        teams = find_teams([run], trust=options["trust"])
        if len(teams) > 1:
            stop(f"{str(run)!r} holds {len(teams)} trained teams; give the folder of one, such as {teams[0].folder}")
        (team,) = teams
        base = base_cell(context, team, options)
        env = build_env(base, base.protocol, evaluation=True)
        roles = roles_of(env)
        (intact,) = check_cells([intact_cell(team, base)], learn=False)
        sized = size_cells(team, base, numbers) if numbers else {}
        by_size = {size: tuple(check_cells(list(pair), learn=False)) for size, pair in sized.items()}
    folder = options["out_folder"] or new_run_folder(f"robustness-{base.environment.id}")

    def entry_of(cell: Cell) -> CellRecord:
        return read_entry(folder / "cells" / cell.label, folder.name)

    with (
        failure(folder, command=f"robustness {run}", option="--out"),
        shown(err, quiet=as_json) as progress,
        run_folder(folder, resume=True),
    ):
        results = evaluate_all({"": intact}, folder, progress, traces=traces)
        whole = entry_of(intact)
        absent = {} if earlier_checkpoint(team) else {"earlier checkpoint": "the run kept none before its last update"}
        if left_out := [name for name in env.task.facts.scripts if name not in scripts_of(base, env)]:
            passed_on = f"scripts do not know the messages of the protocol {base.protocol!r}"
            absent[f"script {', '.join(left_out)}"] = (
                "not all tasks have references" if base.protocol == "parallel" else passed_on
            )
        adversaries = _adversaries(folder / "adversaries.json", intact, env, roles, absent)
        tokens = {role: _tokens(whole, agents) for role, agents in roles.items()}
        if late := [role for role, mean in tokens.items() if mean < 2]:
            absent["late member"] = f"an action of {', '.join(late)} has fewer than 2 tokens"
        place = evaluation_file((folder / "cells" / intact.label).absolute(), 0)
        changes = changes_of(team, base, env, place, tokens, adversaries)
        cells = dict(enumerate(check_cells([change.cell for change in changes], learn=False)))
        changed = evaluate_all(cells, folder, progress, traces=traces)
        scale, before = results[""].scale, whole.episodes()
        losses = [
            Loss(
                change.name,
                change.role,
                changed[number].summary.return_percent,
                loss_between(before, entry_of(cells[number]).episodes(), scale),
            )
            for number, change in enumerate(changes)
        ]
        of_sizes = evaluate_all(
            {(size, number): cell for size, pair in by_size.items() for number, cell in enumerate(pair)},
            folder,
            progress,
            traces=traces,
        )
        returns = {key: result.summary.return_percent for key, result in of_sizes.items()}
        found = Robustness(
            results[""].summary.return_percent,
            losses,
            absent,
            env.task.facts.size if numbers else "",
            _trained_size(base, env) if numbers else None,
            [SizedReturn(size, returns[size, 0], returns[size, 1]) for size in numbers],
        )
        write_results(folder, [*results.values(), *changed.values(), *of_sizes.values()])
        replace_json(folder / "robustness.json", found.to_dict())
        every = [intact, *cells.values(), *(cell for pair in by_size.values() for cell in pair)]
        sentences, blocks = robustness_sentences(found), robustness_blocks(found)
        title = f"Robustness of {team.cell.method.title}, seed {team.cell.seed}, on {base.environment.title}"
        write_partners_report(
            folder, title, sentences, blocks, robustness_figures(found), [entry_of(cell) for cell in every]
        )
    if as_json:
        print_json({"folder": str(folder), **found.to_dict()})
        return
    for block in blocks:
        print_table(block.table.columns, block.table.to_numpy().tolist(), title=block.title)
    show_report(map(plain, sentences), folder)


def _sizes(text: str) -> list[int]:
    """Return the sizes in a text such as "2,3,5"."""
    try:
        sizes = [int(part) for part in text.split(",")] if text else []
    except ValueError:
        stop(f"--sizes is {text!r}; give numbers with commas, e.g. --sizes 2,3,5")
    return sizes


def _tokens(entry: CellRecord, agents: list[str]) -> float:
    """Return the mean number of tokens of an action of some agents; 0 if they never acted."""
    completions = [
        completion
        for episode in entry.episodes()
        for turn in episode.turns
        for agent, completion in turn.actions.items()
        if agent in agents
    ]
    return fmean(completion.sampled_tokens for completion in completions) if completions else 0.0


def _adversaries(
    path: Path, intact: Cell, env: TextDecPOMDP, roles: Mapping[str, list[str]], absent: dict[str, str]
) -> dict[str, str]:
    """Return the adversary model of each role, from the file or a search; add reasons for missing ones to `absent`."""
    from ..benchmarks.partners import find_adversary
    from ..benchmarks.setup import build_team
    from ..seeding import derive
    from ..storage.files import replace_json
    from ..storage.reading import find_json

    found = find_json(path, dict[str, str]) or {}
    team = None
    for role, agents in roles.items():
        if role in found:
            continue
        try:
            team = team or build_team(intact, env)
            found[role] = find_adversary(team, env, agents, derive(intact.seed, "adversary", role))
        except ConfigError as error:
            absent["adversary"] = str(error)
    replace_json(path, found)
    return found


def _trained_size(base: Cell, env: TextDecPOMDP) -> int:
    """Return the size of the environment in the training of the team."""
    option = env.task.facts.size
    default = inspect.signature(type(env.task)).parameters[option].default
    return base.environment.options.get(option, default)
