"""The command `bench`: run a suite."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from .console import err, failure, out, print_json, show_report, stop, usage
from .options import Address, Command, Json, OtherVersions, Traces, Track, algorithms, check_executor, suites
from .trust import Trust, allow, typed


class WithSuites(Command):
    """A command whose help page ends with the built-in suites; their files are read only for this page."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # newer releases of typer have their own types for these
        """Add the suites to the help page."""
        from ..benchmarks.suite import about_suites

        listed = [f"[bold]{name}[/]: {about}" for name, about in about_suites().items()]
        self.epilog = "\n\n".join(["[bold]Suites[/]", *listed])
        super().format_help(ctx, formatter)


def bench(
    suite_name: Annotated[
        str | None,
        typer.Argument(
            metavar="SUITE",
            help="Name of a suite, or a .toml file. Default: quick.",
            autocompletion=suites,
        ),
    ] = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option(help="Add a method to the suite: a name or module:Class.", autocompletion=algorithms),
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="Use this model in place of the models of the suite.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Use this seed in place of the seeds of the suite.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change an option of the suite, in all environments, e.g. training.steps=10."),
    ] = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results. Default: a new folder in runs/.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Resume the benchmark in this folder; finished runs are kept.")
    ] = None,
    other_versions: OtherVersions = False,
    trust: Trust = False,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="With --resume: repeat the runs whose configuration has changed."),
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs at the same time on each machine.")] = 1,
    executor: Annotated[
        str, typer.Option(help="Backend for the runs: processes (on this machine) or ray.")
    ] = "processes",
    address: Address = None,
    track: Track = None,
    traces: Traces = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print the runs with their estimated tokens, time and memory.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a suite: train its learners, evaluate all methods on the same tasks, and write a report.

    A suite lists environments, methods, models and seeds. Each combination of them is one run.

    Examples: [bold]llm-dec-pomdp bench quick[/]
              [bold]llm-dec-pomdp bench paper --dry-run[/]
              [bold]llm-dec-pomdp bench --resume runs/my-bench[/]
              [bold]llm-dec-pomdp bench quick --algorithm my_module:MyLearner --seed 0 --seed 1[/]
    """
    from ..benchmarks.cell_workers import transport_of
    from ..benchmarks.checks import check_methods
    from ..benchmarks.estimate import complete, estimate_table, estimates
    from ..benchmarks.suite import MethodConfig, load_suite, saved_suite
    from ..training.tracking import check_trackers

    if overwrite and resume is None:
        stop("--overwrite is for --resume RUN; a new benchmark has nothing to overwrite, so leave it out")
    check_executor(executor, address)
    with usage():
        if executor != "processes":  # other backends need a package that may be missing; this import loads torch
            transport_of(executor)
        name = suite_name or ("quick" if resume is None else "")
        suite = load_suite(name, setting or []) if name else saved_suite(resume or Path(), setting or [])
        allow(suite.written_cells(), resume or Path(name), trust=trust)
        changes: dict[str, Any] = {}
        if algorithm:
            changes["methods"] = [*suite.methods, *(MethodConfig(name=name) for name in algorithm)]
        if model:
            suite = suite.in_all_environments({"model": ["name"]})
            changes["models"] = [suite.models[0].model_copy(update={"name": name}) for name in model]
        if seed:
            changes["seeds"] = seed
            changes["environments"] = [env.model_copy(update={"seeds": []}) for env in suite.environments]
        if traces:
            changes["traces"] = True
        if track:
            changes["tracking"] = check_trackers(track)
        suite = suite.model_copy(update=changes)
        typed(*(algorithm or ()))
    if dry_run:
        cells = suite.cells()
        with usage():
            check_methods(cells)
            cells = complete(cells)
            estimated = estimates(cells)
        if as_json:
            print_json([dataclasses.asdict(estimate) for estimate in estimated])
        else:
            out.print(estimate_table(suite, cells, estimated))
        return
    from ..benchmarks.runner import run_suite
    from ..progress import shown
    from ..report.findings import findings
    from ..report.terminal import summary
    from ..report.text import write_report
    from ..results.runs import read_run
    from ..storage.runfolder import new_run_folder

    folder = resume or out_folder or new_run_folder(suite.name)
    with failure(folder), shown(err, quiet=as_json) as progress:
        run_suite(
            suite,
            folder,
            progress,
            jobs=jobs,
            resume=resume is not None,
            other_versions=other_versions,
            overwrite=overwrite,
            executor=executor,
            address=address,
        )
        write_report(folder)
    run = read_run(folder)
    failures = {entry.cell.label: entry.failure for entry in run.entries if entry.result is None}
    found = findings(run.entries)
    if as_json:
        results = [result.to_dict() for result in run.results]
        print_json({"folder": str(folder), "results": results, **found.to_dict(), "failures": failures})
    else:
        show_report(summary(found, run.entries, out.width), folder)
    if failures:
        raise typer.Exit(1)
