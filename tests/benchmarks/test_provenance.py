"""What a run says about the code, the packages and the machine that made it."""

from __future__ import annotations

import re
import subprocess
from importlib import metadata
from pathlib import Path

from llm_dec_pomdp.benchmarks.provenance import commit, versions


def test_the_commit_is_that_of_the_repository_that_tracks_the_code(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)

    code, installed = tmp_path / "code", tmp_path / "environment"
    for folder in (code, installed):
        folder.mkdir()
        (folder / "a.py").write_text("1")
    git("init")
    git("add", "code")
    git("commit", "-m", "first")
    assert re.fullmatch("[0-9a-f]{40}", clean := commit(code))
    (code / "a.py").write_text("2")
    assert commit(code) == f"{clean}-dirty"
    assert commit(installed) != f"{clean}-dirty"  # it lies in the repository, which does not know it


def test_packages_and_machine_are_named() -> None:
    found = versions()
    assert found["packages"]["numpy"] == found["numpy"] == metadata.version("numpy")
    assert len(found["packages"]) > 20
    assert found["memory_gib"] > 0.1
    assert found["cores"] >= 1
