"""Runs read back, merged, compared; on run folders written by hand."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from llm_dec_pomdp.benchmarks.cell import Result
from llm_dec_pomdp.benchmarks.compare import lines, over_environments, pairs, verdict
from llm_dec_pomdp.benchmarks.metrics import Summary, bootstrap
from llm_dec_pomdp.benchmarks.report import report_runs
from llm_dec_pomdp.benchmarks.runs import RunError, merge, read_run
from llm_dec_pomdp.benchmarks.suite import (
    Cell,
    EnvironmentConfig,
    EvaluationConfig,
    MethodConfig,
    ModelConfig,
    SamplingConfig,
)
from llm_dec_pomdp.training import TrainerConfig

TASKS = [f"t{i}" for i in range(12)]


def make_cell(method: str = "concat", env_id: str = "tldr-v0", seed: int = 0, temperature: float = 1.0) -> Cell:
    return Cell(
        EnvironmentConfig(id=env_id),
        MethodConfig(name=method),
        ModelConfig(),
        seed,
        SamplingConfig(temperature=temperature),
        TrainerConfig(),
        EvaluationConfig(),
    )


def write_run(folder: Path, *cells: tuple[Cell, float], version: str = "0.1.0") -> Path:
    """A run in which every cell earns a share of 3.0 on every task, a little more on some."""
    for cell, share in cells:
        place = folder / "cells" / cell.label
        place.mkdir(parents=True)
        (place / "cell.json").write_text(json.dumps(cell.to_dict()))
        rewards = [3.0 * share + 0.01 * (number % 3) for number in range(len(TASKS))]
        episodes = [
            {
                "task": task,
                "return": reward,
                "turns": [
                    {
                        "observations": {"agent_0": "a post"},
                        "actions": {"agent_0": "</script><script>alert(1)</script> & text"},
                        "reward": reward,
                        "components": {"structure": reward},
                        "notes": {},
                    }
                ],
            }
            for task, reward in zip(TASKS, rewards, strict=True)
        ]
        (place / "episodes.jsonl").write_text("".join(json.dumps(e) + "\n" for e in episodes))
        interval = bootstrap([100 * reward / 3 for reward in rewards])
        summary = Summary(interval, {"structure": interval}, 1.0, 10.0, 2.0, 5.0, 6.0, 0.0, 12, 0)
        result = Result(cell, summary, 0.0, 1.0, 3.0, "digest")
        (place / "result.json").write_text(json.dumps({**asdict(result), "cell": cell.to_dict()}))
    (folder / "versions.json").write_text(json.dumps({"llm_dec_pomdp": version}))
    return folder


def test_a_clear_difference_and_one_within_noise(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run",
        *((make_cell("concat", seed=seed), 0.3 + 0.1 * seed) for seed in (0, 1)),
        *((make_cell("single", seed=seed), 0.35 - 0.1 * seed) for seed in (0, 1)),
        *((make_cell("magrpo", seed=seed), 0.8 + 0.1 * seed) for seed in (0, 1)),
    )
    found = lines(read_run(run).entries)
    said = {(a.method, b.method): verdict(d) for a, b, d in pairs(found)}
    assert said == {
        ("concat", "magrpo"): "less",
        ("concat", "single"): "within noise",
        ("magrpo", "single"): "more",
    }


def test_runs_are_merged_and_reported_together(tmp_path: Path) -> None:
    first = write_run(tmp_path / "first", (make_cell("concat"), 0.3))
    second = write_run(tmp_path / "second", (make_cell("magrpo"), 0.9), (make_cell("concat"), 0.3))
    found, warnings = report_runs([first, second], tmp_path / "out")
    assert warnings == []
    assert [(line.method, len(line.entries)) for line in found] == [("concat", 1), ("magrpo", 1)]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "first" in page
    assert "second" in page
    assert page.count("</script>") == 2  # what an agent wrote stays text


@pytest.mark.parametrize(
    ("other", "version", "message"),
    [
        (
            make_cell("magrpo", env_id="tldr-v1"),
            "0.1.0",
            "tldr stands in versions that pay differently: v0 in first, v1",
        ),
        (make_cell("magrpo"), "0.2.0", "versions 0.1.0 and 0.2.0 of llm_dec_pomdp"),
        (make_cell("magrpo", temperature=0.5), "0.1.0", "tldr-v0: the sampling differs in temperature"),
    ],
)
def test_what_does_not_compare_is_refused_unless_allowed(
    other: Cell, version: str, message: str, tmp_path: Path
) -> None:
    first = write_run(tmp_path / "first", (make_cell("concat"), 0.3))
    second = write_run(tmp_path / "second", (other, 0.9), version=version)
    with pytest.raises(RunError, match=message):
        report_runs([first, second], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    found, warnings = report_runs([first, second], tmp_path / "out", allow_mixed=True)
    assert any(message.split(":")[0] in warning for warning in warnings)
    assert {line.method for line in found} == {"concat (first)", "magrpo (second)"}
    for name in ("report.md", "report.html"):
        assert "Does not compare" in (tmp_path / "out" / name).read_text()


def test_two_versions_within_one_run_are_meant(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (make_cell(), 0.3), (make_cell(env_id="tldr-v1"), 0.2))
    assert merge([read_run(run)])[1] == []


def test_a_finished_cell_wins_over_a_failed_one(tmp_path: Path) -> None:
    first = write_run(tmp_path / "first", (make_cell(), 0.3))
    second = write_run(tmp_path / "second", (make_cell(), 0.3))
    (next(second.glob("cells/*")) / "result.json").unlink()
    entries, _ = merge([read_run(first), read_run(second)])
    assert [(entry.run, entry.result is not None) for entry in entries] == [("first", True)]
    assert read_run(second).entries[0].failure == "not finished"


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is no run folder"):
        read_run(tmp_path)


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (make_cell(), 0.3))
    (next(run.glob("cells/*")) / "result.json").write_text('{"cell": 1')
    with pytest.raises(RunError, match=r"is damaged .*--resume"):
        read_run(run)


def test_methods_are_taken_over_environments_where_they_ran_on_all(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run",
        *(
            (make_cell(method, env_id=env_id, seed=seed), 0.2 + 0.3 * (method == "magrpo"))
            for method in ("concat", "magrpo")
            for env_id in ("tldr-v0", "arxiv-v0")
            for seed in (0, 1)
        ),
        (make_cell("single"), 0.1),
    )
    found = {m.name: m for m in over_environments(lines(read_run(run).entries))}
    assert set(found) == {"concat", "magrpo"}
    assert found["magrpo"].improvement["concat"].mean == 1.0
    assert found["magrpo"].iqm.mean > found["concat"].iqm.mean
