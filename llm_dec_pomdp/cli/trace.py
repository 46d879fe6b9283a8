"""The commands `trace export | import | validate | replay | stats | view`, for traces of episodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..printable import plain
from ..registries import nearest
from .console import err, out, print_json, print_table, stop, usage
from .options import Command, Group, Json, Out, output
from .trust import Trust, allow, typed

if TYPE_CHECKING:
    from ..envs.base import TextDecPOMDP
    from ..episodes import Trace

app = typer.Typer(
    cls=Group,
    help="Export, import, validate, replay, count and show traces: the recorded observations, actions and rewards of "
    "episodes.",
    no_args_is_help=True,
)

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files with one trace in each line.")]


@app.command(cls=Command)
def export(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run, or with --to otel also a file of traces.")
    ],
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
    to: Annotated[
        str, typer.Option(help="traces, or otel: spans of OpenTelemetry, one OTLP JSON document in each line.")
    ] = "traces",
    trust: Trust = False,
) -> None:
    """Write the evaluation episodes of a run as traces.

    Examples: [bold]llm-dec-pomdp trace export runs/my-run traces.jsonl[/]
              [bold]llm-dec-pomdp trace export traces.jsonl spans.jsonl --to otel[/]
    """
    from ..episodes import read_whole, write, write_otel
    from ..results.runs import read_run
    from ..results.traces import last_episodes

    place = output(place, out_file)
    if to not in ("traces", "otel"):
        stop(f"--to is {to!r}, which does not exist; {nearest(to, ('traces', 'otel'))}")
    if to == "otel" and (token_ids or texts == "hashed"):
        stop("spans hold neither token ids nor references; with --to otel leave out --token-ids and --texts hashed")
    with usage():
        if to == "otel" and run.is_file():
            traces = _valid(run, read_whole)
        else:
            read = read_run(run)
            allow([entry.cell for entry in read.entries], run, trust=trust)
            traces = last_episodes(read, token_ids=token_ids)
        try:
            if to == "otel":
                count = write_otel(traces, place, texts=texts == "inline")
            else:
                count = write(traces, place, texts, token_ids=token_ids)  # type: ignore[arg-type]
        except OSError as error:
            stop(str(error), code=2 if isinstance(error, FileExistsError) else 1)
    out.print(f"wrote {count} traces to {place}")


@app.command("import", cls=Command)
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Log of another system.")],
    place: Annotated[Path | None, typer.Argument(metavar="OUT", help="New file of traces.")] = None,
    out_file: Out = None,
    system: Annotated[
        str,
        typer.Option(
            "--from",
            help="otel: spans of OpenTelemetry with its conventions for generative AI, as OTLP JSON. openai-agents: "
            "spans of the OpenAI Agents SDK, as JSON lines.",
        ),
    ] = "otel",
) -> None:
    """Convert the log of any agent system to traces, for the commands validate, stats and view.

    Example: [bold]llm-dec-pomdp trace import spans.jsonl traces.jsonl --from otel[/]
    """
    from ..episodes import TraceWriter, read_openai_agents, read_otel
    from ..episodes import stats as stats_of

    place = output(place, out_file)
    readers = {"otel": read_otel, "openai-agents": read_openai_agents}
    if system not in readers:
        stop(f"--from is {system!r}, which does not exist; {nearest(system, readers)}")
    known: dict[str, bool] = {}
    with usage():
        try:
            with TraceWriter(place) as writer:
                for trace in _traces(file, readers[system]):
                    writer.write(trace)
                    for name, value in stats_of(trace).items():
                        known[name] = known.get(name, False) or not math.isnan(value)
                if not known:
                    stop(f"{str(file)!r} has no span of an agent or a model; docs/traces.md says which spans are read")
        except OSError as error:
            stop(str(error), code=2 if isinstance(error, FileExistsError) else 1)
    out.print(f"wrote {writer.count} traces to {place}")
    if missing := [name for name, found in known.items() if not found]:
        out.print(f"the spans do not say: {', '.join(missing)} (NaN in trace stats)")


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
    """Yield the traces of a file; exit with an error message if one is not a graph of events in temporal order."""
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
