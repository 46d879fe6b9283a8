"""Reports as files for papers: the formats of other tools, checked against what those publish."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from written_runs import make_cell, write_run

from llm_dec_pomdp.cli import app
from llm_dec_pomdp.report.findings import findings
from llm_dec_pomdp.report.paper import latex, write_appendix
from llm_dec_pomdp.report.tables import frame
from llm_dec_pomdp.results.runs import read_run

RETURNS = {"magrpo": (0.3, 0.5, 0.4), "concat": (0.2, 0.2, 0.3)}  # by seed, less a third of a percent


def curve(cell: Path, *shares: float) -> None:
    """Write evaluations of a cell, eight training episodes apart."""
    lines = [{"step": n, "training_episodes": 8 * n, "return_percent": {"mean": 100 * s}} for n, s in enumerate(shares)]
    for line in lines:
        line["return_percent"] |= {"low": None, "high": None}
    (cell / "curve.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """An appendix of two methods with three seeds, the first of which learns; and what it leaves out."""
    folder = tmp_path_factory.mktemp("appendix")
    for name, trained in (("magrpo", 1.0), ("concat", 0.0)):
        cells = [(make_cell(name, seed=seed), share) for seed, share in enumerate(RETURNS[name])]
        write_run(folder / "run", *cells, train_seconds=trained)
    for seed, share in enumerate(RETURNS["magrpo"]):
        (cell,) = (folder / "run" / "cells").glob(f"*magrpo*seed{seed}")
        curve(cell, 0.1, 0.2, *([0.25] if seed else []), share)
    out = folder / "out"
    return out, write_appendix(out, findings(read_run(folder / "run").entries))


def test_every_figure_is_there_as_svg_and_as_pdf(exported: tuple[Path, list[str]]) -> None:
    files = sorted((exported[0] / "figures").iterdir())
    names = [path.name for path in files if path.suffix == ".svg"]
    assert names == ["01_all_environments_overall.svg", "02_tldr_v0_return.svg", "03_tldr_v0_parts.svg"]
    assert [path.stem for path in files if path.suffix == ".pdf"] == [name.removesuffix(".svg") for name in names]
    assert all(path.read_bytes().startswith(b"%PDF") for path in files if path.suffix == ".pdf")
    texts = {
        text.text
        for text in ElementTree.parse(exported[0] / "figures" / names[1]).iter("{http://www.w3.org/2000/svg}text")
    }
    assert {"magrpo", "concat", "training episodes"} <= texts  # text, not outlines


def test_every_table_is_there_as_csv_and_as_latex(exported: tuple[Path, list[str]]) -> None:
    with (exported[0] / "tables" / "01_Return.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["method"], row["return %"]) for row in rows if row["over"] != "published"] == [
        ("magrpo", "40.3"),
        ("concat", "23.7"),
    ]
    text = (exported[0] / "tables" / "01_Return.tex").read_text()
    assert r"\begin{tabular}{llrrllrrl}" in text
    assert text.count(r" \\") == 1 + len(rows)


def test_latex_takes_names_as_text() -> None:
    text = latex("50 %\nof it", frame(["method", "return %"], [["a_b & {c} \\d <$", "1"]]))
    assert text.splitlines()[0] == "% 50 % of it"
    assert r"a\_b \& \{c\} \textbackslash d $<$\$ & 1 \\" in text


@pytest.mark.slow
def test_rliable_and_marl_eval_read_as_many_seeds_and_steps_of_every_method(exported: tuple[Path, list[str]]) -> None:
    scores = json.loads((exported[0] / "rliable.json").read_text())
    assert scores["environments"] == ["tldr-v0"]
    assert scores["score_dict"] == {
        name: [[pytest.approx(share + 1 / 300)] for share in shares] for name, shares in RETURNS.items()
    }
    data: dict[str, Any] = json.loads((exported[0] / "marl_eval.json").read_text())
    algorithms = data["llm_dec_pomdp"]["tldr-v0"]
    assert list(algorithms) == ["magrpo", "concat"]
    for runs in algorithms.values():
        assert list(runs) == ["seed_0", "seed_1", "seed_2"]
        for steps in runs.values():
            assert list(steps) == ["step_1", "step_2", "step_3", "absolute_metrics"]
            assert all(isinstance(steps[name]["step_count"], int) for name in list(steps)[:-1])
    learnt = algorithms["magrpo"]["seed_1"]  # its curve has four evaluations, the shortest three
    assert [learnt[f"step_{k}"]["return"] for k in (1, 3)] == [[0.1], [0.5]]
    assert learnt["absolute_metrics"] == {"return": [pytest.approx(0.5 + 1 / 300)]}
    (constant,) = {step["return"][0] for step in algorithms["concat"]["seed_2"].values()}
    assert constant == pytest.approx(0.3 + 1 / 300)


@pytest.mark.slow
def test_methods_that_lack_an_environment_are_named(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run",
        (make_cell("concat"), 0.2),
        (make_cell("single"), 0.2),
        (make_cell("single", env_id="coophumaneval-v0"), 0.2),
    )
    result = CliRunner().invoke(app, ["report", str(run), "--export", str(tmp_path / "out")])
    assert result.exit_code == 0
    assert "all environments or seeds: concat" in " ".join(result.stderr.split())
    assert list(json.loads((tmp_path / "out" / "rliable.json").read_text())["score_dict"]) == ["single"]


def test_an_appendix_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", (make_cell("concat"), 0.2))
    result = CliRunner().invoke(app, ["report", str(run), "--export", str(run / "versions.json")])
    assert result.exit_code == 1
    assert "Not a directory" in result.stderr
