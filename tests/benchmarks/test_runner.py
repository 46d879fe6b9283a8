"""A small suite from start to report, with the built-in model."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from llm_dec_pomdp.benchmarks.cell import build_cell, evaluate, read_lines
from llm_dec_pomdp.benchmarks.progress import Silent
from llm_dec_pomdp.benchmarks.runner import new_run_folder, run_suite
from llm_dec_pomdp.benchmarks.runs import is_done, read_run
from llm_dec_pomdp.benchmarks.suite import MethodConfig, Suite, load_suite
from llm_dec_pomdp.config import ConfigError

SMALL = """
name = "small"
methods = [{ name = "single" }, { name = "concat" }, { name = "magrpo" }]
environments = [{ id = "tldr-v0" }, { id = "coophumaneval-v0" }]
sampling = { max_new_tokens = 24 }
training = { steps = 2, prompts_per_step = 2, group_size = 2 }
evaluation = { items = 2, every = 1, timing = 1 }
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    path = tmp_path_factory.mktemp("suite") / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return load_suite(str(path))


@pytest.fixture(scope="module")
def run(small: Suite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "small"
    assert all(entry.result is not None for entry in run_suite(small, folder, Silent()).entries)
    return folder


def test_results_hold_every_cell_in_order(small: Suite, run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    wanted = [(cell.environment.id, cell.method.name) for cell in small.cells()]
    assert [(r["cell"]["environment"]["id"], r["cell"]["method"]["name"]) for r in results] == wanted
    assert all(0 <= r["summary"]["return_percent"]["mean"] <= 100 for r in results)
    assert all(r["summary"]["latency"]["mean"] > 0 for r in results)


def test_the_run_folder_says_what_ran(run: Path) -> None:
    versions = json.loads((run / "versions.json").read_text())
    assert {"llm_dec_pomdp", "torch", "python", "processor"} <= versions.keys()
    assert {"limits", "namespaces", "landlock", "seccomp"} == versions["judge"]["layers"].keys()
    assert json.loads((run / "suite.json").read_text())["name"] == "small"
    assert (run / "commands.txt").read_text().strip()


def test_every_episode_is_written_down(small: Suite, run: Path) -> None:
    for cell in small.cells():
        episodes = read_lines(run / "cells" / cell.label / "episodes.jsonl")
        assert len(episodes) == 2
        for episode in episodes:
            assert episode["turns"][-1]["reward"] == pytest.approx(sum(episode["turns"][-1]["components"].values()))


def test_learners_leave_curves_and_weights_and_baselines_do_not(small: Suite, run: Path) -> None:
    for cell in small.cells():
        folder = run / "cells" / cell.label
        learns = cell.method.name == "magrpo"
        steps = [point["step"] for point in read_lines(folder / "curve.jsonl")]
        assert steps == ([0, 1, 2] if learns else [])
        assert [line["number"] for line in read_lines(folder / "train.jsonl")] == ([1, 2] if learns else [])
        assert (folder / "team" / "team.json").exists() == learns
        assert len(list(folder.glob("events.out.tfevents.*"))) == learns


def test_the_returns_per_task_are_those_of_the_summary(run: Path) -> None:
    for entry in read_run(run).entries:
        assert entry.result is not None
        mean = sum(entry.returns().values()) / len(entry.returns())
        assert mean == pytest.approx(entry.result.summary.return_percent.mean)


def test_the_markdown_report_has_a_table_per_environment(run: Path) -> None:
    report = (run / "report.md").read_text()
    assert "## tldr-v0" in report
    assert "## coophumaneval-v0" in report
    assert "distinct-2" in report
    assert "within noise" in report
    assert "magrpo 94.5 % (2 x Qwen3-1.7B)" in report
    assert "![learning curves](curves.png)" in report
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")


class Page(HTMLParser):
    """Checks that elements close in order, and collects what the page refers to and shows."""

    VOID = {"meta", "input", "br", "link", "img"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.seen: list[str] = []
        self.rows: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.references += [str(value) for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag == "tr":
            self.rows.append("")
        if tag not in self.VOID and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "rect", "polygon", "polyline", "circle") or (self.open and self.open[-1] == tag):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "tr" in self.open:
            self.rows[-1] += data


def test_the_page_is_whole_and_refers_to_nothing_else(run: Path) -> None:
    text = (run / "report.html").read_text()
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert page.references == []
    assert "http" not in text.split("<script")[0]
    assert page.seen.count("svg") == 2 * 3 + 2  # curves, parts and speed of two environments; profile and means
    published = [row for row in page.rows if "published" in row]
    assert len(published) == 3
    assert any("94.5" in row and "Qwen3-1.7B" in row for row in published)


def test_the_page_holds_every_method_of_a_task_side_by_side(run: Path) -> None:
    text = (run / "report.html").read_text()
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    for environment in ("tldr-v0", "coophumaneval-v0"):
        for by_method in data["episodes"][environment].values():
            assert list(by_method) == ["single", "concat", "magrpo"]
            (turn,) = by_method["concat"]["turns"]
            assert turn["observations"]["agent_0"]
            assert set(turn["actions"]) == {"agent_0", "agent_1"}


CLICKS = """
document.querySelector("#headline th:nth-child(5) button").click();
document.querySelector("#headline th:nth-child(5) button").click();
const box = document.querySelector("input[data-filter=headline]");
box.value = "tldr magrpo";
box.dispatchEvent(new Event("input"));
document.getElementById("environment").value = "coophumaneval-v0";
document.getElementById("environment").dispatchEvent(new Event("change"));
"""
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_browser_sorts_filters_and_shows_episodes(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text((run / "report.html").read_text().replace("</body>", f"<script>{CLICKS}</script></body>"))
    command = [str(BROWSER), "--headless", "--no-sandbox", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    shown = subprocess.run([*command, f"file://{page}"], capture_output=True, text=True, timeout=60, check=True).stdout
    rows = re.findall(
        r"<tr([^>]*)><td class=.left.>(\S+?)</td>", shown.partition('id="headline"')[2].partition("</table>")[0]
    )
    assert [environment for attributes, environment in rows if "hidden" not in attributes] == ["tldr-v0", "tldr-v0"]
    first = re.findall(r"<td>(\d+\.\d)</td>", shown.partition('id="headline"')[2])[0]
    assert first == "94.5"  # sorted by return, the highest first
    browser = shown.partition('<div id="episodes">')[2].partition("</div>")[0]
    assert re.findall(r"<h3>(.*?)</h3>", browser) == ["single", "concat", "magrpo"]
    assert "syntax 0." in browser


def test_a_trained_team_can_be_loaded_and_says_the_same(small: Suite, run: Path) -> None:
    cell = next(cell for cell in small.cells() if cell.method.name == "magrpo")
    folder = run / "cells" / cell.label
    groups, _ = evaluate(cell, build_cell(cell, weights=folder / "team"), Silent(), "")
    said = [list(turn["actions"].values()) for e in read_lines(folder / "episodes.jsonl") for turn in e["turns"]]
    again = [[c.text for c in turn.actions.values()] for g in groups for e in g.episodes for turn in e.turns]
    assert again == said


def test_all_methods_are_measured_on_the_same_tasks(small: Suite, run: Path) -> None:
    tasks = {
        tuple(episode["task"] for episode in read_lines(run / "cells" / cell.label / "episodes.jsonl"))
        for cell in small.cells()
        if cell.environment.id == "tldr-v0"
    }
    assert len(tasks) == 1


def test_a_folder_with_something_in_it_is_refused(small: Suite, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="--out"):
        run_suite(small, tmp_path, Silent())
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_new_run_folders_do_not_collide(tmp_path: Path) -> None:
    first = new_run_folder("x", tmp_path)
    first.mkdir()
    assert new_run_folder("x", tmp_path) != first


def test_an_unknown_option_of_a_method_is_found_before_anything_runs(small: Suite, tmp_path: Path) -> None:
    broken = small.model_copy(
        update={"methods": [small.methods[0], small.methods[2].model_copy(update={"options": {"learning_rat": 1}})]}
    )
    with pytest.raises(ConfigError, match=r"options of magrpo.*\n.*did you mean learning_rate"):
        run_suite(broken, tmp_path / "run", Silent())
    assert not (tmp_path / "run").exists()


# --- cells that are done, that fail, that are killed ------------------------------------------------------------------


def stamps(folder: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("cells/*/result.json")}


def test_a_resumed_run_repeats_only_what_is_not_done(small: Suite, run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    before, report = stamps(folder), (folder / "report.md").read_text()
    lost, changed, *_ = small.cells()
    (folder / "cells" / lost.label / "result.json").unlink()
    other = json.loads((folder / "cells" / changed.label / "result.json").read_text())
    other["cell"]["sampling"]["temperature"] = 0.5
    (folder / "cells" / changed.label / "result.json").write_text(json.dumps(other))
    assert not is_done(folder / "cells" / changed.label, changed)
    run_suite(small, folder, Silent(), resume=True, jobs=2)
    after = stamps(folder)
    assert {label for label in before if before[label] != after[label]} == {lost.label, changed.label}

    def returns(text: str) -> list[list[str]]:
        return [line.split("|")[1:4] for line in text.splitlines() if line.startswith("| ")]

    assert returns((folder / "report.md").read_text()) == returns(report)


def test_a_cell_that_fails_does_not_stop_the_others(small: Suite, tmp_path: Path) -> None:
    tldr = small.environments[0]
    wrong = tldr.model_copy(update={"label": "wrong", "options": {"no_such_option": 1}})
    suite = small.model_copy(update={"environments": [wrong, tldr], "methods": [small.methods[0]]})
    read = run_suite(suite, tmp_path / "run", Silent())
    failed, done = read.entries
    assert done.result is not None
    assert failed.result is None
    assert "no_such_option" in failed.failure
    for name in ("report.md", "report.html"):
        assert "no_such_option" in (tmp_path / "run" / name).read_text()


SCRIPT = """
import sys
from pathlib import Path
from llm_dec_pomdp.benchmarks.progress import Silent
from llm_dec_pomdp.benchmarks.runner import run_suite
from llm_dec_pomdp.benchmarks.suite import load_suite

if __name__ == "__main__":
    run_suite(load_suite(sys.argv[1]), Path(sys.argv[2]), Silent(), resume=True)
"""


def test_a_kill_in_the_middle_loses_the_running_cell_only(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    suite = tmp_path / "small.toml"
    suite.write_text(SMALL.replace("steps = 2", "steps = 500").replace('{ id = "coophumaneval-v0" }', ""))
    folder = tmp_path / "run"
    process = subprocess.Popen([sys.executable, str(tmp_path / "script.py"), str(suite), str(folder)])
    deadline = time.monotonic() + 60
    training = folder / "cells" / load_suite(str(suite)).cells()[2].label / "train.jsonl"
    while not training.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(stamps(folder)) == 2
    size = -1
    while size != (size := training.stat().st_size) and time.monotonic() < deadline:
        time.sleep(1.0)  # the orphan notices that its runner has gone
    before = stamps(folder)
    shorter = load_suite(str(suite), ["training.steps=1"])
    read = run_suite(shorter, folder, Silent(), resume=True)
    assert all(entry.result is not None for entry in read.entries)
    assert [line["number"] for line in read_lines(training)] == [1]
    assert before.keys() < stamps(folder).keys()


KILLED = '''
import os
import signal

from llm_dec_pomdp.algorithms.base import Prompting


class Killed(Prompting):
    """Its process dies as one does that is out of memory."""

    def __init__(self, team, sampling, config=None):
        os.kill(os.getpid(), signal.SIGKILL)
'''


def test_a_killed_process_is_reported_and_the_rest_runs(
    small: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "killed_method.py").write_text(KILLED)
    monkeypatch.syspath_prepend(tmp_path)
    methods = [MethodConfig(name="killed_method:Killed"), small.methods[1]]
    suite = small.model_copy(update={"methods": methods, "environments": small.environments[:1]})
    killed, concat = run_suite(suite, tmp_path / "run", Silent()).entries
    assert killed.failure.startswith("its process ended with signal SIGKILL")
    assert concat.result is not None
