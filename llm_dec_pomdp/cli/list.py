"""The command `list`, which shows environments, algorithms and suites, or describes one of them."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from ..algorithms.registration import CONTROL, algorithms, find_algorithm
from ..printable import plain
from ..registries import UnknownNameError, load_attribute, nearest
from .console import out, print_json, print_table, stop, usage
from .options import Json, named
from .trust import typed


def list_(
    name: Annotated[
        str | None,
        typer.Argument(
            help="An environment (prints its page), a learner (prints its options), or a suite (prints its methods, "
            "environments and estimated cost).",
            autocompletion=named,
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the page of every environment.")] = False,
    as_json: Json = False,
) -> None:
    """List environments, algorithms and suites, or describe one of them.

    Examples: [bold]llm-dec-pomdp list tldr-v0[/]
              [bold]llm-dec-pomdp list magrpo[/]
              [bold]llm-dec-pomdp list quick[/]
              [bold]llm-dec-pomdp list --verbose[/]
              [bold]llm-dec-pomdp list --json[/]
    """
    from ..benchmarks.suite import about_suites
    from ..envs.registration import manual, registry

    if name is not None:
        typed(name)
        with usage():
            _show(name, as_json)
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
        [e["id"], "", f"error: {e['error']}"]
        if "error" in e
        else [e["id"], e["ring"], f"{e['about']} ({_agents(e['roles'])})"]
        for e in environments
    ]
    print_table(["id", "ring", "about (agents)"], rows, "Environments")
    about = [[m["name"], f"error: {m['error']}" if "error" in m else m["about"]] for m in methods]
    out.print()
    print_table(["name", "about"], about, "Algorithms")
    out.print()
    out.print(plain("Suites", "bold"), "(llm-dec-pomdp list NAME describes one)")
    out.print(", ".join(about_suites()))


def _agents(roles: Sequence[str]) -> str:
    """Return the distinct roles of a team with their numbers: "main, 8 readers"."""
    counted = Counter(re.sub(r" \d+$", "", role) for role in roles)
    return ", ".join(role if count == 1 else f"{count} {role}s" for role, count in counted.items())


def _show(name: str, as_json: bool) -> None:
    """Print the environment, learner or suite of this name.

    Raises:
        UnknownNameError: The name is unknown; the message suggests the most similar one.
    """
    from ..benchmarks.suite import built_in_suites
    from ..benchmarks.tuned import tuned
    from ..envs.registration import optional, registry, with_version

    suite = name in built_in_suites()
    learner = name in algorithms or name.removesuffix(CONTROL) in algorithms or _is_algorithm(name)
    environment = with_version(name) if not (learner or suite) else name
    if learner:
        _show_algorithm(name, as_json)
    elif suite:
        _show_suite(name, as_json)
    elif ":" in name or environment in registry or environment in optional:
        described, configs = _describe_environment(environment), tuned().get(environment, [])
        if as_json:
            print_json({"id": environment, **described, "configs": configs})
        else:
            _print_manual(described["manual"])
            if configs:
                out.print(f"Tuned settings (llm-dec-pomdp train {environment} --config NAME): {', '.join(configs)}")
    elif name.endswith(".toml"):
        stop(f"{name!r} is a file; to see the suite in it, run llm-dec-pomdp bench {name} --dry-run")
    else:
        known = [*registry, *algorithms, *built_in_suites()]
        raise UnknownNameError(f"there is no environment, learner or suite {name!r}; {nearest(name, known)}")


def _print_manual(text: str) -> None:
    """Print a page of Markdown; do not wrap lines of programs, so that they can be copied."""
    from rich.markdown import Markdown

    for place, part in enumerate(re.split(r"^```.*\n", text, flags=re.MULTILINE)):
        if place % 2:
            out.print(plain(part), soft_wrap=True)
        else:
            out.print(Markdown(part))


def _is_algorithm(name: str) -> bool:
    """Return whether the name is "module:Class" with a subclass of Algorithm."""
    from ..algorithms.base import Algorithm

    kind: Any = load_attribute(name, what=name) if ":" in name and "://" not in name else None
    return isinstance(kind, type) and issubclass(kind, Algorithm)


def _show_algorithm(name: str, as_json: bool) -> None:
    from ..algorithms.described import options_of

    spec = find_algorithm(name)
    kind, fixed = spec.load(), dict(spec.kwargs)
    options = options_of(kind.Config, fixed)
    if as_json:
        rows = [dataclasses.asdict(option) for option in options]
        about = {"name": name, "about": spec.about(), "protocol": spec.protocol, "learns": kind.learns()}
        print_json({**about, "fixed": fixed, "options": rows})
        return
    own = "".join(f"; {option} = {value!r}" for option, value in fixed.items())
    out.print(f"{name}: {spec.about()}\nprotocol: {spec.protocol}{own}\n")
    if not options:
        out.print(f"no options; run it with llm-dec-pomdp eval ID --algorithm {name}")
        return
    for option in options:
        default = f" = {option.default}" if option.default else ""
        only = f", with {option.of}" if option.of else ""
        out.print(plain(f"{option.name}{default}", "bold"), f"({option.type}{only})")
        out.print(textwrap.indent(textwrap.fill(option.about, max(out.width - 4, 20)), "    "))
    out.print(f"\nset an option with llm-dec-pomdp train ID --algorithm {name} --set {options[0].name}=VALUE")


def _show_suite(name: str, as_json: bool) -> None:
    from ..benchmarks.checks import check_methods
    from ..benchmarks.estimate import complete, estimate_table, estimates
    from ..benchmarks.suite import load_suite

    suite = load_suite(name)
    cells = suite.cells()
    check_methods(cells)
    cells = complete(cells)
    estimated = estimates(cells)
    methods, titles = [m.title for m in suite.methods], [e.title for e in suite.environments]
    if as_json:
        about = {"name": name, "about": suite.about, "methods": methods, "environments": titles, "seeds": suite.seeds}
        print_json({**about, "cost": [dataclasses.asdict(estimate) for estimate in estimated]})
        return
    out.print(f"{name}: {suite.about}\nmethods: {', '.join(methods)}\nenvironments: {', '.join(titles)}\n")
    out.print(estimate_table(suite, cells, estimated))
    out.print(f"run it: llm-dec-pomdp bench {name}\n")


def _or_error(known: dict[str, Any], describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the description of a name, or the error if its package is broken, so that the list stays complete."""
    try:
        return {**known, **describe()}
    except Exception as error:  # modules of other packages may raise anything
        return {**known, "error": f"{type(error).__name__}: {error}"}


def _describe_environment(env_id: str) -> dict[str, Any]:
    from ..envs.registration import least_arguments, make, manual, spec

    env = make(env_id, split="all", **least_arguments(env_id))
    return {
        "ring": spec(env_id).ring(),
        "roles": list(env.facts.roles),
        "maximum": env.facts.score_range[1],
        "tasks": len(env.items),
        "about": manual(env_id).splitlines()[2],
        "manual": manual(env_id),
    }
