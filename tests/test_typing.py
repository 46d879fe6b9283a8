"""Editors and type checkers see the package where the README's command installed it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import llm_dec_pomdp

env = llm_dec_pomdp.make("tldr-v0")
team = llm_dec_pomdp.load_team(env)
reveal_type(env)
reveal_type(team.act({"agent_0": "hello"}))
reveal_type(llm_dec_pomdp.evaluate(team, env).return_percent.mean)
llm_dec_pomdp.train(team, env, on_step=lambda step: reveal_type(step.return_percent))
llm_dec_pomdp.train(team, env, steps="many")
"""


@pytest.mark.slow
def test_a_type_checker_outside_the_clone_knows_the_functions_of_the_package(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "program.py"]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert re.findall(r'is "(.*)"', output) == ["TextDecPOMDP", "dict[str, str]", "float", "float"], output
    assert re.findall(r":(\d+):\d+ - error", output) == ["10"], output
