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
import multiprocessing
import os
import platform
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
from importlib import metadata
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..__about__ import __version__
from ..sandbox import capabilities
from .cell import Result, run_cell, write_whole
from .progress import Advance, Progress
from .report import write_report
from .runs import Run, is_done, read_run
from .suite import Cell, Suite, Tracker, check_methods

_PRELOAD = ["torch", "transformers", "peft", "llm_dec_pomdp.benchmarks.cell"]


def new_run_folder(name: str, parent: Path = Path("runs")) -> Path:
    """A folder name that is not taken yet: `runs/<name>-<date>-<time>`."""
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    candidates = (parent / (stem + suffix) for suffix in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(candidate for candidate in candidates if not candidate.exists())


def run_suite(suite: Suite, folder: Path, progress: Progress, *, jobs: int = 1, resume: bool = False) -> Run:
    """Run all cells that are not done and write the report.

    Args:
        suite: What to run.
        folder: Of this run; new, unless it is resumed.
        progress: Shows what is going on.
        jobs: Cells at once. More than one share the machine: their times are not those of a cell alone.
        resume: Go on with a folder that holds some cells already.

    Returns:
        The run, read back: results, and reasons where there is none.

    Raises:
        FileExistsError: The folder holds something already and `resume` is False.
    """
    cells = suite.cells()
    check_methods(cells)
    prepare_folder(folder, resume=resume)
    write_whole(folder / "suite.json", json.dumps(suite.model_dump(), indent=1))
    write_whole(folder / "order.json", json.dumps([cell.label for cell in cells], indent=1))
    waiting = [cell for cell in cells if not is_done(folder / "cells" / cell.label, cell)]
    with progress.stage(f"suite {suite.name}", len(cells)) as advance, ThreadPoolExecutor(max(jobs, 1)) as threads:
        advance(len(cells) - len(waiting), "")
        lock = threading.Lock()

        def work(cell: Cell) -> None:
            _run_apart(cell, folder / "cells" / cell.label, progress, suite.tracking, jobs)
            with lock:
                write_results(folder, read_run(folder).results)
                advance(1, cell.label)

        for future in [threads.submit(work, cell) for cell in waiting]:
            future.result()
    write_report(folder)
    return read_run(folder)


def prepare_folder(folder: Path, *, resume: bool = False) -> None:
    """Create a run folder with the versions of what is going to run in it, and the command.

    Raises:
        FileExistsError: It holds something already and is not to be resumed.
    """
    if folder.exists() and any(folder.iterdir()) and not resume:
        raise FileExistsError(
            f"{str(folder)!r} is not empty; give a new folder with --out, or go on with it: bench --resume"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "versions.json", json.dumps(versions(), indent=1))
    with (folder / "commands.txt").open("a", encoding="utf-8") as file:
        file.write(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]) + "\n")


def write_results(folder: Path, results: Sequence[Result]) -> None:
    """All results so far in `results.json`."""
    write_whole(folder / "results.json", json.dumps([r.to_dict() for r in results], indent=1))


def versions() -> dict[str, Any]:
    """What a result depends on: this package, its main dependencies, Python, the machine, what confines code."""
    packages = ("torch", "transformers", "peft", "numpy", "pettingzoo", "gymnasium")
    return {
        "llm_dec_pomdp": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "accelerator": _accelerator(),
        "judge": capabilities().to_dict(),
        **{name: metadata.version(name) for name in packages},
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _accelerator() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


# --- a process per cell -----------------------------------------------------------------------------------------------


def _run_apart(cell: Cell, folder: Path, progress: Progress, tracking: Sequence[Tracker], jobs: int) -> None:
    """Run one cell in a process of its own; whatever ends it, its folder tells what came out."""
    shutil.rmtree(folder, ignore_errors=True)  # an attempt that ended early, or another configuration
    folder.mkdir(parents=True)
    write_whole(folder / "cell.json", json.dumps(cell.to_dict(), indent=1))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    ours, theirs = context.Pipe(duplex=False)
    threads = max(1, (os.cpu_count() or 1) // jobs) if jobs > 1 else 0
    process = context.Process(
        target=_work, args=(cell.to_dict(), str(folder), list(tracking), threads, theirs), daemon=True
    )
    process.start()
    theirs.close()
    _forward(ours, progress)
    process.join()
    if not (folder / "result.json").exists() and not (folder / "failure.json").exists():
        code = process.exitcode or 0
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        memory = " (often: out of memory)" if code == -signal.SIGKILL else ""
        write_whole(folder / "failure.json", json.dumps({"reason": f"its process ended with {how}{memory}"}))


def _work(values: dict[str, Any], folder: str, tracking: list[Tracker], threads: int, said: Connection) -> None:
    """In the process: run the cell, and write why it failed where it does."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        if threads:
            import torch

            torch.set_num_threads(threads)
        run_cell(Cell.from_dict(values), Path(folder), _Remote(said), tracking=tracking)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        text = json.dumps({"reason": reason, "traceback": traceback.format_exc()}, indent=1)
        write_whole(Path(folder) / "failure.json", text)


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

    @contextlib.contextmanager
    def stage(self, label: str, total: int) -> Generator[Advance]:
        """A stage that the runner shows."""
        self._said.send(("begin", label, total))
        yield lambda units, note: self._said.send(("advance", units, note))
        self._said.send(("end",))


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
                case _:
                    stages.pop()[0].close()
    for shown, _ in reversed(stages):
        shown.close()
