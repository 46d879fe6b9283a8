"""The commands `board run | verify | table`, for the leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import build
from ..options import Sampling
from ..printable import plain
from .console import err, out, print_table, stop, usage
from .options import Command, Group, algorithms, configured, environments, from_options, with_options
from .trust import Trust, allow, typed

if TYPE_CHECKING:
    from ..board import BoardSuite, BoardTask, Entrant

app = typer.Typer(
    cls=Group,
    help="Play the suite of the leaderboard, verify submissions by replay, and print their table.",
    no_args_is_help=True,
)
Folders = Annotated[list[Path], typer.Argument(metavar="SUBMISSION...", help="Folders of submissions.")]


@app.command(cls=Command)
@with_options(configured(Sampling, "temperature", "top_p"))
def run(
    place: Annotated[Path, typer.Option("--out", help="New folder of the submission.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Model of all tasks: a server as http://HOST:PORT/v1#NAME, a folder, a .gguf file, a name on the hub, "
            "builtin:table, or a script. Or TASK=MODEL for one task. May be repeated; the last one counts."
        ),
    ] = None,
    team: Annotated[
        list[Path] | None,
        typer.Option(help="Run with a team that was trained on a task of the suite, in any version. May be repeated."),
    ] = None,
    partner: Annotated[
        list[Path] | None,
        typer.Option(
            help="Run with another team of the same method, for example of another seed: in further episodes its "
            "members play in turn with the team of --team. May be repeated, for other tasks."
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="Baseline with --model: concat, sequential, discussion or single.", autocompletion=algorithms
        ),
    ] = "concat",
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="Play only this task. May be repeated. Default: all, or those of --team.", autocompletion=environments
        ),
    ] = None,
    suite: Annotated[str, typer.Option(help="Name of the suite.")] = "board-1",
    name: Annotated[str, typer.Option(help="Name of the row. Default: model and method.")] = "",
    note: Annotated[str, typer.Option(help="Anything that readers of the table should know.")] = "",
    device: Annotated[str, typer.Option(help="Device of the model.")] = "auto",
    dtype: Annotated[str, typer.Option(help="Number format of the model.")] = "auto",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print an upper bound of tokens and cost, and play nothing.")
    ] = False,
    price: Annotated[float, typer.Option(min=0, help="Price of a million sampled tokens, for --dry-run.")] = 0.0,
    prompt_price: Annotated[float, typer.Option(min=0, help="Price of a million prompt tokens, for --dry-run.")] = 0.0,
    trust: Trust = False,
    **options: Any,
) -> None:
    """Play the suite with a team and write a submission; a repeated command resumes a run that was stopped.

    Examples: [bold]llm-dec-pomdp board run --model http://localhost:8000/v1#NAME --out mine[/]
              [bold]llm-dec-pomdp board run --model model.gguf --method single --out mine-single[/]
              [bold]llm-dec-pomdp board run --team runs/my-run --out mine-trained[/]
    """
    from ..agents.io.load import SCRIPT, MemberConfig, assemble_team
    from ..agents.io.models import TABLE
    from ..algorithms.registration import find_algorithm
    from ..board import Entrant, load
    from ..board import run as play
    from ..evaluation.teams import known_of

    with usage():
        chosen = load(suite)
        trained = {_task_of(chosen, cell): (folder, cell) for folder, cell in map(_trained, team or [])}
        models, default = _models(chosen, model or [])
        partners = {_task_of(chosen, cell): (folder, cell) for folder, cell in map(_trained, partner or [])}
        _check_partners(trained, partners)
        names = task or (list(trained) if trained and not default else [t.environment for t in chosen.tasks])
        for unknown in names:
            chosen.task(unknown)
        tasks = [t for t in chosen.tasks if t.environment in names]
        protocol = find_algorithm(method).protocol
        if dry_run:
            _print_bounds(chosen, tasks, protocol, price, prompt_price)
            return
        played = {name: models.get(name, default) for name in names if name not in trained}
        if missing := [name for name, of in played.items() if not of]:
            stop(f"there is no model for {missing[0]}; give --model NAME, or --model {missing[0]}=NAME")
        allow(
            [cell for of in (trained, partners) for _, cell in of.values()],
            Path("--team"),
            played.values(),
            trust=trust,
        )
        sampling = from_options(Sampling, **options)

        def enter(task: BoardTask) -> Entrant:
            if task.environment in trained:
                entrant = _trained_entrant(task, *trained[task.environment])
                if task.environment not in partners:
                    return entrant
                folder, cell = partners[task.environment]
                other = _trained_entrant(task, folder, cell).team
                return entrant._replace(partner=other, partner_name=f"{cell.method.title}, seed {cell.seed}")
            how = task.protocol(protocol)
            env = task.env(how)
            values = {"agents": env.possible_agents, "model": played[task.environment]}
            if not played[task.environment].startswith(SCRIPT):
                values |= {"device": device, "dtype": dtype}
            member = build(MemberConfig, values, source="options")
            members = assemble_team(env.possible_agents, members=[member], seed=chosen.seed, **known_of(env))
            return Entrant(env, how, members, sampling)

        shown = ", ".join(
            dict.fromkeys([*map(_public, played.values()), *(_public(c.model.name) for _, c in trained.values())])
        )
        methods = ", ".join(dict.fromkeys([cell.method.title for _, cell in trained.values()] or [method]))
        kind = "script" if shown.startswith(SCRIPT) else "table" if shown == TABLE else "model"
        play(
            chosen,
            tasks,
            enter,
            place,
            name=name or f"{shown}, {methods}",
            kind=kind,
            model=shown,
            method=methods,
            note=note,
            report=lambda line: err.print(plain(line)),
        )
    out.print(f"wrote {place}; verify it: llm-dec-pomdp board verify {place}", soft_wrap=True)


def _models(suite: BoardSuite, given: list[str]) -> tuple[dict[str, str], str]:
    """Return the models of single tasks, and the model of all other tasks."""
    models: dict[str, str] = {}
    default = ""
    for text in given:
        task, equals, name = text.partition("=")
        if equals and task in [t.environment for t in suite.tasks]:
            models[task] = name
        else:
            default = text
    typed(*models.values(), default)
    return models, default


def _public(model: str) -> str:
    """Return the name of a model without its address or folder."""
    from ..agents.io.models import server_model

    if (server := server_model(model)) is not None:
        return server[1]
    return Path(model).name if Path(model).exists() else model


def _trained(run: Path) -> tuple[Path, Any]:
    """Return the folder of a trained team, and its cell."""
    from ..benchmarks.suite import cell_of
    from ..training.checkpoint import find_team  # loads torch

    folder = find_team(run)
    return folder, cell_of(folder)


def _check_partners(trained: dict[str, tuple[Path, Any]], partners: dict[str, tuple[Path, Any]]) -> None:
    for task, (folder, cell) in partners.items():
        if task not in trained:
            stop(f"--partner {folder}: it plays {task}, and no --team does; give a team of the same task")
        team, own = trained[task]
        if (own.protocol, own.model) != (cell.protocol, cell.model):
            stop(f"--partner {folder}: its protocol or model differs from {team}; give a team of the same method")
        if team.resolve() == folder.resolve():
            stop(f"--partner {folder}: it is the run of --team itself; give a run of another seed")


def _task_of(suite: BoardSuite, cell: Any) -> str:
    """Return the task that a trained team plays: the environment of its training, in the version of the suite."""
    family = cell.environment.id.partition("-v")[0]
    same = [t.environment for t in suite.tasks if t.environment.partition("-v")[0] == family]
    return same[0] if same else suite.task(cell.environment.id).environment


def _trained_entrant(task: BoardTask, folder: Path, cell: Any) -> Entrant:
    from ..agents.io.save import load_weights
    from ..benchmarks.setup import build_team, with_defaults
    from ..board import Entrant

    cell = cell.loaded()
    protocol = task.protocol(cell.protocol)
    env = task.env(protocol)
    team = build_team(with_defaults(cell, env), env)
    load_weights(folder, team)
    return Entrant(env, protocol, team, cell.sampling, cell.environment.id, cell.training.steps)


def _print_bounds(suite: BoardSuite, tasks: list[BoardTask], protocol: str, price: float, prompt_price: float) -> None:
    from ..board import bound

    rows: list[list[str]] = []
    total = [0, 0, 0]
    for task in tasks:
        found = bound(suite, task, task.protocol(protocol))
        total = [a + b for a, b in zip(total, found, strict=True)]
        rows.append([task.environment, *(f"{number:,}" for number in found)])
    print_table(["at most", "texts", "sampled tokens", "prompt tokens"], [*rows, ["all", *(f"{n:,}" for n in total)]])
    cost = (total[1] * price + total[2] * prompt_price) / 1e6
    out.print(f"cost at most {cost:,.2f}, if every agent acts at every turn with its longest text", soft_wrap=True)


@app.command(cls=Command)
def verify(folders: Folders) -> None:
    """Replay every text of submissions and compare observations, rewards and statistics; no model is needed.

    Example: [bold]llm-dec-pomdp board verify mine[/]
    """
    from ..board import BoardError
    from ..board import verify as check

    wrong = 0
    for folder in folders:
        try:
            submission = check(folder)
        except BoardError as error:
            wrong += 1
            err.print(plain(f"{folder}: {error}"), soft_wrap=True)
        else:
            out.print(plain(f"{folder}: valid, {len(submission.tasks)} tasks of {submission.suite}"), soft_wrap=True)
    if wrong:
        raise typer.Exit(1)


@app.command(cls=Command)
def table(folders: Folders) -> None:
    """Print the tables of submissions as Markdown. They are not verified again.

    Example: [bold]llm-dec-pomdp board table board/* > page.md[/]
    """
    from ..board import page, read

    with usage():
        typer.echo(page([read(folder) for folder in folders]))
