"""The command `list`: environments and algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.table import Table

from ..algorithms.registration import algorithms
from ..visible import plain
from .console import out, print_json
from .options import Json


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
            page = _or_error({"id": env_id}, lambda env_id=env_id: {"manual": manual(env_id)})
            out.print(Markdown(page.get("manual") or f"# {env_id}\n\n{page['error']}"))
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
            table.add_row(plain(e["id"]), "", "", "", plain(e["error"], "red"))
        else:
            table.add_row(e["id"], ", ".join(e["roles"]), f"{e['maximum']:g}", str(e["tasks"]), e["about"])
    out.print(table)
    table = Table(title="Algorithms", title_justify="left")
    for header in ("name", "about"):
        table.add_column(header)
    for method in methods:
        error = plain(method["error"], "red") if "error" in method else None
        table.add_row(plain(method["name"]), error or plain(method["about"]))
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
