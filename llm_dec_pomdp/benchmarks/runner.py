"""The runner of a suite: independent cells, with their results in one folder that can be resumed.

A cell is done when its folder has a `result.json` of the same configuration. Any other folder is from an attempt that
ended early. A cell that fails leaves `failure.json` with the reason and `traceback.txt`; the other cells continue.
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
    """Run all cells that are not done, and write their results.

    Args:
        suite: The suite.
        folder: Folder for the results; new, unless it is resumed.
        progress: Shows the progress.
        jobs: Number of cells at the same time on each machine. With several, each cell is slower.
        resume: Continue in a folder that already has some cells. A cell that was training, or has more steps now,
            resumes from its newest checkpoint.
        other_versions: Resume from checkpoints with other versions of packages.
        overwrite: When resuming, repeat the cells whose configuration has changed, and remove their old results.
        executor: Backend for the cells; a name of `training.workers.executors` that has workers.
        address: Address of a Ray cluster, for the executor ray.

    Raises:
        FileExistsError: The folder is not empty, and `resume` is False.
        ConfigError: The folder has cells that differ from those of the suite or are not in it, and `overwrite` is
            False.
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
                    count = f"run {len(cells) - len(waiting) + ended} of {len(cells)}"
                    outcome = _outcome(folders[cell.label])
                    progress.say(f"{cell.short}: {outcome} ({', '.join(filter(None, (count, left)))})")
                    advance(1, "")

            with ThreadPoolExecutor(workers.at_once) as threads:
                try:
                    for future in [threads.submit(work, cell) for cell in waiting]:
                        future.result()
                except BaseException:  # such as a signal: every cell finishes its step and saves a checkpoint
                    threads.shutdown(wait=False, cancel_futures=True)
                    workers.stop()
                    raise
        write_results(folder, [find_result(cell) for cell in cells_in(folder)])  # in the order of the suite


def _outcome(folder: Path) -> str:
    """Return the outcome of a cell in one line."""
    result = find_result(folder)
    if result is None:
        return f"no result, {failure_in(folder).partition(chr(10))[0]}"
    return f"return {result.summary.earned}"


def _refuse_changes(cells: Sequence[Cell], folder: Path) -> None:
    """Raise ConfigError if the folder has cells of another suite; only `overwrite` removes finished work."""
    wanted = {cell.label: cell for cell in cells}
    changed: dict[str, str] = {}  # difference -> first cell with this difference
    left_out: list[str] = []
    for path in sorted(folder.glob("cells/*/cell.json")):
        there = Cell.read(path)
        if there.label in wanted:
            for line in conflicts(there, wanted[there.label]):
                changed.setdefault(line, there.label)
        else:
            left_out.append(there.label)
    differences = [f"{line} (as in {label})" for line, label in changed.items()]
    differences += [f"the suite lacks its runs {', '.join(left_out)}"] if left_out else []
    if differences:
        raise ConfigError(
            f"{str(folder)!r} was made with another suite (there -> here): {'; '.join(differences)}; resume with the "
            "same suite, give a new folder with --out, or give --overwrite, which repeats changed runs and removes "
            "their old results"
        )


@contextlib.contextmanager
def run_folder(folder: Path, *, resume: bool = False) -> Generator[None]:
    """Lock the folder of a run, and record the versions of all packages and the command; see `open_run`.

    Args:
        folder: The folder; new or empty, unless `resume`.
        resume: Continue the run in the folder, or start it if there is none yet.

    Raises:
        FileExistsError: The folder is not empty, and `resume` is False.
    """
    with open_run(folder, resume=resume and is_there(folder / STATUS)):
        if not is_there(folder / "versions.json"):
            replace_json(folder / "versions.json", versions())
        with open_to_append(folder / "commands.txt") as file:
            command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
            file.write(masked(escape_controls(command.replace("\n", "\\n")).encode()) + b"\n")
        yield


def write_results(folder: Path, results: Sequence[Result | None]) -> None:
    """Write all results so far to `results.json`, and the LLM judges that scored them to `versions.json`."""
    known = [result for result in results if result is not None]
    replace_json(folder / "results.json", [result.to_dict() for result in known])
    if judges := sorted({result.judge for result in known if result.judge}):
        versions_known = read_json(folder / "versions.json", dict[str, Any])
        replace_json(folder / "versions.json", {**versions_known, "text judges": ", ".join(judges)})
