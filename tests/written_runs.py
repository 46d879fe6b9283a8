"""Run folders written by hand or in this process, and what a report says of them."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from evaluated import write_evaluation
from rich.console import Console

from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.benchmarks.cell_workers import make_room
from llm_dec_pomdp.benchmarks.checks import check_cells
from llm_dec_pomdp.benchmarks.result import Result, find_result
from llm_dec_pomdp.benchmarks.runner import run_folder, write_results
from llm_dec_pomdp.benchmarks.suite import Cell, EnvironmentConfig, MethodConfig, ModelConfig, Suite
from llm_dec_pomdp.evaluation.intervals import mean_interval
from llm_dec_pomdp.evaluation.metrics import Summary
from llm_dec_pomdp.options import EvaluationConfig, Sampling
from llm_dec_pomdp.report.findings import Findings
from llm_dec_pomdp.report.terminal import summary
from llm_dec_pomdp.report.text import report_runs, write_report
from llm_dec_pomdp.results.runs import read_run
from llm_dec_pomdp.storage.files import replace_json
from llm_dec_pomdp.training import TrainerConfig
from llm_dec_pomdp.types import Completion, Score, Turn

TASKS = [f"t{i}" for i in range(12)]


def run_here(suite: Suite, folder: Path, **options: Any) -> None:
    """Run a suite as `run_suite` does, but in this process, which has loaded torch, and not in one for each cell."""
    cells = {folder / "cells" / cell.label: cell for cell in check_cells(suite.cells())}
    with run_folder(folder):
        replace_json(folder / "suite.json", suite.model_dump())
        replace_json(folder / "order.json", [cell.label for cell in cells.values()])
        for place, cell in cells.items():
            make_room(cell, place)
            run_cell(cell, place, **options)
        write_results(folder, list(map(find_result, cells)))
    write_report(folder)


def make_cell(
    method: str = "concat", /, env_id: str = "tldr-v0", seed: int = 0, temperature: float = 1.0, **changes: Any
) -> Cell:
    cell = Cell(
        EnvironmentConfig(id=env_id),
        MethodConfig(name=method),
        ModelConfig(),
        seed,
        Sampling(temperature=temperature),
        TrainerConfig(),
        EvaluationConfig(),
    )
    return replace(cell, **{name: getattr(cell, name).model_copy(update=update) for name, update in changes.items()})


def write_run(folder: Path, *cells: tuple[Cell, float], version: str = "0.1.0", train_seconds: float = 0.0) -> Path:
    """A run in which every cell earns a share of 3.0 on every task, a little more on some."""
    for cell, share in cells:
        place = folder / "cells" / cell.label
        place.mkdir(parents=True)
        (place / "cell.json").write_text(json.dumps(cell.to_dict()))
        rewards = [3.0 * share + 0.01 * ((number + cell.seed) % 3) for number in range(len(TASKS))]
        actions = {"agent_0": Completion("</script><script>alert(1)</script> & text")}
        turns = [Turn({"agent_0": "a post"}, actions, r, Score(r, {"structure": r})) for r in rewards]
        write_evaluation(place, zip(TASKS, turns, strict=True))
        interval = mean_interval([100 * reward / 3 for reward in rewards])
        summary = Summary(interval, {"structure": interval}, 1.0, 10.0, 2.0, 5.0, 6.0, 0.0, 12, 0)
        result = Result(cell, summary, train_seconds, 1.0, 3.0, "digest")
        (place / "result.json").write_text(json.dumps({**asdict(result), "cell": cell.to_dict()}))
    (folder / "versions.json").write_text(json.dumps({"llm_dec_pomdp": version}))
    return folder


def write_seeds(folder: Path, seeds: int) -> Path:
    """MAGRPO well above two others, of which one rises with the seeds and the other falls."""
    return write_run(
        folder,
        *((make_cell("concat", seed=seed), 0.3 + 0.02 * seed) for seed in range(seeds)),
        *((make_cell("single", seed=seed), 0.33 - 0.02 * seed) for seed in range(seeds)),
        *((make_cell("magrpo", seed=seed), 0.8 + 0.01 * seed) for seed in range(seeds)),
    )


def report_and_texts(folder: Path) -> tuple[Findings, dict[str, str]]:
    """What a report finds, and what every output says of it, without tags, frames and line breaks."""
    found, _ = report_runs([folder], folder)
    shown = {"report.md": (folder / "report.md").read_text(), "report.html": (folder / "report.html").read_text()}
    console = Console(file=io.StringIO(), width=200)
    console.print(*summary(found, read_run(folder).entries, 200))
    shown["terminal"] = cast("io.StringIO", console.file).getvalue()
    shown["report.html"] = html.unescape(re.sub(r"<[^>]*>", " ", shown["report.html"]))
    return found, {name: re.sub(r"[│┃|\s]+", " ", text) for name, text in shown.items()}
