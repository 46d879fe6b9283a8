"""The command `engine` starts a server with what training needs of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = [sys.executable, "-c", "from llm_dec_pomdp.cli import main; main()", "engine"]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=100)


def test_the_server_runs_in_its_own_environment_with_flags_of_ours_and_those_that_were_given(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("vllm", "python"):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\necho {name} "$@" $VLLM_ALLOW_RUNTIME_LORA_UPDATING\n')
        (tmp_path / "bin" / name).chmod(0o755)
    done = command("vllm", "folder", "--environment", str(tmp_path), "--port", "81", "--", "--dtype", "float32")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("python -m vllm.")
    assert "--model folder" in done.stdout
    assert "--enable-lora" in done.stdout
    assert done.stdout.endswith("--dtype float32 True\n")
    assert 'url = "http://127.0.0.1:81"' in done.stderr


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    done = command("vllm", "folder", "--environment", str(tmp_path))
    assert (done.returncode, "pip install vllm" in " ".join(done.stderr.split())) == (2, True)
    assert "known: vllm" in command("ollama", "folder").stderr
