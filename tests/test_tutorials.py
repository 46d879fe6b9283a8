"""The programs of docs/tutorials, of docs/tools.md and of the README print what the pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PROGRAM, PRINTED = (re.compile(rf"^```{kind}\n(.*?)^```", re.DOTALL | re.MULTILINE) for kind in ("python", "text"))


def run(program: str, folder: Path) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


def plays(page: str, module: str, folder: Path) -> None:
    """The first program of a page is a module of the user's, the others follow each other."""
    text = (DOCS / page).read_text(encoding="utf-8")
    first, *others = PROGRAM.findall(text)
    (folder / f"{module}.py").write_text(first, encoding="utf-8")
    assert run("\n".join([f"import {module}", *others]), folder) == "".join(PRINTED.findall(text))


def test_the_environment_of_the_tutorial_is_learnt(tmp_path: Path) -> None:
    plays("tutorials/environment.md", "echo", tmp_path)


def test_the_tools_of_the_page_answer_as_it_says(tmp_path: Path) -> None:
    plays("tools.md", "desk", tmp_path)


@pytest.mark.slow
def test_the_learner_of_the_tutorial_learns_and_its_control_does_not(tmp_path: Path) -> None:
    plays("tutorials/learner.md", "best_of", tmp_path)


def test_the_first_program_of_the_readme_earns_what_it_says(tmp_path: Path) -> None:
    first = PROGRAM.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    assert run(first, tmp_path).strip() == first.strip().rpartition("  # ")[2]
