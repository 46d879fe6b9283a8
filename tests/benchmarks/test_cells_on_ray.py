"""Cells as tasks on a cluster of two machines, which are two raylets here: the same numbers, whatever is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from waiting import wait_until

from llm_dec_pomdp.benchmarks.cell_workers import CellWorker
from llm_dec_pomdp.benchmarks.runner import run_suite
from llm_dec_pomdp.benchmarks.suite import Suite
from llm_dec_pomdp.config import build
from llm_dec_pomdp.progress import Advance, Silent
from llm_dec_pomdp.storage.runfolder import RunFolderError, read_lines

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # those of ray
ray = pytest.importorskip("ray", reason="ray is not installed: pip install -e '.[ray]'")

VALUES = {
    "name": "cluster",
    "environments": [{"id": "tldr-v0"}],
    "methods": [{"name": "magrpo"}],
    "models": [{"name": "builtin:tiny", "device": "cpu"}],
    "seeds": [0, 1],
    "sampling": {"max_new_tokens": 16},
    "training": {"steps": 4, "prompts_per_step": 2, "group_size": 2, "save_every": 2},
    "evaluation": {"items": 2},
    "tracking": [],
}
SUITE = build(Suite, VALUES, source="test")
TIMES = ("seconds_rollout", "seconds_update")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of the suite in processes of this machine, a core for each."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    run_suite(SUITE, folder, Silent(), jobs=os.cpu_count() or 1)
    return outcome(folder)


def outcome(folder: Path) -> dict[str, Any]:
    """Texts, metrics and weights of all cells."""
    found: dict[str, Any] = {}
    for cell in sorted(folder.glob("cells/*")):
        steps = [{k: v for k, v in line.items() if k not in TIMES} for line in read_lines(cell / "train.jsonl")]
        weights = [path.read_bytes() for path in sorted((cell / "team").rglob("*.safetensors"))]
        summary = json.loads((cell / "result.json").read_text())["summary"]["return_percent"]
        found[cell.name] = (steps, weights, summary)
    return found


class Lines(Silent):
    """What was said, with something to do at every step of a cell."""

    def __init__(self, act: Callable[[str], None] = lambda label: None) -> None:
        self.notes: list[str] = []
        self.stages: list[str] = []
        self._act = act

    @contextlib.contextmanager
    def stage(self, label: str, total: int, done: int = 0) -> Iterator[Advance]:
        self.stages.append(label)
        yield lambda units, note: self._act(label) if ": train (" in label and note else None

    def say(self, text: str) -> None:
        self.notes.append(text)


def tasks(parent: int) -> list[psutil.Process]:
    """The processes below another one in which cells run now; other tests may use Ray at the same time."""
    found: list[psutil.Process] = []
    for process in psutil.Process(parent).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "ray::_Actor" in " ".join(process.cmdline()[:1]):
                found.append(process)
    return found


def test_a_cell_that_is_killed_runs_again_from_its_checkpoint(
    cluster: Any, alone: dict[str, Any], tmp_path: Path
) -> None:
    killed: list[psutil.Process] = []
    steps: dict[str, int] = {}

    def act(label: str) -> None:
        steps[label] = steps.get(label, 0) + 1
        if not killed and steps[label] == 3:
            killed.extend(tasks(os.getpid()))
            for process in killed:
                process.kill()

    lines = Lines(act)
    run_suite(SUITE, tmp_path / "run", lines, executor="ray", address=cluster.address)
    assert outcome(tmp_path / "run") == alone
    assert sum("restarted from its newest checkpoint" in text for text in lines.notes) == len(killed) > 0
    assert len({label for label in lines.stages if ": train (" in label}) == 2
    assert not ray.is_initialized()


def test_the_cell_of_a_machine_that_is_lost_runs_on_another(
    cluster: Any, alone: dict[str, Any], tmp_path: Path
) -> None:
    machine = cluster.add_node(num_cpus=1)
    lost = threading.Event()

    def act(label: str) -> None:
        if not lost.is_set():
            lost.set()
            cluster.remove_node(machine, allow_graceful=False)

    run_suite(SUITE, tmp_path / "run", Lines(act), executor="ray", address=cluster.address)
    assert outcome(tmp_path / "run") == alone


RUN = """
import json, sys
from pathlib import Path
from llm_dec_pomdp.progress import Silent
from llm_dec_pomdp.benchmarks.cell_workers import CellWorker
from llm_dec_pomdp.benchmarks.runner import run_suite
from llm_dec_pomdp.benchmarks.suite import Suite
from llm_dec_pomdp.storage.signals import stopping_at_once

with stopping_at_once():
    run_suite(Suite.model_validate(json.loads(sys.argv[1])), Path(sys.argv[2]), Silent(), executor="ray")
"""


def test_ctrl_c_lets_cells_save_and_leaves_no_process(alone: dict[str, Any], tmp_path: Path) -> None:
    """With Ray on this machine, which the run starts; the signal goes to the whole group, as a terminal sends it."""
    folder = tmp_path / "run"
    long = {**SUITE.model_dump(), "training": {**VALUES["training"], "steps": 500, "save_every": 0}}
    command = [sys.executable, "-c", RUN, json.dumps(long), str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_until(lambda: any(map(read_lines, folder.glob("cells/*/train.jsonl"))), process)
    ours = tasks(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 75
    begun = [path for path in folder.glob("cells/*/train.jsonl") if read_lines(path)]
    assert begun
    for path in begun:
        assert max((path.parent / "checkpoints").iterdir()).name == f"step-{len(read_lines(path)):06d}"
    assert {json.loads(p.read_text())["reason"] for p in folder.glob("cells/*/failure.json")} == {
        "stopped by a signal; resume it with bench --resume"
    }
    assert ours
    assert psutil.wait_procs(ours, timeout=30)[1] == []


def test_an_address_where_nothing_listens_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:9"):
        run_suite(SUITE, tmp_path / "run", Silent(), executor="ray", address="127.0.0.1:9")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_a_machine_does_not_see_is_told() -> None:
    with pytest.raises(RunFolderError, match="'/nowhere/run/cells/a'"):
        CellWorker().run(SUITE.cells()[0].to_dict(), "/nowhere/run/cells/a", {}, ".", print)
