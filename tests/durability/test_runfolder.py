"""One writer per folder, a status for whoever looks, and logs that only grow."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from llm_dec_pomdp.storage.reading import FileError
from llm_dec_pomdp.storage.runfolder import (
    STATUS,
    RunFolderError,
    append,
    cut,
    locked,
    open_run,
    read_lines,
    read_status,
)
from llm_dec_pomdp.storage.signals import Interrupted

# --- one writer -------------------------------------------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from llm_dec_pomdp.storage.runfolder import open_run
with open_run(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


class Other:
    """Another process that holds a run folder until it is let go or killed."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "held\n"

    def __enter__(self) -> Other:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with Other(folder) as other:
        for resume in (False, True):
            with pytest.raises(RunFolderError, match=str(other.process.pid)):
                enter(folder, resume=resume)
        assert read_status(folder) is not None
        assert read_status(folder)[0] == "running"  # type: ignore[index]


def enter(folder: Path, *, resume: bool = False) -> None:
    with open_run(folder, resume=resume):
        pass


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with Other(folder):
        pass
    assert read_status(folder)[:2] == ("failed", "the process was killed")  # type: ignore[index]
    enter(folder, resume=True)
    assert read_status(folder)[0] == "done"  # type: ignore[index]


def test_a_second_writer_in_the_same_process_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(RunFolderError, match=str(os.getpid())):
        locked(tmp_path).__enter__()


# --- a run ------------------------------------------------------------------------------------------------------------


def status_after(folder: Path, error: BaseException | None) -> tuple[str, str]:
    try:
        with open_run(folder):
            if error is not None:
                raise error
    except BaseException as raised:
        assert raised is error
    found = read_status(folder)
    assert found is not None
    return found[0], found[1]


def test_the_status_tells_how_it_ended(tmp_path: Path) -> None:
    assert status_after(tmp_path / "a", None) == ("done", "")
    assert status_after(tmp_path / "b", Interrupted("SIGTERM")) == ("interrupted", "SIGTERM")
    reason, place = status_after(tmp_path / "c", ValueError("no rain"))[1].split(" (")
    assert reason == "ValueError: no rain"
    assert re.search(r"test_runfolder\.py:\d+, in status_after", place)
    assert status_after(tmp_path / "d", KeyboardInterrupt()) == ("failed", "KeyboardInterrupt: ")


def test_a_folder_without_a_run_has_no_status(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    (tmp_path / STATUS).write_text("{")
    with pytest.raises(FileError, match=STATUS):
        read_status(tmp_path)


def test_an_existing_run_is_not_overwritten_and_the_way_on_is_told(tmp_path: Path) -> None:
    enter(tmp_path / "run")
    with pytest.raises(FileExistsError, match=r"--resume \S+run"):
        enter(tmp_path / "run")


def test_a_folder_of_something_else_is_not_offered_to_resume(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(FileExistsError) as caught:
        enter(tmp_path)
    assert "--resume" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(RunFolderError, match=str(tmp_path)):
        enter(tmp_path, resume=True)


def test_what_a_killed_writer_left_half_done_is_removed(tmp_path: Path) -> None:
    enter(tmp_path)
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / ".cell.json-123").write_text("{")
    enter(tmp_path, resume=True)
    assert list((tmp_path / "cells").iterdir()) == []


# --- logs -------------------------------------------------------------------------------------------------------------


def log(path: Path, *steps: int) -> Path:
    for step in steps:
        append(path, {"step": step, "text": "ä\n"})
    return path


def steps_in(path: Path) -> list[int]:
    return [line["step"] for line in read_lines(path)]


@pytest.mark.parametrize(("last", "left"), [(0, []), (2, [1, 2]), (3, [1, 2, 3]), (9, [1, 2, 3])])
def test_lines_beyond_the_checkpoint_are_cut(last: int, left: list[int], tmp_path: Path) -> None:
    path = log(tmp_path / "x.jsonl", 1, 2, 3)
    before = path.read_bytes()
    cut(path, "step", last)
    assert steps_in(path) == left
    assert before.startswith(path.read_bytes())


def test_a_line_that_was_not_finished_is_cut(tmp_path: Path) -> None:
    path = log(tmp_path / "x.jsonl", 1, 2)
    with path.open("a") as file:
        file.write('{"step": 3, "te')
    assert steps_in(path) == [1, 2]
    cut(path, "step", 5)
    assert steps_in(log(path, 3)) == [1, 2, 3]


def test_what_is_not_finite_is_null(tmp_path: Path) -> None:
    append(tmp_path / "x.jsonl", {"a": math.nan, "b": {"c": [math.inf, 1.0]}})
    assert (tmp_path / "x.jsonl").read_text() == '{"a": null, "b": {"c": [null, 1.0]}}\n'
