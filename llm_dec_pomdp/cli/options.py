"""Options that several commands share."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from ..config import ALIASES, build, override
from .console import showing_user_code, stop

if TYPE_CHECKING:
    from ..config import Config, ConfigT

# --- completion in the shell; nothing here loads torch ----------------------------------------------------------------


def environments(incomplete: str) -> list[str]:
    """Return the ids of environments that start with this text."""
    from ..envs.registration import registry

    return [name for name in registry if name.startswith(incomplete)]


def algorithms(incomplete: str) -> list[str]:
    """Return the names of algorithms that start with this text."""
    from ..algorithms.registration import algorithms as known

    return [name for name in known if name.startswith(incomplete)]


def suites(incomplete: str) -> list[str]:
    """Return the names of built-in suites that start with this text."""
    from ..benchmarks.suite import built_in_suites

    return [name for name in built_in_suites() if name.startswith(incomplete)]


def named(incomplete: str) -> list[str]:
    """Return the names of environments, algorithms and suites that start with this text."""
    return [*environments(incomplete), *algorithms(incomplete), *suites(incomplete)]


# --- options ----------------------------------------------------------------------------------------------------------

_PANELS = {  # of help pages
    "Model": "model team sharing device dtype load",
    "Tasks": "tasks split eval_tasks eval_split field turns env_option protocol items samples",
    "Sampling": "temperature top_p max_new_tokens",
    "Training": "config steps prompts_per_step group_size every save_every staleness learnability on_divergence "
    "setting partners judge judge_model",
    "Run": "seed out_folder resume overwrite other_versions executor address jobs track traces trust dry_run as_json",
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names.split()}

EnvId = Annotated[
    str,
    typer.Argument(
        help="Environment id (`llm-dec-pomdp list` shows all), or module:Class.", autocompletion=environments
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="builtin:tiny, a folder, a .gguf file, a name on the Hugging Face hub, a server as "
        "http://HOST:PORT/v1#NAME, or a script such as script:optimal. Default: the model of the environment, see "
        "`llm-dec-pomdp train --help`.",
        show_default=False,
    ),
]
Tasks = Annotated[
    str,
    typer.Option(
        help="Source of the tasks: sample (in this package), hub (the published dataset), or a .jsonl or .json file."
    ),
]
Fields = Annotated[
    list[str] | None,
    typer.Option("--field", help="Field of a task and the column of the file that holds it, e.g. prompt=abstract."),
]
Turns = Annotated[
    int | None, typer.Option("--turns", help="Turns per episode. Default: as many as the environment has.")
]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", help="Option of the environment, e.g. feedback=level_passed or length_ratio=paper."),
]
Track = Annotated[
    list[str] | None,
    typer.Option(help="Also send training metrics to tensorboard (files in the run), wandb, mlflow or trackio."),
]
Address = Annotated[str | None, typer.Option(help="Address of a Ray cluster for --executor ray: HOST:6379.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Traces = Annotated[
    bool,
    typer.Option(
        "--traces", help="Keep the traces of every evaluation, with token ids; the commands trace and view read them."
    ),
]
Out = Annotated[Path | None, typer.Option("--out", help="The same as OUT.")]
OtherVersions = Annotated[
    bool, typer.Option("--other-versions", help="Resume with other versions of packages than before.")
]


# Options of the command line whose names differ from the fields of configurations.
_NAMES = {"prompts_per_step": "prompts", "every": "eval_every", "id": "environment id", "max_turns": "turns"}


def flag(name: str) -> str:
    """Return the command-line option of a field of a configuration, such as "--eval-every"."""
    return f"--{_NAMES.get(name, name).replace('_', '-')}"


def configured(kind: type[Config], *names: str, **defaults: Any) -> dict[str, tuple[Any, Any]]:
    """Return options of a command (annotation and default by name) with type, default and help of a configuration.

    Args:
        kind: Class of the configuration.
        names: Fields of the configuration.
        defaults: Defaults that differ from those of the configuration.
    """
    options: dict[str, tuple[Any, Any]] = {}
    types = get_type_hints(kind)
    for name in names:
        field = kind.model_fields[name]
        plain = str if get_origin(types[name]) is Literal else types[name]
        aliases = [flag(alias) for alias, names in ALIASES.items() if names == (name,)]
        shown = typer.Option(flag(name), *aliases, help=" ".join((field.description or "").split()))
        options[name] = (Annotated[plain, shown], defaults.get(name, field.default))
    return options


class _Help:
    """A help page with a panel for each kind of option; flags have no type, because they take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options with their panels, for the help page."""
        params = cast("list[Any]", super().get_params(ctx))  # type: ignore[misc]
        for parameter in params:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            parameter.rich_help_panel = getattr(parameter, "rich_help_panel", None) or _PANEL_OF.get(parameter.name)
        return params


class Command(_Help, TyperCommand):
    """A command of this program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; refuse an option together with its alias."""
        written = {argument.partition("=")[0] for argument in args}
        for alias, (name, *_) in ALIASES.items():
            if {flag(alias), flag(name)} <= written:
                stop(f"{flag(alias)} is TRL's name for {flag(name)}; give only one of them")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; if user code raises, print the traceback of that code and exit."""
        with showing_user_code():
            return super().invoke(ctx)


