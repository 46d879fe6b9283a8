"""Every example is short and runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import llm_dec_pomdp

ROOT = Path(__file__).parent.parent
LIBRARIES = set((ROOT / "examples" / "libraries").glob("*.py")) - {ROOT / "examples" / "libraries" / "two_tasks.py"}
EXAMPLES = sorted({*(ROOT / "examples").glob("*.py"), *LIBRARIES})


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_has_at_most_60_lines_and_the_whole_algorithm_at_most_250(path: Path) -> None:
    limit = 250 if path.name == "magrpo_in_one_file.py" else 60
    assert len(path.read_text(encoding="utf-8").splitlines()) <= limit


@pytest.mark.slow
def test_random_agents_play_everything() -> None:
    lines = run("examples/random_agents.py").splitlines()
    assert [line.split()[0] for line in lines] == list(llm_dec_pomdp.registry)


@pytest.mark.slow
def test_a_team_of_two_trains() -> None:
    printed = run("examples/train_team.py", "--steps", "1", "--posts", "2")
    assert "step   1" in printed
    assert "elaboration: " in printed


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--shuffle",)], ids=["rewards", "shuffled"])
def test_magrpo_in_one_file_trains(options: tuple[str, ...]) -> None:
    printed = run("examples/magrpo_in_one_file.py", "--env", "relay-v0", "--updates", "1", *options)
    assert "update   1: training return" in printed
    assert "after   1 updates: test return" in printed


@pytest.mark.slow
def test_a_main_agent_and_its_sub_agents_train() -> None:
    printed = run("examples/main_and_sub_agents.py", "--steps", "2")
    assert "step   2" in printed
    assert "agent_0 (main) was told 'Q " in printed


@pytest.mark.slow
def test_every_agent_of_the_research_episode_earns_the_maximum() -> None:
    printed = run("examples/research_episode.py")
    assert "rewards: {'agent_0': 1.0, 'agent_1': 1.0, 'agent_2': 1.0, 'agent_9': 1.0}" in printed


@pytest.mark.slow
def test_reinforce_learns_a_bandit_and_its_control_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    env, word = llm_dec_pomdp.make("bandit-v0"), llm_dec_pomdp.Sampling(max_new_tokens=1)
    reached: list[float] = []
    for learner in ("reinforce:Reinforce", "reinforce:Reinforce_shuffled"):
        team = llm_dec_pomdp.load_team(env, "builtin:table")
        llm_dec_pomdp.train(team, env, learner, steps=40, prompts_per_step=32, group_size=1, sampling=word)
        reached.append(llm_dec_pomdp.evaluate(team, env, samples=20).return_percent.mean)
    assert reached[0] > 90
    assert reached[1] < 50


@pytest.mark.slow
def test_a_learner_from_outside_is_taken_up_by_bench(tmp_path: Path) -> None:
    suite = tmp_path / "own.toml"
    suite.write_text(
        'name = "own"\nmethods = []\nenvironments = [{ id = "tldr-v0" }]\nsampling = { max_new_tokens = 12 }\n'
        "training = { steps = 1, prompts_per_step = 2, group_size = 2 }\nevaluation = { items = 2 }\n"
    )
    learner = "examples.best_of_group:BestOfGroup"
    command = str(Path(sys.executable).parent / "llm-dec-pomdp")
    printed = run(command, "bench", str(suite), "--algorithm", learner, "--out", str(tmp_path / "run"), "--json")
    (result,) = json.loads(printed)["results"]
    assert result["cell"]["method"]["name"] == learner
    assert result["train_seconds"] > 0
