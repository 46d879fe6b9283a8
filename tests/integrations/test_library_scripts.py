"""The scripts for other libraries run, and those of many episodes learn: `nox -s "library(torchrl)"` and the like."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEARN = {
    "pettingzoo": ["pettingzoo_aec.py", "tldr-v0", "--steps", "3000"],
    "stable_baselines3": ["stable_baselines3_ppo.py", "tldr-v0", "--steps", "6000"],
    "torchrl": ["torchrl_mappo.py", "tldr-v0", "--steps", "3000"],
    "benchmarl": ["benchmarl_ppo.py", "tldr-v0", "mappo", "--steps", "3000"],
    "ray": ["rllib_ppo.py", "tldr-v0", "--steps", "3000"],
}


def run(library: str, *command: str) -> str:
    needed = "tree" if library == "ray" else library  # RLlib is a part of ray that needs more than ray
    if find_spec(needed) is None:
        pytest.skip(f"{library} is not installed; noxfile.py has the versions")
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("library", LEARN)
def test_a_library_learns_to_choose_from_a_menu(library: str) -> None:
    script, *arguments = LEARN[library]
    printed = run(library, f"examples/libraries/{script}", *arguments)
    numbers = re.search(r"([\d.]+) after \d+ episodes \(random ([\d.]+), best", printed)
    assert numbers, printed
    last, random = map(float, numbers.groups())
    assert last > random + 0.5


@pytest.mark.slow
def test_trl_trains_a_team_over_two_turns() -> None:
    assert "after 1 steps" in run("trl", "examples/trl_team.py", "--steps", "1")


@pytest.mark.slow
def test_trl_calls_the_tools_of_a_role() -> None:
    printed = run("trl", "research/trl_tools.py", "--steps", "1")
    returns = re.search(r"([\d.]+) at first, ([\d.]+) at the end of 1 steps", printed)
    assert returns and float(returns[1]) > 0.4, printed  # half of what it imitates reads the board


@pytest.mark.slow
def test_comlrl_trains_on_the_same_environment(tmp_path: Path) -> None:
    printed = run("comlrl", "research/peer_returns.py", str(tmp_path / "peer.json"), "--seeds", "0", "--steps", "1")
    assert "seed 0, comlrl: " in printed
