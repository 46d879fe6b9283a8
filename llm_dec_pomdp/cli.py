"""The command line: `llm-dec-pomdp list | check | play | train | eval | bench | report | runs | export | doctor`.

Exit codes: 0 done, 1 the work failed (a check did not pass, a run could not go on), 2 wrong usage or input, 3 training
diverged, 75 a signal ended a run that can be resumed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.table import Table

from .__about__ import __version__
from .algorithms.registration import algorithms, find_algorithm
from .envs.check import LAWS, CheckFailure, check_env
from .envs.registration import make, manual, registry

if TYPE_CHECKING:
    from .benchmarks.cell import Result
    from .benchmarks.suite import Cell

app = typer.Typer(
    help="Environments and learners for teams of language models.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
out = Console()
err = Console(stderr=True)

# --- options that several commands take ---------------------------------------------------------------------------

EnvId = Annotated[str, typer.Argument(help="Environment id, see `llm-dec-pomdp list`.")]
Model = Annotated[str, typer.Option(help="builtin:tiny, a folder, a .gguf file, or a hub id.")]
ShareOption = Annotated[str, typer.Option(help="separate (a model per agent), shared, or lora (an adapter per agent).")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16, float16.")]
Tasks = Annotated[str, typer.Option(help="sample (embedded), hub (the published data set), or a .jsonl/.json file.")]
Fields = Annotated[list[str] | None, typer.Option("--field", help="Field mapping for files, e.g. prompt=abstract.")]
Turns = Annotated[int, typer.Option("--turns", help="Turns per episode (H).")]
EnvOption = Annotated[
    list[str] | None,
    typer.Option("--env", help="Option of the environment, e.g. feedback=plain or length_ratio=paper."),
]
Seed = Annotated[int, typer.Option(help="Seed of the run.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Out = Annotated[Path | None, typer.Option(help="Folder of the run; a new one below runs/ when left out.")]
Temperature = Annotated[float, typer.Option(help="Sampling temperature; 0 is greedy.")]
TopP = Annotated[float, typer.Option(help="Nucleus of the sampling; 1 keeps all tokens.")]
NewTokens = Annotated[int, typer.Option(help="Longest text of one agent, in tokens.")]
Items = Annotated[int | None, typer.Option(help="Evaluate on the first so many tasks only.")]
Samples = Annotated[int, typer.Option(help="Episodes per task in the evaluation.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Option of the algorithm, e.g. learning_rate=1e-4.")]
Resume = Annotated[Path | None, typer.Option(help="Go on with the run in this folder, bit for bit.")]
OtherVersions = Annotated[bool, typer.Option("--other-versions", help="Resume although packages have changed since.")]


def _suites() -> str:
    """The built-in suites, for `bench --help`."""
    from .benchmarks.suite import about_suites

    return "\n\n".join(["[bold]Suites[/]", *(f"[bold]{name}[/]: {about}" for name, about in about_suites().items())])


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if "" not in sys.path:
        sys.path.insert(0, "")  # so that module:Class finds a file in the current folder, as `python -m` does
    if version:
        out.print(__version__, highlight=False)
        raise typer.Exit


# --- looking ------------------------------------------------------------------------------------------------------


@app.command("list")
def list_(
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the manual of every environment.")] = False,
    as_json: Json = False,
) -> None:
    """List environments and algorithms.

    Examples: [bold]llm-dec-pomdp list --verbose[/]
              [bold]llm-dec-pomdp list --json[/]
    """
    if verbose and not as_json:
        for env_id in registry:
            out.print(Markdown(manual(env_id)))
        return
    environments = [_describe_environment(env_id) for env_id in registry]
    methods = [{"name": name, "about": _first_line(find_algorithm(name).load())} for name in algorithms]
    if as_json:
        _print_json({"environments": environments, "algorithms": methods})
        return
    table = Table(title="Environments", title_justify="left")
    for header in ("id", "agents", "maximum", "tasks", "about"):
        table.add_column(header)
    for e in environments:
        table.add_row(e["id"], ", ".join(e["roles"]), f"{e['maximum']:g}", str(e["tasks"]), e["about"])
    out.print(table)
    table = Table(title="Algorithms", title_justify="left")
    for header in ("name", "about"):
        table.add_column(header)
    for method in methods:
        table.add_row(method["name"], method["about"])
    out.print(table)


def _describe_environment(env_id: str) -> dict[str, Any]:
    env = make(env_id, split="all")
    return {
        "id": env_id,
        "roles": list(env.roles),
        "maximum": env.reward_range[1],
        "tasks": len(env.items),
        "about": manual(env_id).splitlines()[2],
        "manual": manual(env_id),
    }


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().partition("\n")[0]


@app.command()
def check(
    env_id: EnvId,
    tasks: Tasks = "sample",
    field: Fields = None,
    turns: Turns = 1,
    env_option: EnvOption = None,
    as_json: Json = False,
) -> None:
    """Check an environment against every law of the suite; exit code 1 when one is broken.

    Example: [bold]llm-dec-pomdp check tldr-v0[/]
    """
    with _usage():
        options = _options(env_option)
        env = make(env_id, tasks=tasks, split="all", max_turns=turns, **_field_options(field), **options)
    try:
        with err.status(f"checking {env_id}"):
            passed, failure = check_env(env, rows=None), ""
    except CheckFailure as broken:
        passed, failure = [], str(broken)
    if as_json:
        _print_json({"id": env_id, "passed": passed, "failure": failure or None})
    elif failure:
        err.print(f"[red]broken:[/] {escape(failure)}")
    else:
        for law in LAWS:
            out.print(f"[green]holds[/]  {law}")
        out.print(f"{env_id}: {len(passed)} laws hold on {len(env.items)} tasks")
    if failure:
        raise typer.Exit(1)


@app.command()
def doctor(
    only: Annotated[list[str] | None, typer.Option(help="Try only this hostile program; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """Show what confines generated code and try the judge with hostile programs; exit code 1 when one gets through.

    Example: [bold]llm-dec-pomdp doctor[/]
    """
    from .registry import nearest
    from .sandbox import capabilities
    from .sandbox.doctor import examine, programs

    with _usage():
        known = {program.name: program for program in programs()}
        if unknown := [name for name in only or () if name not in known]:
            _stop(f"no hostile program {unknown[0]!r}; {nearest(unknown[0], known)}")
        found = capabilities()
    chosen = [known[name] for name in only or known]
    with err.status(f"trying {len(chosen)} hostile programs"):
        findings = list(examine(chosen))
    through = {finding.program.name: finding.problems for finding in findings if finding.problems}
    skipped = sorted({program.name for program in chosen} - {finding.program.name for finding in findings})
    if as_json:
        tried = {f.program.name: {"outcome": f.verdict.outcome, "problems": f.problems} for f in findings}
        _print_json({**found.to_dict(), "missing": found.missing or None, "programs": tried, "not_tried": skipped})
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


# --- playing ------------------------------------------------------------------------------------------------------


@app.command()
def play(
    env_id: EnvId,
    role: Annotated[str | None, typer.Option(help="The role you take; the first one when left out.")] = None,
    model: Model = "builtin:tiny",
    task: Annotated[str | None, typer.Option(help="Task id; one at random when left out.")] = None,
    protocol: Annotated[str, typer.Option(help="parallel, sequential or discussion.")] = "parallel",
    turns: Turns = 1,
    env_option: EnvOption = None,
    tokens: NewTokens = 128,
    seed: Annotated[int | None, typer.Option(help="Seed of the task and of the others' texts.")] = None,
) -> None:
    """Take one role yourself; a policy plays the rest. An empty line ends your text.

    Example: [bold]llm-dec-pomdp play tldr-v0 --role elaboration[/]
    """
    from .agents.base import Sampling, Team
    from .agents.human import Human
    from .agents.loading import load_team
    from .envs.wrappers import with_protocol
    from .registry import nearest
    from .rollout import collect

    with _usage():
        env = with_protocol(make(env_id, split="all", max_turns=turns, **_options(env_option)), protocol)
        roles = {env.role(agent): agent for agent in env.possible_agents}
        if role is not None and role not in roles:
            _stop(f"no role {role!r} in {env_id}; {nearest(role, roles)}")
        env.reset(seed=seed, options={"task_id": task} if task else None)
        mine = roles[role] if role else env.possible_agents[0]
        others = [agent for agent in env.possible_agents if agent != mine]
        with out.status("loading the others"):
            team = load_team(others, model, sharing="shared") if others else Team({mine: Human(_ask_person)})
    played = Team({**team.members, mine: Human(_ask_person)})
    out.print(f"You are [bold]{env.role(mine)}[/] in {env_id}, task {env.item.id}.")
    groups = collect(env, played, [env.item.id], [seed or 0], Sampling(max_new_tokens=tokens))
    episode = groups[0].episodes[0]
    for turn in episode.turns:
        for agent, completion in turn.actions.items():
            if agent != mine:
                out.rule(f"{env.role(agent)} wrote")
                out.print(completion.text, markup=False, highlight=False)
    out.rule("joint reward")
    for turn in episode.turns:
        if turn.score is not None:
            parts = "  ".join(f"{name} {value:.2f}" for name, value in turn.score.components.items())
            out.print(f"{turn.reward:.2f} of {env.reward_range[1]:g}   {parts}", highlight=False)


def _ask_person(agent: str, observation: str) -> str:
    out.rule("you are told")
    out.print(observation, markup=False, highlight=False)
    out.rule("your text (an empty line ends it)")
    lines: list[str] = []
    for line in sys.stdin:
        if not line.strip():
            break
        lines.append(line.rstrip("\n"))
    return "\n".join(lines)


# --- working ------------------------------------------------------------------------------------------------------


@app.command("eval")
def eval_(
    env_id: EnvId,
    algorithm: Annotated[
        str, typer.Option("--method", help="Algorithm whose protocol the team acts under.")
    ] = "concat",
    model: Model = "builtin:tiny",
    team: Annotated[
        Path | None,
        typer.Option(help="Folder of a trained team (RUN/team), which names model and method, or a .toml of members."),
    ] = None,
    sharing: ShareOption = "shared",
    tasks: Tasks = "sample",
    field: Fields = None,
    split: Annotated[str, typer.Option(help="train, test or all.")] = "test",
    turns: Turns = 1,
    env_option: EnvOption = None,
    items: Items = None,
    samples: Samples = 1,
    temperature: Temperature = 1.0,
    top_p: TopP = 1.0,
    max_new_tokens: NewTokens = 256,
    device: Device = "auto",
    dtype: Dtype = "auto",
    seed: Seed = 0,
    out_folder: Annotated[Path | None, typer.Option("--out", help="Folder of the run.")] = None,
    as_json: Json = False,
) -> None:
    """Measure a team as it is.

    Examples: [bold]llm-dec-pomdp eval humaneval-v0 --model model.gguf --split all[/]
              [bold]llm-dec-pomdp eval tldr-v0 --team runs/my-run/team[/]
    """
    from .benchmarks.suite import (
        Cell,
        EnvironmentConfig,
        EvaluationConfig,
        MethodConfig,
        ModelConfig,
        SamplingConfig,
        read_team,
    )
    from .checkpoint import read_description
    from .config import build
    from .training import TrainerConfig

    with _usage():
        environment = EnvironmentConfig(
            id=env_id, tasks=tasks, fields=_mapping(field), max_turns=turns, options=_options(env_option)
        )
        cell = Cell(
            environment,
            MethodConfig(name=algorithm),
            build(ModelConfig, {"name": model, "sharing": sharing, "device": device, "dtype": dtype}, source="options"),
            seed,
            SamplingConfig(temperature=temperature, top_p=top_p, max_new_tokens=max_new_tokens),
            TrainerConfig(),
            EvaluationConfig(split=split, items=items, samples=samples),
        )
        if team is not None and team.suffix == ".toml":
            cell, team = dataclasses.replace(cell, model=read_team(team)), None
        if team is not None:
            saved = Cell.from_dict(read_description(team))
            cell = dataclasses.replace(cell, method=saved.method, model=saved.model)
    _run_cells([cell], out_folder, f"eval-{env_id}", as_json, weights=team, learn=False)


@app.command()
def train(
    context: typer.Context,
    env_id: Annotated[str | None, typer.Argument(help="Environment id; with --resume the run's when left out.")] = None,
    algorithm: Annotated[str, typer.Option(help="A registered learner or module:Class.")] = "magrpo",
    model: Model = "builtin:tiny",
    team: Annotated[
        Path | None, typer.Option(help="A .toml file that says who plays whom, instead of --model and --sharing.")
    ] = None,
    sharing: ShareOption = "separate",
    tasks: Tasks = "sample",
    eval_tasks: Annotated[
        str | None, typer.Option(help="File for the evaluation; else the test split of --tasks.")
    ] = None,
    field: Fields = None,
    turns: Turns = 1,
    env_option: EnvOption = None,
    steps: Annotated[int, typer.Option(help="Updates.")] = 40,
    prompts: Annotated[int, typer.Option(help="Tasks per update.")] = 8,
    group_size: Annotated[int, typer.Option(help="Episodes per task (G).")] = 4,
    items: Items = None,
    samples: Samples = 1,
    eval_every: Annotated[int, typer.Option(help="Evaluate every so many updates; 0: before and after only.")] = 0,
    temperature: Temperature = 1.0,
    top_p: TopP = 1.0,
    max_new_tokens: NewTokens = 128,
    lora_rank: Annotated[int, typer.Option(help="Rank of the adapters with --sharing lora.")] = 8,
    device: Device = "auto",
    dtype: Dtype = "auto",
    save_every: Annotated[
        int, typer.Option(help="Checkpoint after every so many updates; 0: after the last, and on a signal.")
    ] = 10,
    seed: Seed = 0,
    setting: Set = None,
    out_folder: Annotated[Path | None, typer.Option("--out", help="Folder of the run.")] = None,
    resume: Resume = None,
    other_versions: OtherVersions = False,
    as_json: Json = False,
) -> None:
    """Train a team and measure it before and after on the test rows.

    Examples: [bold]llm-dec-pomdp train tldr-v0 --steps 40[/]
              [bold]llm-dec-pomdp train --resume runs/my-run[/]
              [bold]llm-dec-pomdp train tldr-v0 --model model.gguf --sharing lora --tasks my.jsonl --field prompt=x[/]
              [bold]llm-dec-pomdp train tldr-v0 --team team.toml[/]
    """
    from .benchmarks.suite import (
        Cell,
        EnvironmentConfig,
        EvaluationConfig,
        MethodConfig,
        ModelConfig,
        SamplingConfig,
        read_team,
    )
    from .config import build
    from .training import TrainerConfig

    if env_id is None:
        with _usage():
            cell = _cell_to_resume(context, resume)
        _run_cells([cell], resume, resume.name if resume else "", as_json, resume=True, other_versions=other_versions)
        return
    with _usage():
        if not callable(getattr(find_algorithm(algorithm).load(), "update", None)):
            _stop(f"{algorithm!r} does not learn; train magrpo, grpo or a learner of your own, or measure it with eval")
        cell = Cell(
            EnvironmentConfig(
                id=env_id,
                tasks=tasks,
                eval_tasks=eval_tasks,
                fields=_mapping(field),
                max_turns=turns,
                options=_options(env_option),
            ),
            MethodConfig(name=algorithm, options=_options(setting)),
            read_team(team)
            if team is not None
            else build(
                ModelConfig,
                {"name": model, "sharing": sharing, "device": device, "dtype": dtype, "lora_rank": lora_rank},
                source="options",
            ),
            seed,
            SamplingConfig(temperature=temperature, top_p=top_p, max_new_tokens=max_new_tokens),
            TrainerConfig(steps=steps, prompts_per_step=prompts, group_size=group_size, save_every=save_every),
            EvaluationConfig(items=items, samples=samples, every=eval_every),
        )
    folder, again = resume or out_folder, resume is not None
    _run_cells([cell], folder, f"train-{env_id}", as_json, resume=again, other_versions=other_versions)


def _cell_to_resume(context: typer.Context, folder: Path | None) -> Cell:
    """The only cell of a run, when nothing but its folder was given."""
    from .benchmarks.suite import Cell

    if folder is None:
        _stop("give an environment id to train on, see `llm-dec-pomdp list`, or a run to go on with: --resume RUN")
    free = {"resume", "other_versions", "as_json"}
    given = [name for name in context.params if name not in free and _was_given(context, name)]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        _stop(f"{options}: --resume takes the options of the run; give none of your own, or the environment and all")
    cells = sorted(folder.glob("cells/*/cell.json"))
    if not cells:
        _stop(f"{str(folder)!r} says not yet what it was to train; give the environment and all options with --resume")
    if len(cells) != 1:
        _stop(
            f"{str(folder)!r} holds {len(cells)} trainings, not one; a benchmark goes on with bench --resume {folder}"
        )
    return Cell.from_dict(json.loads(cells[0].read_text(encoding="utf-8")))


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@app.command(epilog=_suites())
def bench(
    suite_name: Annotated[
        str | None, typer.Argument(metavar="SUITE", help="A suite by name (quick when left out), or a .toml file.")
    ] = None,
    algorithm: Annotated[list[str] | None, typer.Option(help="A further method: a name or module:Class.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="Models instead of the suite's.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Seeds instead of the suite's.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="Override, e.g. training.steps=10.")] = None,
    out_folder: Annotated[Path | None, typer.Option("--out", help="Folder of the run.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder: finished cells stay.")] = None,
    other_versions: OtherVersions = False,
    jobs: Annotated[int, typer.Option(min=1, help="Cells at once; they share the machine.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what it would cost.")] = False,
    as_json: Json = False,
) -> None:
    """Compare methods: train what learns, measure all on the same tasks, write a report.

    Examples: [bold]llm-dec-pomdp bench quick[/]
              [bold]llm-dec-pomdp bench paper --dry-run[/]
              [bold]llm-dec-pomdp bench --resume runs/my-bench[/]
              [bold]llm-dec-pomdp bench quick --algorithm my_module:MyLearner --seed 0 --seed 1[/]
    """
    from .benchmarks.estimate import estimate_table, estimates
    from .benchmarks.suite import MethodConfig, check_methods, load_suite, saved_suite

    with _usage():
        if resume is not None and suite_name is None:
            suite = saved_suite(resume, setting or [])
        else:
            suite = load_suite(suite_name or "quick", setting or [])
        changes: dict[str, Any] = {}
        if algorithm:
            changes["methods"] = [*suite.methods, *(MethodConfig(name=name) for name in algorithm)]
        if model:
            changes["models"] = [suite.models[0].model_copy(update={"name": name}) for name in model]
        if seed:
            changes["seeds"] = seed
        suite = suite.model_copy(update=changes)
        check_methods(suite.cells())
    if dry_run:
        cells = suite.cells()
        with _usage():
            found = estimates(cells)
        if as_json:
            _print_json([dataclasses.asdict(e) for e in found])
        else:
            out.print(estimate_table(suite, cells, found))
        return
    from .benchmarks.progress import bars
    from .benchmarks.report import tables
    from .benchmarks.runner import new_run_folder, run_suite

    folder = resume or out_folder or new_run_folder(suite.name)
    with _failure(folder), bars(err, quiet=as_json) as progress:
        run = run_suite(suite, folder, progress, jobs=jobs, resume=resume is not None, other_versions=other_versions)
    failures = {entry.cell.label: entry.failure for entry in run.entries if entry.result is None}
    if as_json:
        results = [result.to_dict() for result in run.results]
        _print_json({"folder": str(folder), "results": results, "failures": failures})
    else:
        for table in tables(run.results, run.entries):
            out.print(table)
        out.print(f"Report, pictures and every episode: {folder}/report.html", highlight=False)
    if failures:
        raise typer.Exit(1)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    out_folder: Annotated[Path | None, typer.Option("--out", help="Where it goes; the folder of a single run.")] = None,
    allow_mixed: Annotated[bool, typer.Option("--allow-mixed", help="Report what does not compare too.")] = False,
    as_json: Json = False,
) -> None:
    """Write report.html and report.md again, or for several runs together; say which differences are within noise.

    Examples: [bold]llm-dec-pomdp report runs/quick-20260101-120000[/]
              [bold]llm-dec-pomdp report runs/mine runs/theirs --out compared[/]
    """
    from .benchmarks.compare import pairs, verdict
    from .benchmarks.report import comparison_table, report_runs

    if out_folder is None and len(runs) > 1:
        _stop("give a folder for the report of several runs with --out")
    folder = out_folder or runs[0]
    with _failure(folder):
        found, warnings = report_runs(runs, folder, allow_mixed=allow_mixed)
    if as_json:
        compared = [
            {
                "environment": a.environment,
                "method": a.name,
                "against": b.name,
                "points": dataclasses.asdict(d.points),
                "verdict": verdict(d),
            }
            for a, b, d in pairs(found)
        ]
        _print_json({"folder": str(folder), "warnings": warnings, "differences": compared})
        return
    for warning in warnings:
        err.print(f"[yellow]does not compare:[/] {escape(warning)}", highlight=False)
    out.print(comparison_table(found))
    out.print(f"Report: {folder}/report.html", highlight=False)


def _run_cells(
    cells: list[Cell],
    folder: Path | None,
    name: str,
    as_json: bool,
    weights: Path | None = None,
    *,
    learn: bool = True,
    resume: bool = False,
    other_versions: bool = False,
) -> None:
    """Run cells into one folder and show what came out."""
    from .benchmarks.cell import run_cell
    from .benchmarks.progress import bars
    from .benchmarks.report import write_report
    from .benchmarks.runner import new_run_folder, run_folder, write_results

    folder = folder or new_run_folder(name)
    with _failure(folder), bars(err, quiet=as_json) as progress, run_folder(folder, resume=resume):
        results = [
            run_cell(cell, folder / "cells" / cell.label, progress, weights, learn=learn, other_versions=other_versions)
            for cell in cells
        ]
        write_results(folder, results)
        write_report(folder)
    _show(results, folder, as_json)


def _show(results: list[Result], folder: Path, as_json: bool) -> None:
    from .benchmarks.report import tables

    if as_json:
        _print_json({"folder": str(folder), "results": [result.to_dict() for result in results]})
        return
    for table in tables(results):
        out.print(table)
    out.print(f"Report, pictures and every episode: {folder}/report.html", highlight=False)


# --- looking back -------------------------------------------------------------------------------------------------


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of runs, or of one run.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """List runs: running, preempted, failed (and why) or done, how far they are, and what they earn.

    Example: [bold]llm-dec-pomdp runs runs[/]
    """
    from .benchmarks.listing import list_runs

    with _usage():
        found = list_runs(folder)
    if as_json:
        _print_json([dataclasses.asdict(run) for run in found])
        return
    table = Table()
    for header in ("run", "status", "step", "return", "age", "reason"):
        table.add_column(header, overflow="fold")
    for run in found:
        earned = "" if run.mean_return is None else f"{run.mean_return:.2f}"
        row = (run.name, run.status, f"{run.step}/{run.steps}", earned, run.age_text, run.reason)
        table.add_row(*(escape(text) for text in row))
    out.print(table)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or of one of its cells.")],
    place: Annotated[Path, typer.Argument(metavar="OUT", help="New folder; one folder per agent goes into it.")],
) -> None:
    """Write a trained team as plain folders of transformers or peft, with tokenizer and model card.

    Example: [bold]llm-dec-pomdp export runs/my-run my-team[/]
    """
    from .benchmarks.export import export_run

    with _usage():
        try:
            source, agents = export_run(run, place)
        except OSError as error:
            _stop(str(error), code=1)
    out.print(f"{', '.join(agents)} from {source} in {place}", highlight=False)


# --- plumbing -----------------------------------------------------------------------------------------------------


def _mapping(pairs: list[str] | None) -> dict[str, str]:
    mapping: dict[str, str] = {}
    for pair in pairs or []:
        name, equals, column = pair.partition("=")
        if not (name and equals and column):
            _stop(f"--field {pair!r} is not of the form name=column, e.g. --field prompt=abstract")
        mapping[name] = column
    return mapping


def _options(settings: list[str] | None) -> dict[str, Any]:
    """`key=value` settings, read as TOML values."""
    from .config import override

    return override({}, settings or [])


def _field_options(pairs: list[str] | None) -> dict[str, Any]:
    mapping = _mapping(pairs)
    return {"fields": mapping} if mapping else {}


def _stop(message: str, code: int = 2) -> NoReturn:
    err.print(f"[red]error:[/] {escape(message)}", highlight=False)
    raise typer.Exit(code)


@contextlib.contextmanager
def _usage() -> Generator[None]:
    """Wrong names, files and values end with a sentence and exit code 2."""
    try:
        yield
    except (ValueError, KeyError, IndexError, ImportError) as error:
        _stop(str(error.args[0]) if isinstance(error, KeyError) else str(error))


@contextlib.contextmanager
def _failure(folder: Path) -> Generator[None]:
    """Work that cannot start or go on ends with a sentence: exit code 2 for input, 3, 75 and 1 for the rest."""
    from .algorithms.memory import OutOfDeviceMemoryError
    from .runfolder import Interrupted
    from .training import DivergedError, TrainingError, stopping_at_once

    try:
        with stopping_at_once(), _usage():
            yield
    except Interrupted as stop:
        command = "bench" if (folder / "suite.json").exists() else "train"
        err.print(f"stopped ({stop.reason}); go on with: llm-dec-pomdp {command} --resume {folder}", highlight=False)
        raise
    except DivergedError as error:
        _stop(str(error), code=3)
    except (TrainingError, OutOfDeviceMemoryError, OSError) as error:
        _stop(str(error), code=1)


def _print_json(value: Any) -> None:
    print(json.dumps(_finite(value), indent=1))  # noqa: T201  # for machines: no wrapping, no colour


def _finite(value: Any) -> Any:
    """NaN has no JSON form: null instead."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_finite(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return None if isinstance(value, float) and math.isnan(value) else value


def main() -> None:
    """Entry point of the `llm-dec-pomdp` command."""
    app()
