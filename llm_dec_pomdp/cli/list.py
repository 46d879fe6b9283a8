"""The command `list`: environments, algorithms and suites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..algorithms.registration import algorithms
from .console import out, print_json, print_table, usage
from .options import Json, environments
from .trust import typed


def list_(
    env_id: Annotated[
        str | None, typer.Argument(help="Print the manual of this environment.", autocompletion=environments)
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the manual of every environment.")] = False,
    as_json: Json = False,
) -> None:
    """List environments, algorithms and suites.

    Examples: [bold]llm-dec-pomdp list tldr-v0[/]
              [bold]llm-dec-pomdp list --verbose[/]
              [bold]llm-dec-pomdp list --json[/]
    """
    from rich.markdown import Markdown

    from ..benchmarks.suite import about_suites
    from ..envs.registration import manual, registry

    if env_id is not None:
        typed(env_id)
        with usage():
            described = _describe_environment(env_id)
        if as_json:
            print_json({"id": env_id, **described})
        else:
            out.print(Markdown(described["manual"]))
        return
    if verbose and not as_json:
        for env_id in registry:
            page = _or_error({"id": env_id}, lambda env_id=env_id: {"manual": manual(env_id)})
            out.print(Markdown(page.get("manual") or f"# {env_id}\n\n{page['error']}"))
        return
    environments = [_or_error({"id": i}, lambda i=i: _describe_environment(i)) for i in registry]
    methods = [_or_error({"name": n}, lambda n=n: {"about": algorithms.find(n).about()}) for n in algorithms]
    if as_json:
        suites = [{"name": name, "about": about} for name, about in about_suites().items()]
        print_json({"environments": environments, "algorithms": methods, "suites": suites})
        return
    rows = [
        [e["id"], "", "", "", f"error: {e['error']}"]
        if "error" in e
        else [e["id"], ", ".join(e["roles"]), f"{e['maximum']:g}", str(e["tasks"]), e["about"]]
        for e in environments
    ]
    print_table(["id", "agents", "maximum", "tasks", "about"], rows, "Environments")
    about = [[m["name"], f"error: {m['error']}" if "error" in m else m["about"]] for m in methods]
    print_table(["name", "about"], about, "Algorithms")
    print_table(["name", "about"], about_suites().items(), "Suites")


def _or_error(known: dict[str, Any], describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The description of a name, or its error where its package is broken, so that the others can still be listed."""
    try:
        return {**known, **describe()}
    except Exception as error:  # whatever the module of another package raises
        return {**known, "error": f"{type(error).__name__}: {error}"}


def _describe_environment(env_id: str) -> dict[str, Any]:
    from ..envs.registration import least_arguments, make, manual

    env = make(env_id, split="all", **least_arguments(env_id))
    return {
        "roles": list(env.facts.roles),
        "maximum": env.facts.score_range[1],
        "tasks": len(env.items),
        "about": manual(env_id).splitlines()[2],
        "manual": manual(env_id),
    }
