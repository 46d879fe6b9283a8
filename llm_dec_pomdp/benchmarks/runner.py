"""Run a suite: each cell apart from the others, into one folder that can be taken up again.

A cell is done when it has a `result.json` of the same configuration. Everything else in its folder is of an attempt
that ended early, so that a kill loses at most the cells that were running. A cell that fails leaves `failure.json` with
its reason and `traceback.txt`, and the others go on.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..config import ConfigError
from ..printable import escape_controls
from ..progress import Progress, time_left
from ..storage.files import replace_json
from ..storage.reading import is_there, open_to_append, read_json
from ..storage.runfolder import STATUS, open_run
from ..storage.secrets import masked
from ..training.tracking import check_trackers
from .cell_workers import CellWorkers, transport_of
from .checks import check_cells
from .provenance import versions
from .result import Result, cells_in, failure_in, find_result, is_done
from .suite import Cell, Suite, conflicts


def run_suite(
    suite: Suite,
    folder: Path,
    progress: Progress,
    *,
    jobs: int = 1,
    resume: bool = False,
    other_versions: bool = False,
    overwrite: bool = False,
    executor: str = "processes",
    address: str | None = None,
) -> None:
    """Run all cells that are not done, and write down their results.

    Args:
        suite: What to run.
        folder: Of this run; new, unless it is resumed.
        progress: Shows what is going on.
        jobs: Cells at once on one machine. They share it, so that their times are longer than those of a cell alone.
        resume: Go on with a folder that holds some cells already; a cell that was training, or wants more steps, goes
            on from its newest checkpoint.
        other_versions: Go on from checkpoints although packages have changed since.
        overwrite: When resuming, run cells of another configuration again; what they had is removed.
        executor: Where cells run; a name of `training.workers.executors` that has workers.
        address: Of a cluster of Ray, with that executor.

    Raises:
        FileExistsError: The folder holds something already and `resume` is False.
        ConfigError: It holds cells that differ from those of the suite or that it lacks, and `overwrite` is False.
    """
    check_trackers(suite.tracking)
    cells = check_cells(suite.cells())
    if resume and not overwrite:
        _refuse_changes(cells, folder)
    options = {"tracking": list(suite.tracking), "other_versions": other_versions, "traces": suite.traces}
    connect = transport_of(executor)
    with connect(**({"address": address} if address else {})) as transport, run_folder(folder, resume=resume):
        workers = CellWorkers(transport, jobs, options)
        replace_json(folder / "suite.json", suite.model_dump())
        replace_json(folder / "order.json", [cell.label for cell in cells])
        folders = {cell.label: folder / "cells" / cell.label for cell in cells}
        waiting = [cell for cell in cells if not is_done(folders[cell.label], cell)]
        results = [find_result(folders[cell.label]) for cell in cells if cell not in waiting]
        with progress.stage(f"suite {suite.name}", len(cells), len(cells) - len(waiting)) as advance:
            lock, started, ended = threading.Lock(), time.monotonic(), 0

            def work(cell: Cell) -> None:
                nonlocal ended
                workers.run(cell, folders[cell.label], progress)
                with lock:
                    ended += 1
                    left = time_left(ended, len(waiting) - ended, time.monotonic() - started)
                    results.append(find_result(folders[cell.label]))
                    write_results(folder, results)
                    count = f"cell {len(cells) - len(waiting) + ended} of {len(cells)}"
                    outcome = _outcome(folders[cell.label])
                    progress.say(f"{cell.short}: {outcome} ({', '.join(filter(None, (count, left)))})")
                    advance(1, "")

            with ThreadPoolExecutor(workers.at_once) as threads:
                try:
                    for future in [threads.submit(work, cell) for cell in waiting]:
                        future.result()
                except BaseException:  # a signal, most of all: every cell finishes its step and saves
                    threads.shutdown(wait=False, cancel_futures=True)
                    workers.stop()
                    raise
        write_results(folder, [find_result(cell) for cell in cells_in(folder)])  # in order


def _outcome(folder: Path) -> str:
    """The outcome of a cell in a line."""
    result = find_result(folder)
    if result is None:
        return f"no result, {failure_in(folder).partition(chr(10))[0]}"
    return f"return {result.summary.earned}"


def _refuse_changes(cells: Sequence[Cell], folder: Path) -> None:
    """Refuse to resume with another suite: finished work is only removed with `overwrite`."""
    wanted = {cell.label: cell for cell in cells}
    changed: dict[str, str] = {}  # what differs -> the first cell in which it does
    left_out: list[str] = []
    for path in sorted(folder.glob("cells/*/cell.json")):
        there = Cell.read(path)
        if there.label in wanted:
            for line in conflicts(there, wanted[there.label]):
                changed.setdefault(line, there.label)
        else:
            left_out.append(there.label)
    differences = [f"{line} (as in {label})" for line, label in changed.items()]
    differences += [f"without its cells {', '.join(left_out)}"] if left_out else []
    if differences:
        raise ConfigError(
            f"{str(folder)!r} was run with another suite (there -> here): {'; '.join(differences)}; resume with the "
            "suite of the run, give a new folder with --out, or --overwrite, which runs changed cells again and "
            "removes what they had"
        )


@contextlib.contextmanager
def run_folder(folder: Path, *, resume: bool = False) -> Generator[None]:
    """Lock a run folder, and write down the versions of all packages and the command; see `open_run`.

    Args:
        folder: A new or empty folder, unless `resume`.
        resume: Go on with the run in it; where there is none yet, begin it.

    Raises:
        FileExistsError: It holds something already, and `resume` is False.
    """
    with open_run(folder, resume=resume and is_there(folder / STATUS)):
        if not is_there(folder / "versions.json"):
            replace_json(folder / "versions.json", versions())
        with open_to_append(folder / "commands.txt") as file:
            command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
            file.write(masked(escape_controls(command.replace("\n", "\\n")).encode()) + b"\n")
        yield


def write_results(folder: Path, results: Sequence[Result | None]) -> None:
    """All results so far in `results.json`, and the language models that judged them in `versions.json`."""
    known = [result for result in results if result is not None]
    replace_json(folder / "results.json", [result.to_dict() for result in known])
    if judges := sorted({result.judge for result in known if result.judge}):
        versions_known = read_json(folder / "versions.json", dict[str, Any])
        replace_json(folder / "versions.json", {**versions_known, "text judges": ", ".join(judges)})
