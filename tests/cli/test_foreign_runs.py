"""Run folders that others made: whatever lies in them, every command ends, with a sentence that names the file."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from written_runs import run_here

from llm_dec_pomdp.benchmarks.suite import load_suite
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.report import page, text
from llm_dec_pomdp.report.text import write_report
from llm_dec_pomdp.report.viewer import live
from llm_dec_pomdp.results.listing import list_runs

SUITE = """
name = "small"
environments = [{ id = "tldr-v0" }]
methods = [{ name = "magrpo" }]
sampling = { max_new_tokens = 4 }
training = { steps = 2, prompts_per_step = 1, group_size = 2, save_every = 1 }
evaluation = { items = 1, every = 1 }
"""
CELL = "cells/*/"
PATIENCE = 600  # seconds after which a test that hangs is broken off


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one trained cell."""
    parent = tmp_path_factory.mktemp("foreign")
    (parent / "small.toml").write_text(SUITE, encoding="utf-8")
    run_here(load_suite(str(parent / "small.toml")), parent / "run", traces=True)
    return parent / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(finished, tmp_path / "runs" / "run"))


@pytest.fixture(autouse=True)
def _not_for_ever() -> Iterator[None]:
    def break_off(number: int, frame: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, break_off)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# --- what may lie there -----------------------------------------------------------------------------------------------


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 << 30)


def twice(path: Path) -> None:
    path.write_bytes(2 * path.read_bytes())


def unreadable(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path.chmod(0)


def content(text: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(text) and None


NEW: dict[str, Callable[[Path], Any]] = {  # in the place of the file
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "2 GB": sparse,
    "deep": content(b'{"a":' * 100_000 + b"\n"),
    "bytes": content(bytes(range(256)) * 8 + b"\n"),
    "nothing": content(b""),
    "null": content(b"null\n"),
    "list": content(b'[{"seed": []}]\n'),
    "number": content(b"7\n"),
    "empty object": content(b"{}\n"),
}
OLD: dict[str, Callable[[Path], None]] = {"twice": twice, "unreadable": unreadable, "missing": Path.unlink}
OF_RUN = ["status.json", "versions.json", "suite.json", "order.json", "commands.txt", "lock"]
OF_CELL = ["cell.json", "result.json", "failure.json", "train.jsonl", "curve.jsonl"]
OF_CELL += ["episodes/step-0.jsonl", "episodes/step-2.jsonl", "team/team.json", "team/agent_0/model.safetensors"]
OF_CELL += ["checkpoints/step-000002/checkpoint.json", "checkpoints/step-000002/manifest.json"]
FILES = [*OF_RUN, *(CELL + name for name in OF_CELL)]
# Every kind at two files, and every file with some: every ninth kind at one file in the default run.
TRIALS = [
    pytest.param(
        kind, FILES[(3 * number + 7 * which) % len(FILES)], marks=[pytest.mark.slow] if which or number % 9 else []
    )
    for number, kind in enumerate((*NEW, *OLD))
    for which in range(2)
]


def damage(run: Path, kind: str, file: str) -> Path:
    cell = next((run / "cells").iterdir())
    path = cell / file.removeprefix(CELL) if file.startswith(CELL) else run / file
    if kind in OLD:
        if path.exists():
            OLD[kind](path)
        return path
    path.unlink(missing_ok=True)
    NEW[kind](path)
    return path


# --- what reads it ----------------------------------------------------------------------------------------------------


def commands(run: Path, other: Path) -> dict[str, list[str]]:
    place = run.parent.parent
    return {
        "runs": ["runs", str(run.parent)],
        "report": ["report", str(run), "--out", str(place / "report")],
        "merge": ["report", str(run), str(other), "--allow-mixed", "--out", str(place / "merged")],
        "rescore": ["rescore", str(run), "tldr-v1"],
        "trace": ["trace", "export", str(run), str(place / "traces.jsonl")],
        "export": ["export", str(run), str(place / "team")],
        "bench": ["bench", "--resume", str(run)],
    }


def ends_well(arguments: list[str]) -> tuple[int, str]:
    """A command ends by itself, and where it fails its last words are a sentence."""
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)
    assert result.exit_code in (0, 1, 2), (arguments, result.output)
    assert (result.exit_code == 0) != ("error:" in result.output), (arguments, result.output)
    return result.exit_code, " ".join(result.output.split())


def refused(kind: str, file: str) -> bool:
    """Whether finished cells of a damaged run would be run again, which takes long and is tested elsewhere."""
    return file in (f"{CELL}result.json", f"{CELL}cell.json")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "file"), TRIALS)
