"""The site is whole, and its tutorial does what it shows."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.ipynb"
ROOMS = (
    "",
    ".envs",
    ".envs.wrappers",
    ".agents",
    ".rollout",
    ".training",
    ".training.workers",
    ".episodes",
    ".serving",
)


def printed(notebook: dict[str, Any]) -> str:
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    return "".join("".join(output.get("text", "")) for output in outputs)


def returns(notebook: dict[str, Any]) -> list[float]:
    """Those of all evaluations: before, after, and of the control."""
    return [float(value) for value in re.findall(r"Summary\(return ([\d.]+) %", printed(notebook))]


def holds(notebook: dict[str, Any]) -> None:
    before, after, control = returns(notebook)
    assert after > before + 10
    assert after > control + 10


def test_the_tutorial_is_stored_with_what_it_printed() -> None:
    notebook = json.loads(TUTORIAL.read_text(encoding="utf-8"))
    assert "site-packages" not in printed(notebook)  # no warning from this machine
    holds(notebook)


@pytest.mark.slow
def test_the_tutorial_teaches_a_team() -> None:
    nbformat, nbclient = (pytest.importorskip(name) for name in ("nbformat", "nbclient"))
    notebook = nbformat.read(TUTORIAL, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    holds(notebook)


@pytest.mark.slow
def test_the_site_has_all_pages_and_every_public_name(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings", reason="pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = "".join(path.read_text(encoding="utf-8") for path in sorted((tmp_path / "reference").rglob("*.html")))
    shown = set(re.findall(r'id="(llm_dec_pomdp[\w.]*)"', pages))
    for room in ROOMS:
        module = f"llm_dec_pomdp{room}"
        names = [name for name in importlib.import_module(module).__all__ if not name.startswith("__")]
        # A function with the name of its module stands below it: rollout.replay.replay.
        assert [name for name in names if not {f"{module}.{name}", f"{module}.{name}.{name}"} & shown] == [], module
    assert "magrpo" in (tmp_path / "tutorial" / "index.html").read_text(encoding="utf-8")
