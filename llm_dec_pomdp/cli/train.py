"""The command `train`, which trains a team and evaluates it before and after."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ..benchmarks.tuned import tuned, tuned_file
from ..config import ConfigError, flat, override, read_toml
from ..envs.registration import with_version
from ..options import EvaluationConfig, TrainerConfig
from ..registries import nearest
from .cells import (
    cell_options,
    cell_to_resume,
    check_cell,
    check_same_cell,
    make_cell,
    refuse,
    run_one,
    saved_team,
)
from .console import stop, usage
from .options import (
    Address,
    OtherVersions,
    Track,
    algorithms,
    check_executor,
    configured,
    environments,
    from_options,
    given,
    with_options,
)
from .trust import allow, typed

if TYPE_CHECKING:
    from ..benchmarks.suite import Cell
    from ..config import ConfigT


_LENGTH = (
    *("steps", "prompts_per_step", "group_size", "save_every", "staleness", "learnability", "on_divergence"),
    *("judge", "judge_model"),
)
_ASSIGNMENTS = ("setting", "env_option", "load")
_SETTINGS = (  # parameters that a file of settings may have
    *("algorithm", "protocol", "split", "eval_split", "every", *_LENGTH, *_ASSIGNMENTS),
    *("model", "sharing", "dtype", "turns", "items", "samples", "temperature", "top_p", "max_new_tokens"),
)
_TUNED = ", ".join(f"{env_id} ({', '.join(names)})" for env_id, names in tuned().items())


@cell_options()
@with_options({**configured(TrainerConfig, *_LENGTH), **configured(EvaluationConfig, "every")})
def train(
    context: typer.Context,
    env_id: Annotated[
        str | None,
        typer.Argument(
            help="Environment id, or module:Class. Default with --resume: the environment of the run.",
            autocompletion=environments,
        ),
    ] = None,
    algorithm: Annotated[
        str, typer.Option(help="Name of a learner, or module:Class.", autocompletion=algorithms)
    ] = "magrpo",
    config: Annotated[
        str | None,
        typer.Option(
            help="Tuned settings of the environment, or a .toml file; options given here replace its values. There "
            f"are settings of {_TUNED}."
        ),
    ] = None,
    team: Annotated[
        Path | None,
        typer.Option(
            help="Start from this trained team: folder of a run, or of a saved or exported team. Or a .toml file with "
            "a model for each role."
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Split to train on: train, test or all. Default: train; with --eval-tasks: all."),
    ] = None,
    eval_tasks: Annotated[
        str | None, typer.Option(help="File of evaluation tasks. Default: the tasks of --eval-split.")
    ] = None,
    eval_split: Annotated[str, typer.Option(help="Split of --tasks to evaluate on: train, test or all.")] = "test",
    protocol: Annotated[
        str | None,
        typer.Option(
            help="Order of the agents: parallel, sequential, discussion, ... Default: the protocol of the learner."
        ),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Option of the learner, e.g. learning_rate=1e-4; `llm-dec-pomdp list LEARNER` shows all."
        ),
    ] = None,
    partners: Annotated[
        list[str] | None,
        typer.Option(
            help='Partners that replace a member in some groups: pool=self, \'pool=["RUN", "silent"]\', share=0.5, '
            "every=10, last=5; docs/algorithms.md explains them. Default: none."
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Resume the run in this folder, with bit-identical results.")
    ] = None,
    other_versions: OtherVersions = False,
    executor: Annotated[
        str,
        typer.Option(
            help="Backend for the models: local (this process), processes (one process for each model), ray (an actor "
            "for each model), torchrun (each model sharded over all processes)."
        ),
    ] = "local",
    address: Address = None,
    track: Track = None,
    **options: Any,
) -> None:
    """Train a team, and evaluate it before and after on the test tasks.

    A file of tasks may have a field `split` with the value train or test. Without it, a fixed fifth of the tasks is
    the test split.

    With --resume RUN --steps N, a finished run is trained further up to N updates. A stopped run may also end earlier.
    The team is evaluated after N updates.

    Examples: [bold]llm-dec-pomdp train tldr-v0 --steps 40[/]
              [bold]llm-dec-pomdp train --resume runs/my-run[/]
              [bold]llm-dec-pomdp train --resume runs/my-run --steps 80[/]
              [bold]llm-dec-pomdp train tldr-v0 --model model.gguf --sharing lora --tasks my.jsonl --field prompt=x[/]
              [bold]llm-dec-pomdp train tldr-v0 --tasks my.jsonl --split all --eval-split test[/]
              [bold]llm-dec-pomdp train tldr-v0 --team runs/my-run[/]
              [bold]llm-dec-pomdp train dectiger-v0 --config marloo[/]
    """
    from ..benchmarks.suite import read_team
    from ..training import TrainerConfig
    from ..training.tracking import check_trackers
    from ..training.workers import executors

    check_executor(executor, address)
    with usage():
        executors.find(executor)
        if executor == "torchrun":
            from ..training.workers.torchrun import take_part  # loads torch

            typed(*([env_id] if env_id else []), algorithm)
            take_part()
        trackers = check_trackers(track or [])
        if env_id is None:
            cell = _cell_to_resume(context, resume, trust=options["trust"])
        else:
            if eval_tasks is not None:
                refuse(given(context, "eval_split"), "all tasks of --eval-tasks are evaluated")
            if config is not None:
                found = _from_file(context, config, with_version(env_id))
                algorithm, protocol = found.pop("algorithm", algorithm), found.pop("protocol", protocol)
                split, eval_split = found.pop("split", split), found.pop("eval_split", eval_split)
                setting = [*found.pop("setting", []), *(setting or [])]
                for name in ("env_option", "load"):
                    options[name] = [*found.pop(name, []), *(options[name] or [])]
                options |= found
            played = None
            if team is not None and team.suffix == ".toml":
                refuse(given(context, "model", "sharing", "load", "device", "dtype"), f"{team} has the models")
                played = read_team(team)
            elif team is not None:
                start, trained = saved_team(context, team)
                played = trained.model.model_copy(update={"start": str(start)})
            typed(env_id, algorithm)
            cell = make_cell(
                env_id,
                algorithm,
                options,
                played=played,
                training=from_options(
                    TrainerConfig,
                    **{name: options[name] for name in _LENGTH},
                    **({"partners": override({}, partners)} if partners else {}),
                ),
                settings=setting,
                environment={"split": split, "eval_tasks": eval_tasks, "protocol": protocol},
                split=eval_split,
                every=options["every"],
            )
            if team is not None:
                allow([cell], team, (env_id, algorithm), trust=options["trust"])
        cell = check_cell(cell, executor=executor)
        if resume is not None:
            check_same_cell(cell, resume)
        executors.find(executor).load()  # raises if its package is not installed
    folder, name = resume or options["out_folder"], f"train-{cell.environment.id}"
    arguments: dict[str, Any] = {"resume": resume is not None, "other_versions": other_versions}
    arguments |= {"executor": executor, "address": address, "traces": options["traces"], "tracking": trackers}
    run_one(cell, folder, name, options["as_json"], **arguments)


def _from_file(context: typer.Context, config: str, env_id: str) -> dict[str, Any]:
    """Return the values of parameters from a file of settings, without those that were given on the command line.

    The tables `set`, `env` and `load` become lists of assignments, which the caller puts before the given ones.

    Raises:
        ConfigError: The file is missing or not TOML, or has an unknown key.
    """
    path = tuned_file(config, env_id)
    parameters = (parameter for parameter in context.command.params if parameter.name in _SETTINGS)
    keys = {parameter.opts[0].removeprefix("--").replace("-", "_"): str(parameter.name) for parameter in parameters}
    found: dict[str, Any] = {}
    for key, value in read_toml(path).items():
        if key not in keys:
            raise ConfigError(f"{str(path)!r}: {key!r} is no setting; {nearest(key, keys)}")
        if keys[key] in _ASSIGNMENTS:
            if not isinstance(value, dict):
                raise ConfigError(f"{str(path)!r}: {key} is {value!r:.60}; write a table [{key}]")
            table = flat(cast("dict[str, Any]", value))
            found[keys[key]] = [f"{option}={json.dumps(held)}" for option, held in table.items()]
        elif not given(context, keys[key]):
            found[keys[key]] = value
    return found


def _cell_to_resume(context: typer.Context, folder: Path | None, *, trust: bool) -> Cell:
    """Return the only cell of a run, changed by --steps, --save-every and --eval-every if they were given."""
    if folder is None:
        stop("there is no environment; give its id (`llm-dec-pomdp list` shows all), or a run to resume: --resume RUN")
    changes = ("steps", "save_every", "every")
    free = (*changes, "other_versions", "executor", "address", "track")
    cell = cell_to_resume(context, folder, free, changes, trust=trust)
    if not cell.training.steps:
        stop(f"{str(folder)!r} is a folder of eval, without training; resume it with eval --resume {folder}")
    changed = {name: context.params[name] for name in changes if given(context, name)}

    def renewed(part: ConfigT) -> ConfigT:
        values = part.model_dump()
        return from_options(type(part), **{**values, **{n: v for n, v in changed.items() if n in values}})

    return dataclasses.replace(cell, training=renewed(cell.training), evaluation=renewed(cell.evaluation))
