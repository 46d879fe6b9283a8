"""Runs read back, merged, compared; on run folders written by hand."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from written_runs import make_cell, report_and_texts, write_run, write_seeds

from llm_dec_pomdp.benchmarks.suite import Cell, WrittenOptions
from llm_dec_pomdp.report.findings import findings
from llm_dec_pomdp.report.tables import p_value
from llm_dec_pomdp.report.text import report_runs
from llm_dec_pomdp.results.lines import lines
from llm_dec_pomdp.results.runs import RunError, merge, read_run


def test_a_clear_difference_and_one_that_is_none(tmp_path: Path) -> None:
    found = findings(read_run(write_seeds(tmp_path / "run", 3)).entries)
    assert {(pair.ours.name, pair.theirs.name): pair.verdict for pair in found.comparisons} == {
        ("concat", "magrpo"): "less",
        ("concat", "single"): "not distinguishable",
        ("magrpo", "single"): "more",
    }
    assert {pair.pairs for pair in found.comparisons} == {3}
    assert all(
        pair.p == min(1, pair.points.p * factor) for pair, factor in zip(found.comparisons, (3, 1, 2), strict=True)
    )


def test_pairs_are_corrected_per_environment(tmp_path: Path) -> None:
    cells = [
        (make_cell(method, env_id=env_id, seed=seed), 0.2 + 0.01 * seed * seed * (method == "magrpo"))
        for method in ("concat", "magrpo")
        for env_id in ("tldr-v0", "arxiv-v0")
        for seed in range(3)
    ]
    found = findings(read_run(write_run(tmp_path / "run", *cells)).entries)
    assert [(pair.pairs, pair.p == pair.points.p) for pair in found.comparisons] == [(1, True), (1, True)]


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_every_output_shows_the_same_numbers(seeds: int, tmp_path: Path) -> None:
    found, shown = report_and_texts(write_seeds(tmp_path / "run", seeds))
    document = json.loads(json.dumps(found.to_dict()))
    for name, text in shown.items():
        for line in document["lines"]:
            value = line["return_percent"]
            bounds = "-" if seeds == 2 else f"{value['low']:.1f} to {value['high']:.1f}"
            assert f" {value['mean']:.1f} {bounds} " in text, name
            assert name == "terminal" or ", ".join(f"{v:.1f}" for v in line["by_seed"].values()) in text, name
        assert ("There is no verdict: two methods" in text) is (seeds < 3 and name != "terminal"), name
        for pair in document["differences"] if seeds >= 3 and name != "terminal" else ():
            value = pair["points"]
            bounds = "-" if seeds == 2 else f"{value['low']:+.1f} to {value['high']:+.1f}"
            assert f" {pair['method']} {pair['against']} {value['mean']:+.1f} {bounds} {value['over']} " in text, name
            assert f" {p_value(pair['p_holm'])} {pair['verdict']} " in text, name


@pytest.mark.parametrize(("seeds", "over"), [(1, "12 tasks, one seed"), (2, "2 seeds, 12 tasks, no interval")])
def test_below_three_seeds_there_is_no_verdict_in_any_output(seeds: int, over: str, tmp_path: Path) -> None:
    found, shown = report_and_texts(write_seeds(tmp_path / "run", seeds))
    assert {pair.verdict for pair in found.comparisons} == {"no verdict below 3 seeds"}
    assert {
        value.over for value in (*(line.value for line in found.lines), *(p.points for p in found.comparisons))
    } == {over}
    assert not any("Holm-corrected over" in text for text in shown.values())


def test_runs_are_merged_and_reported_together(tmp_path: Path) -> None:
    first = write_run(tmp_path / "first", (make_cell("concat"), 0.3))
    second = write_run(tmp_path / "second", (make_cell("magrpo"), 0.9))
    found, warnings = report_runs([first, second], tmp_path / "out")
    assert warnings == []
    assert [(line.method, len(line.entries)) for line in found.lines] == [("concat", 1), ("magrpo", 1)]
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
            "tldr has versions with different rewards: v0 in first, v1 in second",
        ),
        (make_cell("magrpo"), "0.2.0", "different versions of llm_dec_pomdp: 0.1.0 in first, 0.2.0 in second"),
        (make_cell("magrpo", temperature=0.5), "0.1.0", "tldr-v0: temperature is 1.0 in first, 0.5 in second"),
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
    assert {line.method for line in found.lines} == {"concat (first)", "magrpo (second)"}
    for name in ("report.md", "report.html"):
        assert "Not comparable" in (tmp_path / "out" / name).read_text()


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


@pytest.mark.parametrize("seeds", [2, 3])
def test_methods_are_taken_over_environments_where_they_ran_on_all(seeds: int, tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run",
        *(
            (make_cell(method, env_id=env_id, seed=seed), 0.2 + 0.3 * (method == "magrpo"))
            for method in ("concat", "magrpo")
            for env_id in ("tldr-v0", "arxiv-v0")
            for seed in range(seeds)
        ),
        (make_cell("single"), 0.1),
    )
    found = {m.name: m for m in findings(read_run(run).entries).overall}
    assert set(found) == {"concat", "magrpo"}
    assert found["magrpo"].improvement["concat"] == 1.0
    assert found["magrpo"].iqm.mean > found["concat"].iqm.mean
    assert math.isfinite(found["magrpo"].iqm.low) == (seeds == 3)


# --- what stands in one line ------------------------------------------------------------------------------------------

FAST: dict[str, Any] = {"method": {"options": WrittenOptions(values={"learning_rate": 0.01})}}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("changes", "name"),
    [
        (FAST, "magrpo, learning_rate=0.01"),
        ({"model": {"sharing": "shared"}}, "magrpo, sharing=shared"),
        ({"training": {"group_size": 4}}, "magrpo, group_size=4"),
        ({"training": {"steps": 80}}, "magrpo, steps=80"),
    ],
)
def test_what_was_trained_otherwise_stands_in_a_line_of_its_own(
    changes: dict[str, Any], name: str, seed: int, tmp_path: Path
) -> None:
    first = write_run(tmp_path / "first", (make_cell("magrpo"), 0.3), train_seconds=1.0)
    other = make_cell("magrpo", seed=seed, **changes)
    second = write_run(tmp_path / "second", (other, 0.9), train_seconds=1.0)
    found, _ = report_runs([first, second], tmp_path / "out")
    assert [len(line.entries) for line in found.lines] == [1, 1]
    assert found.lines[0].method.startswith("magrpo")
    assert found.lines[1].method == name
    for file in ("report.md", "report.html"):
        assert name in (tmp_path / "out" / file).read_text()


def test_seeds_and_cadence_make_no_line_of_their_own(tmp_path: Path) -> None:
    cadence = {"training": {"save_every": 3, "keep": 5}, "evaluation": {"every": 2, "timing": 1}}
    first = write_run(tmp_path / "first", (make_cell("magrpo"), 0.3), train_seconds=1.0)
    second = write_run(tmp_path / "second", (make_cell("magrpo", seed=1, **cadence), 0.9), train_seconds=1.0)
    found, _ = report_runs([first, second], tmp_path / "out")
    (line,) = found.lines
    assert (line.method, len(line.entries)) == ("magrpo", 2)


def test_how_long_others_train_makes_no_difference_to_what_is_not_trained(tmp_path: Path) -> None:
    first = write_run(tmp_path / "first", (make_cell("concat"), 0.3))
    second = write_run(tmp_path / "second", (make_cell("concat", seed=1, training={"steps": 80}), 0.9))
    assert len(report_runs([first, second], tmp_path / "out")[0].lines) == 1


def test_a_team_that_was_measured_untrained_is_told_from_trained_ones(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "a", (make_cell("magrpo"), 0.1)),
        write_run(tmp_path / "b", (make_cell("magrpo", seed=1), 0.3), train_seconds=1.0),
        write_run(tmp_path / "c", (make_cell("magrpo", seed=1, training={"steps": 80}), 0.5), train_seconds=1.0),
    ]
    found, _ = report_runs(runs, tmp_path / "out")
    assert {line.method for line in found.lines} == {
        "magrpo, not trained",
        "magrpo, trained, steps=40",
        "magrpo, trained, steps=80",
    }


def test_one_cell_in_two_runs_is_refused_and_both_are_named(tmp_path: Path) -> None:
    first = write_run(tmp_path / "x" / "run", (make_cell("magrpo", **FAST), 0.3))
    second = write_run(tmp_path / "y" / "run", (make_cell("magrpo", **FAST), 0.9))
    with pytest.raises(RunError, match=r"magrpo with seed 0 on tldr-v0 .*x/run/.* and in .*y/run/"):
        report_runs([first, second], tmp_path / "out")
    found, _ = report_runs([first, second], tmp_path / "out", allow_mixed=True)
    assert [line.method for line in found.lines] == [f"magrpo ({first})", f"magrpo ({second})"]
    with pytest.raises(RunError, match="same seed"):
        lines([*read_run(first).entries, *read_run(second).entries])


def test_the_page_has_signs_and_says_in_words_what_judged(tmp_path: Path) -> None:
    run = write_seeds(tmp_path / "run", 3)
    judge = {"system": "Linux", "layers": {"landlock": "holds", "seccomp": "no such call"}}
    (run / "versions.json").write_text(json.dumps({"llm_dec_pomdp": "0.1.0", "judge": judge}))
    report_runs([run], tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert re.search(r'<td>\+\d+\.\d</td><td>\+[\d.]+ to \+[\d.]+</td><td class="left">3 seeds, 12 tasks</td>', page)
    assert "llm_dec_pomdp 0.1.0; sandbox: landlock holds, seccomp no such call" in page


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("metrics", "pictures"),
    [({}, []), ({"reward model": 0.5}, []), ({"clipped": None}, []), ({"length": 7.5, "mine": 1.0}, ["length"])],
    ids=str,
)
def test_the_page_draws_what_a_learner_reports_of_its_updates(
    metrics: dict[str, Any], pictures: list[str], tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run", (make_cell("magrpo"), 0.3), (make_cell("single"), 0.2))
    [cell] = (run / "cells").glob("*magrpo*")
    (cell / "train.jsonl").write_text(json.dumps({"number": 1, "metrics": metrics}) + "\n")
    report_runs([run], tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    drawn = re.findall(r'aria-label="tldr-v0: (\w+)"', page)
    assert [name for name in drawn if name in ("length", "clipped", "mine", "reward model")] == pictures
    assert ("Metrics of updates" in page) == bool(pictures)
