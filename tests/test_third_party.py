"""An environment from another package, examples/acme_game: installed, found, checked, played."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.checks import CHECKS, check_env
from llm_dec_pomdp.envs.wrappers import Centralized, Sequential
from llm_dec_pomdp.types import TaskItem

ROOT = Path(__file__).parent.parent
PROJECT = ROOT / "examples" / "acme_game"
TOWN = TaskItem(
    "line",
    "A town:\nMill - Park\nPark - Castle\nCastle - School\nSchool - Market",
    fields={"ann": "Mill", "ben": "Castle"},
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the package."""
    folder = tmp_path_factory.mktemp("acme")
    source = shutil.copytree(PROJECT, folder / "source")  # building leaves folders behind
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--target", str(folder / "site"), str(source)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def acme() -> Any:
    """The module itself."""
    sys.path.insert(0, str(PROJECT))
    try:
        yield importlib.import_module("acme_game")
    finally:
        sys.path.remove(str(PROJECT))


def run(code: str, path: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


COMMAND = "from llm_dec_pomdp.cli import main; main()"
REGISTER = """
import llm_dec_pomdp
llm_dec_pomdp.register("acme/my-env-v0", entry_point="acme_game:Meet")
env = llm_dec_pomdp.make("acme/my-env-v0", split="all")
print(*llm_dec_pomdp.check_env(env, rows=None), sep="\\n")
"""


def test_an_environment_costs_one_short_module() -> None:
    assert len((PROJECT / "acme_game.py").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.slow
def test_an_installed_package_is_found_and_keeps_every_law(installed: Path) -> None:
    result = json.loads(run(COMMAND, installed, "check", "acme/meet-v0", "--json"))
    assert result == {"id": "acme/meet-v0", "passed": list(CHECKS), "failure": None}


@pytest.mark.slow
def test_an_installed_package_is_listed(installed: Path) -> None:
    listed = json.loads(run(COMMAND, installed, "list", "--json"))["environments"]
    (found,) = [entry for entry in listed if entry["id"] == "acme/meet-v0"]
    assert found["tasks"] == 40


def test_a_class_is_made_by_its_path() -> None:
    env = llm_dec_pomdp.make("llm_dec_pomdp.envs.writing.tldr:TLDR", max_turns=2)
    assert (env.metadata["name"], env.max_turns) == ("tldr-v0", 2)


@pytest.mark.slow
def test_register_makes_it_known_under_any_id() -> None:
    assert run(REGISTER, PROJECT).splitlines() == list(CHECKS)


@pytest.mark.slow
def test_the_example_of_the_manual(installed: Path) -> None:
    printed = run("import acme_game, doctest; print(*doctest.testmod(acme_game))", installed)
    assert printed == "0 5\n"


@pytest.mark.parametrize("protocol", [Centralized, pytest.param(Sequential, marks=pytest.mark.slow)])
def test_it_can_be_played_under_a_protocol(acme: ModuleType, protocol: Any) -> None:
    assert check_env(protocol(acme.Meet())) == list(CHECKS)


@pytest.mark.parametrize(
    ("ann", "ben", "parts"),
    [
        ("Park", "Park", (0.5, 0.5, 1.0)),
        ("Market", "Market", (0.5, 0.5, 2 / 5)),
        ("Park", "Park or Mill", (0.25, 0.0, 0.0)),
        ("", "", (0.0, 0.0, 0.0)),
    ],
)
def test_reward(acme: ModuleType, ann: str, ben: str, parts: tuple[float, ...]) -> None:
    env = acme.Meet([TOWN])
    env.reset(seed=0)
    _, rewards, *_ = env.step({"agent_0": ann, "agent_1": ben})
    assert tuple(env.last_score.components.values()) == pytest.approx(parts)
    assert rewards["agent_0"] == pytest.approx(sum(parts))


def test_nobody_is_told_where_the_other_one_stands(acme: ModuleType) -> None:
    observations, _ = acme.Meet([TOWN]).reset(seed=0)
    requests = {agent: text.split("\n\n")[1] for agent, text in observations.items()}
    assert ("Mill" in requests["agent_0"], "Castle" in requests["agent_0"]) == (True, False)
    assert ("Mill" in requests["agent_1"], "Castle" in requests["agent_1"]) == (False, True)
