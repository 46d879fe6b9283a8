"""The commands `trace export | validate | replay | stats | view`, for traces of episodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..printable import plain
from .console import err, out, print_json, print_table, stop, usage
from .options import Command, Group, Json, Out, output
from .trust import Trust, allow, typed

if TYPE_CHECKING:
    from ..envs.base import TextDecPOMDP
    from ..episodes import Trace

app = typer.Typer(
    cls=Group,
    help="Export, validate, replay, count and show traces: the recorded observations, actions and rewards of episodes.",
    no_args_is_help=True,
)

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files with one trace in each line.")]


@app.command(cls=Command)
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    place: Annotated[
        Path | None,
        typer.Argument(metavar="OUT", help="New file. With --texts hashed, also OUT.content.sqlite in its folder."),
    ] = None,
    out_file: Out = None,
    texts: Annotated[
        str, typer.Option(help="inline, hashed (each text once, in OUT.content.sqlite), or none.")
    ] = "inline",
    token_ids: Annotated[
        bool,
        typer.Option("--token-ids", help="Include token ids and log-probabilities. The run needs the option --traces."),
    ] = False,
    trust: Trust = False,
) -> None:
    """Write the evaluation episodes of a run as traces.

    Example: [bold]llm-dec-pomdp trace export runs/my-run traces.jsonl[/]
    """
    from ..results.runs import read_run
    from ..results.traces import export as export_run

    place = output(place, out_file)
    with usage():
        read = read_run(run)
        allow([entry.cell for entry in read.entries], run, trust=trust)
        try:
            count = export_run(read, place, texts, token_ids=token_ids)  # type: ignore[arg-type]
        except OSError as error:
            stop(str(error), code=2 if isinstance(error, FileExistsError) else 1)
    out.print(f"wrote {count} traces to {place}")


@app.command(cls=Command)
def validate(files: Files) -> None:
    """Check traces and print every problem with its event and field.

    Traces of this package must be replayable. Traces of other systems must follow the published schema.

    Example: [bold]llm-dec-pomdp trace validate traces.jsonl[/]
    """
    from ..episodes import ContentStore, read, store_of
    from ..episodes import validate as problems_of
    from ..episodes.validate import profile_of
    from ..storage.reading import is_there

    found = Counter[str]()
    with usage(), ExitStack() as opened:
        for path in files:
            place = store_of(path)
            store = opened.enter_context(ContentStore(place)) if is_there(place) else None
            for number, trace in enumerate(_traces(path, read), 1):
                profile = profile_of(trace)
                problems = problems_of(trace, profile, store)
                found["wrong" if problems else profile] += 1
                for problem in problems:
                    err.print(plain(f"{path}, trace {number}: {problem}"), soft_wrap=True)
    out.print(
        f"{found.total()} traces: {found['replayable']} replayable, {found['schema']} valid by the published schema, "
        f"{found['wrong'] or 'none'} wrong"
    )
    if found["wrong"]:
        raise typer.Exit(1)


@app.command(cls=Command)
def replay(files: Files, trust: Trust = False) -> None:
    """Play the recorded actions again and compare every observation, reward and component, bit for bit.

    Example: [bold]llm-dec-pomdp trace replay traces.jsonl[/]
    """
    from ..episodes import TraceError, read_whole
    from ..rollout import replay as play_again

    different = count = 0
    with usage():
        for path in files:
            for number, trace in enumerate(_traces(path, read_whole), 1):
                count += 1
                try:
                    difference = play_again(trace, _trusted(trace) if trust else None)
                except TraceError as error:
                    stop(f"{path}, trace {number}: {error}")
                if difference:
                    different += 1
                    err.print(plain(f"{path}, trace {number}: {difference}"), soft_wrap=True)
    out.print(f"{count} traces, {different or 'none'} of them with differences")
    if different:
        raise typer.Exit(1)


@app.command(cls=Command)
def stats(files: Files, as_json: Json = False) -> None:
    """Print statistics on outcome, efficiency, coordination and robustness, as means over the traces of each file.

    Example: [bold]llm-dec-pomdp trace stats traces.jsonl[/]
    """
    from ..episodes import read_whole
    from ..episodes.stats import DIMENSIONS

    with usage():
        by_file = {str(path): _means(_valid(path, read_whole)) for path in files}
    if as_json:
        print_json(by_file)
        return
    rows: list[list[str]] = []
    for dimension, names in DIMENSIONS.items():
        for name in names:
            means = (mean.get(name, math.nan) for mean in by_file.values())
            rows.append([dimension, name, *("-" if math.isnan(mean) else f"{mean:.4g}" for mean in means)])
    print_table(["", "statistic", *by_file], rows)


@app.command(cls=Command)
def view(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of traces.")],
    place: Annotated[Path | None, typer.Argument(metavar="OUT", help="New page. Default: FILE.html.")] = None,
    out_file: Out = None,
) -> None:
    """Write one HTML page that shows the traces over time: agents, messages, texts, rewards and costs.

    Example: [bold]llm-dec-pomdp trace view traces.jsonl[/]
    """
    from ..episodes import read_whole
    from ..report.viewer.page import render
    from ..storage.files import replace
    from ..storage.reading import LONGEST

    place = output(place, out_file, Path(f"{file}.html"))
    if file.is_file() and (size := file.stat().st_size) > LONGEST:
        stop(f"{str(file)!r} has {size / 1e6:.0f} MB, and a page at most {LONGEST >> 20} MB; give fewer traces")
    with usage():
        try:
            replace(place, render(list(_valid(file, read_whole))).encode("utf-8", "backslashreplace"))
        except OSError as error:
            stop(f"{str(place)!r} cannot be written ({error.strerror}); give another path", code=1)
    out.print(f"open the page: python -m webbrowser {place.resolve().as_uri()}", soft_wrap=True)


def _traces(path: Path, reader: Any) -> Iterator[Trace]:
    """Yield the traces of a file; exit with an error message if it cannot be read."""
    try:
        yield from reader(path)
    except OSError as error:
        stop(f"{str(path)!r} cannot be read ({error.strerror}); give a file of traces")


def _trusted(trace: Trace) -> TextDecPOMDP:
    """Return the environment of a trace; load its module even if only the trace names it."""
    from ..episodes import check, environment_of

    check(trace)
    header = trace["events"][0]["header"]
    typed(header["environment"]["id"])
    return environment_of(header, trusted=True)


def _valid(path: Path, reader: Any) -> Iterator[Trace]:
    """Yield the traces of a file; exit with an error message if one is no graph of events ordered in time."""
    from ..episodes import TraceError, check_graph

    for number, trace in enumerate(_traces(path, reader), 1):
        try:
            check_graph(trace)
        except TraceError as error:
            stop(f"{path}, trace {number}: {error}")
        yield trace


def _means(traces: Iterable[Trace]) -> Mapping[str, float]:
    """Return the mean of each statistic over the traces that have it; NaN if none has it."""
    from ..episodes import stats as stats_of
    from ..types import known_means

    counted = [stats_of(trace) for trace in traces]
    names = (name for counts in counted for name in counts)
    return {"traces": len(counted), **dict.fromkeys(names, math.nan), **known_means(counted)}