class Group(_Help, TyperGroup):
    """A group of commands of this program."""


def with_options(table: Mapping[str, tuple[Any, Any]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds options to a command, which receives them as `**options`.

    Args:
        table: Annotation and default of each option, by name.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(*args: Any, **values: Any) -> None:
            command(*args, **values)

        signature = inspect.signature(command, eval_str=True)
        kept = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        added = [inspect.Parameter(n, kept[-1].kind, default=d, annotation=a) for n, (a, d) in table.items()]
        run.__signature__ = signature.replace(parameters=[*kept, *added])  # pyright: ignore[reportAttributeAccessIssue]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*kept, *added)}
        return run

    return decorate


def read_fields(pairs: list[str] | None) -> dict[str, str]:
    """Return a mapping from texts "name=column"."""
    mapping: dict[str, str] = {}
    for pair in pairs or []:
        name, equals, column = pair.partition("=")
        if not (name and equals and column):
            stop(f"--field {pair!r} is not of the form name=column, e.g. --field prompt=abstract")
        mapping[name] = column
    return mapping


def given_task(
    env_id: str, env_option: list[str] | None, tasks: str, field: list[str] | None, turns: int | None
) -> Any:
    """Return the environment that the options of `check` and `serve` describe, with all of its tasks."""
    from ..benchmarks.setup import make_task

    options = override({}, env_option or [])
    if field:
        options["fields"] = read_fields(field)
    return make_task(env_id, options, tasks=tasks, split="all", max_turns=turns)


def output(place: Path | None, option: Path | None, default: Path | None = None) -> Path:
    """Return OUT, --out or the default as the path to write to; exit with an error if both or none are given."""
    if place is not None and option is not None:
        stop(f"OUT is {str(place)!r} and --out is {str(option)!r}; give only one of them")
    found = place or option or default
    return found or stop("there is no path to write to; give it as OUT or --out OUT")


def check_executor(executor: str, address: str | None) -> None:
    """Refuse --address without --executor ray, and several processes of torchrun without --executor torchrun."""
    if executor != "torchrun" and "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1":
        stop(
            f"torchrun has started {os.environ['WORLD_SIZE']} processes, and with --executor {executor} each of them "
            "would do the whole work; give --executor torchrun, or start this command without torchrun"
        )
    if address is not None and executor != "ray":
        stop(
            f"--address {address} would have no effect with --executor {executor}; give --executor ray, or leave it out"
        )


# --- options on the command line --------------------------------------------------------------------------------------


def from_options(kind: type[ConfigT], further: Collection[str] = (), **values: Any) -> ConfigT:
    """Return a configuration from options. Errors name the option, or --load for the names in `further`."""
    names = {name: flag(name) for name in kind.model_fields}
    names |= {name: f"--load {name}" for name in further}
    return build(kind, values, source="options", names=names)


def given(context: typer.Context, *names: str) -> list[str]:
    """Return which of these parameters (default: of all) were given, as written on the command line: "--set"."""
    options: list[str] = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE" and (not names or parameter.name in names):
            written: str = parameter.opts[0]
            options.append(written if written.startswith("-") else written.upper())
    return options
