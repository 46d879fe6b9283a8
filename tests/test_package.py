"""What is released is whole: files, versions, pages."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import llm_dec_pomdp

ROOT = Path(__file__).resolve().parents[1]


def git_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def copy_to(folder: Path) -> None:
    """What git has and nothing else, so that no file of an earlier build gets in."""
    for name in git_files():
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        else:
            target.write_bytes(source.read_bytes())


@pytest.mark.slow
def test_the_wheel_made_from_the_sdist_holds_what_git_has(tmp_path: Path) -> None:
    source, built = tmp_path / "source", tmp_path / "made"
    copy_to(source)
    # Of the sdist too: without further arguments, the wheel is built from it.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(built), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = built.glob("*.whl")
    assert wheel.name.startswith(f"llm_dec_pomdp-{llm_dec_pomdp.__version__}-")
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if ".dist-info/" not in name}
    hostile = {f"llm_dec_pomdp/sandbox/hostile/{path.name}" for path in (ROOT / "tests/sandbox/hostile").glob("*.py")}
    known = {name for name in git_files() if name.startswith("llm_dec_pomdp/") and not (ROOT / name).is_symlink()}
    assert packed == known | hostile


def test_two_lines_of_the_readme_do_everything_on_a_fresh_machine_and_ci_runs_the_second() -> None:
    lines = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    environment = "python3 -m venv .venv && . .venv/bin/activate && pip install -c constraints.txt -e"
    assert lines == [f"{environment} . && llm-dec-pomdp bench quick", f'{environment} ".[dev]" && pytest']
    (pattern,) = re.findall(r"eval .*grep -m1 '(.*)' README\.md", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert [line for line in lines if re.search(pattern, line)] == lines[1:]


def test_all_files_have_the_same_version() -> None:
    version = llm_dec_pomdp.__version__
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version = {{{version}}}" in (ROOT / "docs" / "citing.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[0] == version


def test_every_embedded_file_has_a_licence_on_the_page_of_data() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    data = ROOT / "llm_dec_pomdp" / "data"
    written = re.findall(r"^\| `(\S+)`", page, re.MULTILINE)
    covered = {
        path for pattern in written for path in data.glob(pattern.rstrip("/") + ("/*" if pattern[-1] == "/" else ""))
    }
    assert {path for path in data.rglob("*") if path.is_file() and "__pycache__" not in path.parts} == covered
