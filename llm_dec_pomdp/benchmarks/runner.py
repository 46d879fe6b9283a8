"""Run a suite: cell by cell, into one folder."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from ..__about__ import __version__
from ..sandbox import capabilities
from .cell import Result, run_cell
from .progress import Progress
from .report import write_report
from .suite import Suite


def new_run_folder(name: str, parent: Path = Path("runs")) -> Path:
    """A folder name that is not taken yet: `runs/<name>-<date>-<time>`."""
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    candidates = (parent / (stem + suffix) for suffix in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(candidate for candidate in candidates if not candidate.exists())


def run_suite(suite: Suite, folder: Path, progress: Progress) -> list[Result]:
    """Run all cells and write the report.

    Args:
        suite: What to run.
        folder: A new folder for this run.
        progress: Shows what is going on.

    Returns:
        One result per cell, in the suite's order.

    Raises:
        FileExistsError: The folder holds something already.
    """
    prepare_folder(folder)
    (folder / "suite.json").write_text(json.dumps(suite.model_dump(), indent=1), encoding="utf-8")
    cells = suite.cells()
    results: list[Result] = []
    with progress.stage(f"suite {suite.name}", len(cells)) as advance:
        for cell in cells:
            results.append(run_cell(cell, folder / "cells" / cell.label, progress))
            write_results(folder, results)
            advance(1, cell.label)
    write_report(folder, suite.name, results)
    return results


def prepare_folder(folder: Path) -> None:
    """Create a run folder with the versions of what is going to run in it.

    Raises:
        FileExistsError: It holds something already.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{str(folder)!r} is not empty; give a new folder with --out")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "versions.json").write_text(json.dumps(versions(), indent=1), encoding="utf-8")


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
