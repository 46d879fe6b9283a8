"""Run a suite: cell by cell, into one folder."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Generator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from ..__about__ import __version__
from ..checkpoint import CheckpointError, differences
from ..runfolder import open_run
from ..sandbox import capabilities
from ..storage import replace_json
from .cell import Result, run_cell
from .progress import Progress
from .report import write_report
from .suite import Suite


def new_run_folder(name: str, parent: Path = Path("runs")) -> Path:
    """A folder name that is not taken yet: `runs/<name>-<date>-<time>`."""
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    candidates = (parent / (stem + suffix) for suffix in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(candidate for candidate in candidates if not candidate.exists())


def run_suite(
    suite: Suite, folder: Path, progress: Progress, *, resume: bool = False, other_versions: bool = False
) -> list[Result]:
    """Run all cells and write the report.

    Args:
        suite: What to run.
        folder: A new folder for this run.
        progress: Shows what is going on.
        resume: Go on with the run in the folder: cells with a result are done.
        other_versions: Go on from checkpoints although packages have changed since.

    Returns:
        One result per cell, in the suite's order.

    Raises:
        FileExistsError: The folder holds something already.
    """
    with run_folder(folder, resume=resume):
        _refuse_other_suite(suite, folder / "suite.json")
        replace_json(folder / "suite.json", suite.model_dump())
        cells = suite.cells()
        results: list[Result] = []
        with progress.stage(f"suite {suite.name}", len(cells)) as advance:
            for cell in cells:
                place = folder / "cells" / cell.label
                results.append(run_cell(cell, place, progress, other_versions=other_versions))
                write_results(folder, results)
                advance(1, cell.label)
        write_report(folder, suite.name, results)
        return results


def _refuse_other_suite(suite: Suite, path: Path) -> None:
    differing = differences(json.loads(path.read_text(encoding="utf-8")), suite.model_dump()) if path.exists() else []
    if differing:
        raise CheckpointError(
            f"{str(path)!r} is another suite (there -> here): {'; '.join(differing)}; resume without options, or "
            "give a new folder"
        )


@contextlib.contextmanager
def run_folder(folder: Path, *, resume: bool = False) -> Generator[None]:
    """Hold a run folder, with the versions of what runs in it; see `open_run`.

    Raises:
        FileExistsError: It holds something already, and it is not to be resumed.
    """
    with open_run(folder, resume=resume):
        if not (folder / "versions.json").exists():
            replace_json(folder / "versions.json", versions())
        yield


def write_results(folder: Path, results: Sequence[Result]) -> None:
    """All results so far in `results.json`."""
    (folder / "results.json").write_text(json.dumps([r.to_dict() for r in results], indent=1), encoding="utf-8")


def versions() -> dict[str, Any]:
    """What a result depends on: this package, its main dependencies, Python, the machine, what confines code."""
    packages = ("torch", "transformers", "peft", "numpy", "pettingzoo", "gymnasium")
    return {
        "llm_dec_pomdp": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "judge": capabilities().to_dict(),
        **{name: metadata.version(name) for name in packages},
    }
