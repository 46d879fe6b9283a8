"""Commands that look: `list` and `check` at environments, `doctor` at what confines generated code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ..algorithms.registration import algorithms
from .console import err, out, print_json, stop, usage
from .options import EnvId, EnvOption, Fields, Json, Tasks, Turns, read_fields, read_options


def list_(
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the manual of every environment.")] = False,
    as_json: Json = False,
) -> None:
    """List environments and algorithms.

    Examples: [bold]llm-dec-pomdp list --verbose[/]
              [bold]llm-dec-pomdp list --json[/]
    """
    from ..envs.registration import manual, registry

    if verbose and not as_json:
        from rich.markdown import Markdown

        for env_id in registry:
            found = _or_error({"id": env_id}, lambda env_id=env_id: {"manual": manual(env_id)})
            out.print(Markdown(found.get("manual") or f"# {env_id}\n\n{found['error']}"))
        return
    environments = [_or_error({"id": i}, lambda i=i: _describe_environment(i)) for i in registry]
    methods = [_or_error({"name": n}, lambda n=n: {"about": algorithms.find(n).about()}) for n in algorithms]
    if as_json:
        print_json({"environments": environments, "algorithms": methods})
        return
    table = Table(title="Environments", title_justify="left")
    for header in ("id", "agents", "maximum", "tasks", "about"):
        table.add_column(header)
    for e in environments:
        if "error" in e:
            table.add_row(escape(e["id"]), "", "", "", f"[red]{escape(e['error'])}[/]")
        else:
            table.add_row(e["id"], ", ".join(e["roles"]), f"{e['maximum']:g}", str(e["tasks"]), e["about"])
    out.print(table)
    table = Table(title="Algorithms", title_justify="left")
    for header in ("name", "about"):
        table.add_column(header)
    for method in methods:
        error = f"[red]{escape(method['error'])}[/]" if "error" in method else ""
        table.add_row(escape(method["name"]), error or method["about"])
    out.print(table)


def _or_error(known: dict[str, Any], describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What is told of a name; of one whose package is broken its error, so that the others are listed all the same."""
    try:
        return {**known, **describe()}
    except Exception as error:  # whatever the module of another package raises
        return {**known, "error": f"{type(error).__name__}: {error}"}


def _describe_environment(env_id: str) -> dict[str, Any]:
    from ..envs.registration import make, manual

    env = make(env_id, split="all")
    return {
        "roles": list(env.roles),
        "maximum": env.score_range[1],
        "tasks": len(env.items),
        "about": manual(env_id).splitlines()[2],
        "manual": manual(env_id),
    }


def check(
    env_id: EnvId,
    tasks: Tasks = "sample",
    field: Fields = None,
    turns: Turns = None,
    env_option: EnvOption = None,
    as_json: Json = False,
) -> None:
    """Check an environment against every law of the suite; exit code 1 when one is broken.

    Example: [bold]llm-dec-pomdp check tldr-v0[/]
    """
    from ..benchmarks.cell import make_task
    from ..envs.check import LAWS, CheckFailure, check_env

    with usage():
        options = read_options(env_option)
        if field:
            options["fields"] = read_fields(field)
        env = make_task(env_id, options, tasks=tasks, split="all", max_turns=turns)
    try:
        with err.status(f"checking {env_id}"):
            passed, failure = check_env(env, rows=None), ""
    except CheckFailure as broken:
        passed, failure = [], str(broken)
    if as_json:
        print_json({"id": env_id, "passed": passed, "failure": failure or None})
    elif failure:
        err.print(f"[red]broken:[/] {escape(failure)}")
    else:
        for law in LAWS:
            out.print(f"[green]holds[/]  {law}")
        out.print(f"{env_id}: {len(passed)} laws hold on {len(env.items)} tasks")
    if failure:
        raise typer.Exit(1)


def doctor(
    only: Annotated[list[str] | None, typer.Option(help="Try only this hostile program; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Show what confines generated code and try the judge with hostile programs; exit code 1 when one gets through.

    Example: [bold]llm-dec-pomdp doctor[/]
    """
    from ..registry import nearest
    from ..sandbox import capabilities
    from ..sandbox.doctor import examine, programs

    with usage():
        known = {program.name: program for program in programs()}
        if unknown := [name for name in only or () if name not in known]:
            stop(f"no hostile program {unknown[0]!r}; {nearest(unknown[0], known)}")
        found = capabilities()
    chosen = [known[name] for name in only or known]
    with err.status(f"trying {len(chosen)} hostile programs"):
        findings = list(examine(chosen))
    through = {finding.program.name: finding.problems for finding in findings if finding.problems}
    skipped = sorted({program.name for program in chosen} - {finding.program.name for finding in findings})
    if as_json:
        tried = {f.program.name: {"outcome": f.verdict.outcome, "problems": f.problems} for f in findings}
        print_json({**found.to_dict(), "missing": found.missing or None, "programs": tried, "not_tried": skipped})
    else:
        for layer, reason in found.layers.items():
            out.print(f"{layer:12}{'[green]holds[/]' if not reason else '[red]missing[/]  ' + escape(reason)}")
        if found.missing:
            out.print(f"[yellow]{escape(found.missing)}[/]", highlight=False)
        for name, problems in through.items():
            out.print(f"[red]{name}[/]: {escape('; '.join(problems))}", highlight=False)
        rest = f"; {len(skipped)} that try to escape were not tried, nothing would hold them" if skipped else ""
        out.print(f"{len(findings) - len(through)} of {len(findings)} hostile programs held off{rest}")
    if through:
        raise typer.Exit(1)
