"""`check_env` in a file of the tutorial's own lines: as a script, and as a module that the check imports again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from llm_dec_pomdp.envs.checks import CHECKS, CHILD, CheckFailure, check_env

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "environment.md"
FUSE = """import os, pathlib
imports = pathlib.Path(__file__).with_name("imports.txt")
with imports.open("a") as file:
    file.write("x")
if len(imports.read_text()) > 6:  # a check that checks again would go on without end
    os._exit(9)
"""
CHECK = """
import llm_dec_pomdp
print(llm_dec_pomdp.check_env(llm_dec_pomdp.make("acme/echo-v0")))
"""
COMMAND = "from llm_dec_pomdp.cli import main; main()"


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    blocks = PAGE.read_text(encoding="utf-8").split("```python\n")
    lines = next(block.partition("```")[0] for block in blocks if "class Echo" in block)
    path = tmp_path / "echo.py"
    path.write_text(FUSE + lines + CHECK, encoding="utf-8")
    return path


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_a_script_checks_its_own_class_without_the_check_that_needs_a_module(echo: Path) -> None:
    done = run("echo.py", folder=echo.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([name for name in CHECKS if name != "processes"])
    assert "the conformance check 'processes' of acme/echo-v0 was not run: Echo of this script" in done.stderr


@pytest.mark.slow
def test_a_module_that_checks_when_it_is_imported_is_checked_once_in_every_process(echo: Path) -> None:
    done = run("-c", COMMAND, "check", "echo:Echo", folder=echo.parent)
    assert done.returncode == 0, done.stderr
    assert f"{len(CHECKS)} checks passed" in done.stdout
    imports = (echo.parent / "imports.txt").read_text()
    assert imports == "xxx"  # here, and in the process of either check


def test_a_copy_that_does_not_come_to_an_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, echo: Path
) -> None:
    slow = f"import os, time\nif {CHILD!r} in os.environ:\n    time.sleep(600)\n"
    (tmp_path / "slow_echo.py").write_text(slow + echo.read_text().removesuffix(CHECK).removeprefix(FUSE))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("llm_dec_pomdp.envs.checks.processes.LEAST_SECONDS", 0.5)
    from slow_echo import Echo  # type: ignore[import-not-found]  # pyright: ignore

    with pytest.raises(CheckFailure, match="'processes': another process did not"):
        check_env(Echo())
    assert CHILD not in os.environ


def test_an_end_without_an_answer_is_told_and_harms_no_other_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, echo: Path
) -> None:
    lines = echo.read_text().removesuffix(CHECK).removeprefix(FUSE).replace("acme/echo-v0", "acme/short_echo-v0")
    (tmp_path / "short_echo.py").write_text(f"import os\nif {CHILD!r} in os.environ:\n    os._exit(0)\n{lines}")
    monkeypatch.syspath_prepend(str(tmp_path))
    from short_echo import Echo  # type: ignore[import-not-found]  # pyright: ignore

    with pytest.raises(CheckFailure, match=r"'processes'.*it ended without an answer"):
        check_env(Echo())
    (tmp_path / "short_echo.py").write_text(lines)
    assert check_env(Echo()) == list(CHECKS)
