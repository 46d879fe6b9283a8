"""How a user finds what there is: completion, help pages, manuals, `python -m`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("train tl", {"tldr-v0", "tldr-v1", "tldr-v2"}),
        ("train tldr-v0 --algorithm mar", {"mareinforce", "marloo", "maremax"}),
        ("bench qu", {"quick"}),
    ],
)
def test_names_are_completed_without_torch(line: str, completed: set[str]) -> None:
    words = ["llm-dec-pomdp", *line.split()]
    asked = {
        "_LLM_DEC_POMDP_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    code = "import atexit, sys\natexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"
    code += "from llm_dec_pomdp.cli import app\napp(prog_name='llm-dec-pomdp')"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True, timeout=100
    )
    assert set(done.stdout.split()) == completed
    assert done.stderr.split()[-1] == "False"


def test_the_package_is_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "llm_dec_pomdp", "--version"], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
