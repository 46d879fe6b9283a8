"""Options that several commands take, and how `key=value` is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import stop

if TYPE_CHECKING:
    from ..config import ConfigT

EnvId = Annotated[str, typer.Argument(help="Environment id, see `llm-dec-pomdp list`, or module:Class.")]
Model = Annotated[str, typer.Option(help="builtin:tiny, a folder, a .gguf file, or a hub id.")]
ShareOption = Annotated[str, typer.Option(help="separate (a model per agent), shared, or lora (an adapter per agent).")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
Dtype = Annotated[str, typer.Option(help="auto (float32 weights where all are trained), float32, bfloat16, float16.")]
Tasks = Annotated[str, typer.Option(help="sample (embedded), hub (the published data set), or a .jsonl/.json file.")]
Fields = Annotated[list[str] | None, typer.Option("--field", help="Field mapping for files, e.g. prompt=abstract.")]
Turns = Annotated[int | None, typer.Option("--turns", help="Turns per episode (H); else the environment's own.")]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", help="Option of the environment, e.g. feedback=plain or length_ratio=paper."),
]
Seed = Annotated[int, typer.Option(help="Seed of the run.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Temperature = Annotated[float, typer.Option(help="Sampling temperature; 0 is greedy.")]
TopP = Annotated[float, typer.Option(help="Nucleus of the sampling; 1 keeps all tokens.")]
NewTokens = Annotated[int, typer.Option(help="Longest text of one agent, in tokens.")]
Items = Annotated[int | None, typer.Option(help="Evaluate on the first so many tasks only.")]
Samples = Annotated[int, typer.Option(help="Episodes per task in the evaluation.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Option of the algorithm, e.g. learning_rate=1e-4.")]
Resume = Annotated[Path | None, typer.Option(help="Go on with the run in this folder, bit for bit.")]
OtherVersions = Annotated[bool, typer.Option("--other-versions", help="Resume although packages have changed since.")]


def read_fields(pairs: list[str] | None) -> dict[str, str]:
    """`name=column` pairs."""
    mapping: dict[str, str] = {}
    for pair in pairs or []:
        name, equals, column = pair.partition("=")
        if not (name and equals and column):
            stop(f"--field {pair!r} is not of the form name=column, e.g. --field prompt=abstract")
        mapping[name] = column
    return mapping


def read_options(settings: list[str] | None) -> dict[str, Any]:
    """`key=value` settings, read as TOML values."""
    from ..config import override

    return override({}, settings or [])


# --- what was given ---------------------------------------------------------------------------------------------------

# How the command line calls what configurations call otherwise.
_NAMES = {"prompts_per_step": "prompts", "every": "eval_every", "id": "environment id", "max_turns": "turns"}


def from_options(kind: type[ConfigT], **values: Any) -> ConfigT:
    """A configuration from options; a value that it refuses is named as the option."""
    from ..config import build

    names = {name: f"--{_NAMES.get(name, name).replace('_', '-')}" for name in kind.model_fields}
    return build(kind, values, source="options", names=names)


def given(context: typer.Context, *names: str) -> list[str]:
    """Those of some parameters (of all when none are named) that were given, as they are written: "--set"."""
    found: list[str] = []
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE" and (not names or parameter.name in names):
            written: str = parameter.opts[0]
            found.append(written if written.startswith("-") else written.upper())
    return found