def test_every_command_ends(kind: str, file: str, run: Path, finished: Path) -> None:
    damage(run, kind, file)
    for name, arguments in commands(run, finished).items():
        if not (name == "bench" and refused(kind, file)):
            ends_well(arguments)
    try:
        live.state(run)
        live.page(run)
    except (ValueError, OSError) as error:  # which the server answers with a sentence
        assert str(error)


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", [kind for kind in NEW if kind != "nothing"])
def test_the_next_run_is_listed_and_the_damaged_one_says_why(kind: str, run: Path, finished: Path) -> None:
    shutil.copytree(finished, run.parent / "next")
    path = damage(run, kind, f"{CELL}train.jsonl")
    listed = {found.name: found for found in list_runs(run.parent)}
    assert (listed["next"].status, listed["run"].status) == ("done", "damaged")
    assert str(path) in listed["run"].reason


@pytest.mark.parametrize("kind", ["deep", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("pipe", "list"))])
def test_a_report_of_several_runs_leaves_out_the_damaged_one_and_says_so(kind: str, run: Path, finished: Path) -> None:
    path = damage(run, kind, f"{CELL}episodes/step-2.jsonl")
    code, output = ends_well(commands(run, finished)["merge"])
    assert code == 0
    assert str(path) in output.replace(" ", "")


@pytest.mark.parametrize("command", [["bench"], ["eval", "tldr-v0", "--team"]], ids=["suite", "team"])
@pytest.mark.parametrize("kind", NEW)
def test_whatever_lies_in_the_place_of_a_suite_or_a_team_is_refused_by_name(
    kind: str, command: list[str], tmp_path: Path
) -> None:
    NEW[kind](tmp_path / "foreign.toml")
    code, output = ends_well([*command, str(tmp_path / "foreign.toml")])
    assert (code, "foreign.toml" in output.replace(" ", "")) == (2, True)


def test_nothing_is_written_through_links(run: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious")
    for name in ("lock", "commands.txt", "curves.png", "report.md", "results.json"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(mine)
    ends_well(["bench", "--resume", str(run)])
    ends_well(["report", str(run)])
    assert mine.read_text() == "precious"


# --- wrong types at every key -----------------------------------------------------------------------------------------

WRONG = [None, [], {}, "x", -1, 1e999, True, 10**400]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value within another one."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from places(item, (*path, key))


def changed(value: Any, path: tuple[Any, ...], wrong: Any) -> Any:
    whole = json.loads(json.dumps(value))
    inner = whole
    for key in path[:-1]:
        inner = inner[key]
    if wrong is changed:
        inner.pop(path[-1])
    else:
        inner[path[-1]] = wrong
    return whole


READ = ["status.json", *(CELL + name for name in OF_CELL if name.endswith((".json", ".jsonl")) and "/" not in name)]


@pytest.mark.slow
@pytest.mark.parametrize("file", [file for file in READ if "failure" not in file])
def test_wrong_types_and_missing_keys_end_in_a_sentence(file: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [path] = run.glob(file)
    first, *rest = path.read_text().splitlines(keepends=True) if path.suffix == ".jsonl" else [path.read_text()]
    value = json.loads(first)
    signal.alarm(0)
    monkeypatch.setattr(page, "inline", lambda panel, about: "")  # drawings take most of the time
    monkeypatch.setattr(text, "save", lambda figure, *paths: None)
    for number, key in enumerate(places(value)):
        wrong = [*WRONG, changed][number % (1 + len(WRONG))]
        path.write_text(json.dumps(changed(value, key, wrong)) + "\n" + "".join(rest))
        try:
            list_runs(run.parent)
            write_report(run)
        except (ValueError, OSError, KeyError) as error:
            assert not isinstance(error, (json.JSONDecodeError, UnicodeError)), (key, wrong)
            assert str(error)
        except Exception as error:
            raise AssertionError((file, key, wrong)) from error
