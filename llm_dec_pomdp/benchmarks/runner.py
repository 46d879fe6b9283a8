"""Run a suite: a process per cell, into one folder that can be taken up again.

A cell is done when its `result.json` is there and was made with the same configuration. Whatever else a cell's folder
holds is from an attempt that ended early, so a kill in the middle loses at most the cells that ran. A cell that fails
leaves `failure.json` with its reason, and the others go on.

Processes are forked from one that has imported torch and started nothing, so a cell costs no second import, returns all
of its memory, and can be killed alone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import shlex
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..config import ConfigError
from ..storage.files import replace_json
from ..storage.runfolder import STATUS, open_run
from ..storage.signals import Interrupted, exit_reason, stopping_at_once
from ..visible import visible
from .cell import Result, run_cell
from .checks import check_cells
from .progress import Advance, LogLines, Progress
from .provenance import versions
from .report import write_report
from .runs import Entry, Run, is_done, read_entry, read_run
from .suite import Cell, Suite, Tracker, clean, conflicts

_PRELOAD = ["torch", "transformers", "peft", "llm_dec_pomdp.benchmarks.cell"]


def new_run_folder(name: str, parent: Path = Path("runs")) -> Path:
    """A folder name that is not taken yet: `runs/<name>-<date>-<time>`."""
    stem = f"{clean(name, '._-')}-{time.strftime('%Y%m%d-%H%M%S')}"
    candidates = (parent / (stem + suffix) for suffix in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(candidate for candidate in candidates if not candidate.exists())


def run_suite(
    suite: Suite,
    folder: Path,
    progress: Progress,
    *,
    jobs: int = 1,
    resume: bool = False,
    other_versions: bool = False,
    overwrite: bool = False,
) -> Run:
    """Run all cells that are not done and write the report.

    Args:
        suite: What to run.
        folder: Of this run; new, unless it is resumed.
        progress: Shows what is going on.
        jobs: Cells at once. More than one share the machine: their times are not those of a cell alone.
        resume: Go on with a folder that holds some cells already; a cell that was training goes on from its newest
            checkpoint, and one that wants more steps goes on to them.
        other_versions: Go on from checkpoints although packages have changed since.
        overwrite: When resuming, run cells of another configuration again; what they had is removed.

    Returns:
        The run, read back: results, and reasons where there is none.

    Raises:
        FileExistsError: The folder holds something already and `resume` is False.
        ConfigError: It holds cells that the suite has otherwise or not at all, and `overwrite` is False.
    """
    cells = suite.cells()
    check_cells(cells)
    if resume and not overwrite:
        _refuse_changes(cells, folder)
    with run_folder(folder, resume=resume):
        replace_json(folder / "suite.json", suite.model_dump())
        replace_json(folder / "order.json", [cell.label for cell in cells])
        waiting = [cell for cell in cells if not is_done(folder / "cells" / cell.label, cell)]
        done = [read_entry(folder / "cells" / cell.label / "cell.json", "") for cell in cells if cell not in waiting]
        results = [entry.result for entry in done if entry.result is not None]
        with progress.stage(f"suite {suite.name}", len(cells)) as advance:
            advance(len(cells) - len(waiting), "")
            lock = threading.Lock()
            apart = _Apart(suite.tracking, jobs, other_versions=other_versions, traces=suite.traces)

            def work(cell: Cell) -> None:
                apart.run(cell, folder / "cells" / cell.label, progress)
                with lock:
                    entry = read_entry(folder / "cells" / cell.label / "cell.json", "")
                    results.extend([entry.result] if entry.result is not None else [])
                    write_results(folder, results)
                    progress.say(_outcome(entry))
                    advance(1, "")

            with ThreadPoolExecutor(max(jobs, 1)) as threads:
                try:
                    for future in [threads.submit(work, cell) for cell in waiting]:
                        future.result()
                except BaseException:  # a signal, most of all: every cell finishes its step and saves
                    threads.shutdown(wait=False, cancel_futures=True)
                    apart.stop()
                    raise
        run = read_run(folder)
        write_results(folder, run.results)  # in order
        write_report(folder)
    return run


def _outcome(entry: Entry) -> str:
    """What came out of a cell, in a line."""
    if entry.result is None:
        return f"{entry.cell.label}: no result, {entry.failure.partition(chr(10))[0]}"
    return f"{entry.cell.label}: return {entry.result.summary.return_percent.mean:.1f} %"


def _refuse_changes(cells: Sequence[Cell], folder: Path) -> None:
    """Finished work is removed only when that was asked for."""
    wanted = {cell.label: cell for cell in cells}
    changed: dict[str, str] = {}  # what differs -> the first cell in which it does
    left_out: list[str] = []
    for path in sorted(folder.glob("cells/*/cell.json")):
        there = Cell.from_dict(json.loads(path.read_text(encoding="utf-8")))
        if there.label in wanted:
            for line in conflicts(there, wanted[there.label]):
                changed.setdefault(line, there.label)
        else:
            left_out.append(there.label)
    said = [f"{line} (as in {label})" for line, label in changed.items()]
    said += [f"without its cells {', '.join(left_out)}"] if left_out else []
    if said:
        raise ConfigError(
            f"{str(folder)!r} was run with another suite (there -> here): {'; '.join(said)}; resume with the suite of "
            "the run, give a new folder with --out, or --overwrite, which removes what changed cells had and runs "
            "them again"
        )


@contextlib.contextmanager
def run_folder(folder: Path, *, resume: bool = False) -> Generator[None]:
    """Hold a run folder, with the versions of what runs in it and the commands that did; see `open_run`.

    Args:
        folder: A new or empty folder, unless `resume`.
        resume: Go on with the run that is there; where none is there yet, begin it.

    Raises:
        FileExistsError: It holds something already, and it is not to be resumed.
    """
    with open_run(folder, resume=resume and (folder / STATUS).exists()):
        if not (folder / "versions.json").exists():
            replace_json(folder / "versions.json", versions())
        with (folder / "commands.txt").open("a", encoding="utf-8") as file:
            command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
            file.write(visible(command.replace("\n", "\\n")) + "\n")
        yield


def write_results(folder: Path, results: Sequence[Result]) -> None:
    """All results so far in `results.json`."""
    replace_json(folder / "results.json", [r.to_dict() for r in results])


# --- a process per cell -----------------------------------------------------------------------------------------------


class _Apart:
    """Runs cells, each in a process of its own; whatever ends it, its folder tells what came out.

    Args:
        tracking: Where the numbers of a training run also go.
        jobs: Cells at once.
        other_versions: Go on from checkpoints although packages have changed since.
        traces: Write the traces of every evaluation.
    """

    def __init__(self, tracking: Sequence[Tracker], jobs: int, *, other_versions: bool, traces: bool) -> None:
        self._threads = max(1, (os.cpu_count() or 1) // jobs) if jobs > 1 else 0
        self._options = {"tracking": list(tracking), "other_versions": other_versions, "traces": traces}
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_PRELOAD)
        self._running: set[Any] = set()
        self._stopped = False

    def run(self, cell: Cell, folder: Path, progress: Progress) -> None:
        """Run one cell, or what is missing of it."""
        _make_room(cell, folder)
        ours, theirs = self._context.Pipe(duplex=False)
        arguments = (cell.to_dict(), str(folder), self._options, self._threads, theirs)
        process = self._context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        self._running.add(process)
        theirs.close()
        if self._stopped:
            process.terminate()
        _forward(ours, progress)
        process.join()
        self._running.discard(process)
        if not (folder / "result.json").exists() and not (folder / "failure.json").exists():
            replace_json(folder / "failure.json", {"reason": _how_it_ended(process.exitcode or 0)})

    def stop(self) -> None:
        """Ask every running cell to finish its step, save, and end."""
        self._stopped = True
        for process in list(self._running):
            process.terminate()


def _make_room(cell: Cell, folder: Path) -> None:
    """Keep what an attempt at this cell left, for its checkpoints; remove that of another configuration."""
    description = folder / "cell.json"
    there = Cell.from_dict(json.loads(description.read_text(encoding="utf-8"))) if description.exists() else None
    if there is None or conflicts(there, cell):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        replace_json(description, cell.to_dict())
    for name in ("result.json", "failure.json"):
        (folder / name).unlink(missing_ok=True)


def _how_it_ended(code: int) -> str:
    if code == Interrupted.CODE:
        return "stopped by a signal, goes on with bench --resume"
    return f"its process ended with {exit_reason(code)}"


def _work(values: dict[str, Any], folder: str, options: dict[str, Any], threads: int, said: Connection) -> None:
    """In the process: run the cell, and write why it failed where it does."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all its processes; the runner passes it on
    progress = _Remote(said)
    logging.getLogger("llm_dec_pomdp").addHandler(LogLines(progress.say))
    try:
        if threads:
            import torch

            torch.set_num_threads(threads)
        with stopping_at_once(progress.say, [signal.SIGTERM]):
            run_cell(Cell.from_dict(values), Path(folder), progress, **options)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        replace_json(Path(folder) / "failure.json", {"reason": reason, "traceback": traceback.format_exc()})


def _leave_with_parent() -> None:
    """A cell must not outlive its runner: another one may take its folder."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Remote:
    """Tells the runner about stages."""

    def __init__(self, said: Connection) -> None:
        self._said = said
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def stage(self, label: str, total: int) -> Generator[Advance]:
        """A stage that the runner shows."""
        self._send("begin", label, total)
        yield lambda units, note: self._send("advance", units, note)
        self._send("end")

    def say(self, text: str) -> None:
        """A line that the runner shows."""
        self._send("say", text)

    def _send(self, *what: str | int) -> None:
        with self._lock:
            self._said.send(what)


def _forward(said: Connection, progress: Progress) -> None:
    """Show the stages that a process tells of, until it ends."""
    stages: list[tuple[ExitStack, Advance]] = []
    with contextlib.suppress(EOFError, OSError):
        while True:
            match said.recv():
                case ("begin", label, total):
                    shown = ExitStack()
                    stages.append((shown, shown.enter_context(progress.stage(label, total))))
                case ("advance", units, note):
                    stages[-1][1](units, note)
                case ("say", text):
                    progress.say(text)
                case _:
                    stages.pop()[0].close()
    for shown, _ in reversed(stages):
        shown.close()
