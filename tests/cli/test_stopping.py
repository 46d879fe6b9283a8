"""Ctrl-C in a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SIZE = ["--prompts", "8", "--items", "1", "--max-new-tokens", "32", "--device", "cpu"]
CTRL_C = b"\x03"
pytestmark = pytest.mark.slow  # each loads torch in a process of its own


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self.output = b""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.environ["COLUMNS"] = "150"
            os.execlp("llm-dec-pomdp", "llm-dec-pomdp", *arguments)

    def wait_for(self, shown: Callable[[str], bool], seconds: float = 120) -> None:
        """Read until something is shown."""
        deadline = time.monotonic() + seconds
        while not shown(self.output.decode(errors="replace")):
            assert time.monotonic() < deadline, self.output[-2000:]
            assert self.read(), self.output[-2000:]

    def read(self) -> bool:
        """Read what there is; False when the command has ended."""
        if select.select([self._terminal], [], [], 0.05)[0]:
            try:
                self.output += (text := os.read(self._terminal, 65536))
            except OSError:  # Linux's way to say that nobody writes any more
                return False
            return bool(text)
        return True

    def press(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def code(self) -> int:
        """The exit code, once it has ended."""
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def status(folder: Path) -> str:
    return json.loads((folder / "status.json").read_text())["state"]


def test_the_second_ctrl_c_ends_a_training_at_once_and_leaves_the_terminal_in_order(tmp_path: Path) -> None:
    terminal = Terminal(
        "train", "tldr-v0", "--model", "builtin:tiny", *SIZE, "--steps", "500", "--out", str(tmp_path / "run")
    )
    terminal.wait_for(lambda text: " 1/500" in text)
    terminal.press(CTRL_C)
    terminal.wait_for(lambda text: "to stop at once" in text, seconds=10)
    assert "finishing step" in terminal.output.decode(errors="replace")
    terminal.press(CTRL_C)
    assert terminal.code() == 130
    assert terminal.output.rfind(b"\x1b[?25h") > terminal.output.rfind(b"\x1b[?25l")  # the cursor is shown
    assert status(tmp_path / "run") == "interrupted"


def test_one_ctrl_c_lets_the_cell_of_a_benchmark_save_its_step(tmp_path: Path) -> None:
    """A terminal sends it to the runner and to the processes of the cells."""
    folder = tmp_path / "run"
    small = ["--set", "sampling.max_new_tokens=16", "--set", "training.steps=500", "--set", "training.save_every=0"]
    terminal = Terminal("bench", "quick", *small, "--out", str(folder))
    terminal.wait_for(lambda text: bool(re.search(r" [1-9]\d*/500", text)))
    terminal.press(CTRL_C)
    assert terminal.code() == 75
    assert "finishing step" in terminal.output.decode(errors="replace")
    assert status(folder) == "interrupted"
    assert len(list(folder.glob("cells/*/checkpoints/step-*"))) == 1
