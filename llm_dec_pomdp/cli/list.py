"""The command `list`: environments, algorithms and suites."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from ..algorithms.registration import algorithms
from ..visible import plain
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
    from ..benchmarks.suite import about_suites
    from ..envs.registration import manual, registry

    if env_id is not None:
        typed(env_id)
        with usage():
            described = _describe_environment(env_id)
        if as_json:
            print_json({"id": env_id, **described})
        else:
            _print_manual(described["manual"])
        return
    if verbose and not as_json:
        for env_id in registry:
            page = _or_error({"id": env_id}, lambda env_id=env_id: {"manual": manual(env_id)})
            _print_manual(page.get("manual") or f"# {env_id}\n\n{page['error']}")
        return
    environments = [_or_error({"id": i}, lambda i=i: _describe_environment(i)) for i in registry]
    methods = [_or_error({"name": n}, lambda n=n: {"about": algorithms.find(n).about()}) for n in algorithms]
    if as_json:
        suites = [{"name": name, "about": about} for name, about in about_suites().items()]
        print_json({"environments": environments, "algorithms": methods, "suites": suites})
        return
    rows = [
        [e["id"], f"error: {e['error']}"] if "error" in e else [e["id"], f"{e['about']} ({_agents(e['roles'])})"]
        for e in environments
    ]
    print_table(["id", "about (agents)"], rows, "Environments")
    about = [[m["name"], f"error: {m['error']}" if "error" in m else m["about"]] for m in methods]
    out.print()
    print_table(["name", "about"], about, "Algorithms")
    out.print()
    out.print(plain("Suites", "bold"), "(llm-dec-pomdp bench --help describes them)")
    out.print(", ".join(about_suites()))


def _print_manual(text: str) -> None:
    """Print Markdown; the lines of code blocks stay whole, so that they can be copied."""
    from rich.markdown import Markdown

    for place, part in enumerate(re.split(r"```python\n(.*?)\n```", text, flags=re.DOTALL)):
        if place % 2:
            out.print(plain(part), soft_wrap=True)
        elif part.strip():
            out.print(Markdown(part))
            out.print()


def _agents(roles: Sequence[str]) -> str:
    """The roles of a team, each once: "main, 8 readers"."""
    counted = Counter(re.sub(r" \d+$", "", role) for role in roles)
    return ", ".join(role if count == 1 else f"{count} {role}s" for role, count in counted.items())


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
