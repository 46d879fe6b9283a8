"""The command `engine` starts a server with what training needs of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llm_dec_pomdp.cli import app

PROGRAM = [sys.executable, "-c", "from llm_dec_pomdp.cli import main; main()", "engine"]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=100)


def refused(*arguments: str) -> str:
    """The sentence with which it ends before a server is started."""
    result = CliRunner().invoke(app, ["engine", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    return " ".join(result.stderr.split())


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """One whose programs say how they were called, and with which settings."""
    (tmp_path / "bin").mkdir()
    for name in ("vllm", "python"):
        (tmp_path / "bin" / name).write_text(
            f'#!/bin/sh\necho {name} "$@" "$VLLM_ALLOW_RUNTIME_LORA_UPDATING.$VLLM_SERVER_DEV_MODE"\n'
            "echo key $VLLM_API_KEY >&2\n"
        )
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def test_the_server_runs_in_its_own_environment_with_flags_of_ours_and_those_that_were_given(environment: Path) -> None:
    done = command("vllm", "folder", "--environment", str(environment), "--port", "81", "--", "--dtype", "float32")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("python -m vllm.")
    assert "--model folder" in done.stdout
    assert "--enable-lora" in done.stdout
    assert done.stdout.endswith("--dtype float32 True.\n")
    assert 'url = "http://127.0.0.1:81"' in done.stderr


@pytest.mark.slow
def test_a_server_has_a_key_and_answers_no_web_page_of_others(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("vllm", "folder", "--environment", str(environment), "--port", "81")
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-mine")
    done = command(*given)
    assert '--allowed-origins ["http://localhost:81", "http://127.0.0.1:81"]' in done.stdout
    assert "a-key-of-mine" not in done.stdout  # where all users of the machine would see it
    assert done.stderr.endswith("key a-key-of-mine\n")
    monkeypatch.delenv("OPENAI_API_KEY")
    first, second = (command(*given).stderr.split() for _ in "12")
    assert f"OPENAI_API_KEY={first[-1]}" in first
    assert len(first[-1]) > 20
    assert first[-1] != second[-1]


@pytest.mark.parametrize(("option", "flags"), [("--all-weights", ""), ("--sleep", "--enable-sleep-mode --enable-lora")])
def test_a_server_that_can_be_changed_can_be_reached_from_this_machine_alone(
    option: str, flags: str, environment: Path
) -> None:
    given = ("vllm", "folder", "--environment", str(environment), option, "--")
    done = command(*given, "--dtype", "float32")
    assert done.stdout.endswith("--dtype float32 True.1\n")
    assert "--host 127.0.0.1" in done.stdout
    assert flags in done.stdout
    assert ("--enable-lora" in done.stdout) == ("--enable-lora" in flags)
    for host in (["--host", "0.0.0.0"], ["--host=0.0.0.0"]):
        assert "--host" in refused(*given, *host)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    assert "pip install vllm" in refused("vllm", "folder", "--environment", str(tmp_path))
    assert "known: vllm" in refused("ollama", "folder")
