"""The functions of the package itself: the same numbers as the command line, in a line each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from models import same, save_model, weights
from typer.testing import CliRunner

import llm_dec_pomdp
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.training import TrainingStep
from llm_dec_pomdp.training.checkpoint import CheckpointError

ONE_WORD = llm_dec_pomdp.Sampling(max_new_tokens=1)


def tiger() -> TextDecPOMDP:
    return llm_dec_pomdp.make("dectiger-v0", max_turns=2)


def trained(steps: int, **options: Any) -> llm_dec_pomdp.Team:
    team = llm_dec_pomdp.load_team(tiger(), "builtin:table")
    llm_dec_pomdp.train(team, tiger(), steps=steps, learning_rate=0.1, sampling=ONE_WORD, **options)
    return team


def test_a_team_learns_and_is_measured_in_five_lines() -> None:
    env, steps = tiger(), list[TrainingStep]()
    team = llm_dec_pomdp.load_team(env, "builtin:table")
    before = llm_dec_pomdp.evaluate(team, env, samples=64, sampling=ONE_WORD)
    llm_dec_pomdp.train(team, env, "marloo", steps=20, learning_rate=0.3, sampling=ONE_WORD, on_step=steps.append)
    after = llm_dec_pomdp.evaluate(team, env, samples=64, sampling=ONE_WORD)
    assert after.return_percent.mean > before.return_percent.mean + 5
    assert [step.number for step in steps] == list(range(1, 21))


def test_an_evaluation_is_that_of_the_command_line(tmp_path: Path) -> None:
    options = ["--model", "builtin:table", "--max-new-tokens", "1", "--samples", "3", "--seed", "7"]
    ran = CliRunner().invoke(app, ["eval", "dectiger-v0", *options, "--out", str(tmp_path / "run")])
    assert ran.exit_code == 0, ran.output
    [written] = tmp_path.glob("run/cells/*/result.json")
    result = json.loads(written.read_text(encoding="utf-8"))
    env = llm_dec_pomdp.make("dectiger-v0")
    team = llm_dec_pomdp.load_team(env, "builtin:table")
    summary = llm_dec_pomdp.evaluate(team, env, samples=3, sampling=ONE_WORD, seed=7)
    assert result["summary"]["return_percent"]["mean"] == summary.return_percent.mean
    assert set(result["summary"]["measured"]) == set(summary.measured)


def test_a_team_is_measured_as_it_was_trained(tmp_path: Path) -> None:
    env, short = llm_dec_pomdp.make("tldr-v0", split="test"), llm_dec_pomdp.Sampling(temperature=0.5, max_new_tokens=6)
    team = llm_dec_pomdp.load_team(env, "builtin:tiny", sharing="shared")
    llm_dec_pomdp.train(team, env, steps=1, prompts_per_step=1, sampling=short, checkpoints=tmp_path)
    again = llm_dec_pomdp.load_team(env, "builtin:tiny", weights=tmp_path / "step-000001", sharing="shared")
    for measured in (team, again):
        (group, *_) = llm_dec_pomdp.collect(measured, env, items=1)
        texts = [text for turn in group.episodes[0].turns for text in turn.actions.values()]
        assert max(len(text.token_ids) for text in texts) == 6
        assert measured.sampling == short


def test_the_sampling_of_an_agent_is_saved_with_its_team(tmp_path: Path) -> None:
    change = {"agent_0": llm_dec_pomdp.Sampling(temperature=0.5)}
    team = llm_dec_pomdp.load_team(tiger(), "builtin:table", sampling=change)
    llm_dec_pomdp.train(team, tiger(), steps=1, prompts_per_step=1, sampling=ONE_WORD, checkpoints=tmp_path / "trained")
    llm_dec_pomdp.save_team(team, tmp_path / "saved")
    for place in ("saved", "trained/step-000001"):
        again = llm_dec_pomdp.load_team(tiger(), "builtin:table", weights=tmp_path / place)
        assert again.sampling_of("agent_0", again.sampling) == ONE_WORD.model_copy(update={"temperature": 0.5})
        assert again.sampling_of("agent_1", again.sampling) == ONE_WORD
    with pytest.raises(ConfigError, match="'agent_7'"):
        llm_dec_pomdp.load_team(tiger(), "builtin:table", sampling={"agent_7": ONE_WORD})


@pytest.mark.slow
@pytest.mark.parametrize("form", ["mapping", "file"])
def test_two_models_in_a_team_learn_and_come_back(form: str, tmp_path: Path) -> None:
    env = llm_dec_pomdp.make("tldr-v0")
    mine = save_model(tmp_path / "mine", max_position_embeddings=1024)
    roles: Any = {"summary": mine, "elaboration": {"model": "builtin:tiny", "sharing": "lora", "lora_rank": 2}}
    if form == "file":
        roles = tmp_path / "team.toml"
        roles.write_text(f'[members]\nsummary = {mine!r}\nelaboration = {{ sharing = "lora", lora_rank = 2 }}\n')
    team = llm_dec_pomdp.load_team(env, roles, device="cpu")
    before = weights(team)
    short = llm_dec_pomdp.Sampling(max_new_tokens=48)
    llm_dec_pomdp.train(team, env, steps=1, prompts_per_step=2, learning_rate=0.01, sampling=short)
    assert [same([b], [a]) for b, a in zip(before, weights(team), strict=True)] == [False, False]
    llm_dec_pomdp.save_team(team, tmp_path / "saved")
    again = llm_dec_pomdp.load_team(env, roles, device="cpu", weights=tmp_path / "saved")
    assert same(weights(team), weights(again))


def test_a_training_goes_on_from_its_folder_bit_for_bit(tmp_path: Path) -> None:
    whole = trained(4)
    trained(2, checkpoints=tmp_path)
    assert same(weights(whole), weights(trained(4, checkpoints=str(tmp_path))))
    with pytest.raises(CheckpointError, match="group_size: 8 -> 4"):
        trained(6, checkpoints=tmp_path, group_size=4)


def test_a_training_takes_names_of_trl() -> None:
    seen = list[TrainingStep]()
    trained(1, prompts_per_step=1, num_generations=3, epsilon=0.1, on_step=seen.append)
    assert seen[0].episodes == 3


def test_a_team_acts_on_what_an_environment_tells() -> None:
    env = tiger()
    team = llm_dec_pomdp.load_team(env, "builtin:table")
    observations, _ = env.reset(seed=0)
    actions = team.act(observations, ONE_WORD, seed=3)
    assert actions == team.act({agent: env.history(agent) for agent in env.agents}, ONE_WORD, seed=3)
    observations, rewards, *_ = env.step(actions)
    assert set(rewards) == set(env.possible_agents)


def test_groups_and_numbers_are_short_to_look_at() -> None:
    env = tiger()
    team = llm_dec_pomdp.load_team(env, "builtin:table")
    groups = llm_dec_pomdp.collect(team, env, samples=2, sampling=ONE_WORD)
    shown = [groups[0], groups[0].episodes[0], team, llm_dec_pomdp.evaluate(team, env, sampling=ONE_WORD), env]
    assert all(len(repr(row)) < 250 for row in shown), shown
    assert repr(groups[0].episodes[0]).startswith(f"Episode({env.items[0].id!r}, 2 turns, return ")
    assert repr(env) == "<dectiger-v0: explorer 1, explorer 2; tasks: 1, turns: 2>"


# --- tasks at hand ----------------------------------------------------------------------------------------------------

ROWS: list[dict[str, Any]] = [{"id": f"p{k}", "prompt": f"I lost my key number {k}."} for k in range(3)]


def frames() -> list[Any]:
    import datasets
    import pandas

    return [ROWS, datasets.Dataset.from_list(ROWS), pandas.DataFrame(ROWS), iter(ROWS)]


@pytest.mark.parametrize("kind", range(4))
def test_tasks_are_taken_from_any_rows(kind: int) -> None:
    env = llm_dec_pomdp.make("tldr-v0", tasks=frames()[kind])
    assert [(item.id, item.prompt) for item in env.items] == [(row["id"], row["prompt"]) for row in ROWS]


def test_columns_of_rows_can_be_named() -> None:
    env = llm_dec_pomdp.make("tldr-v0", tasks=[{"post": "I lost it."}], fields={"prompt": "post"})
    assert env.items[0].prompt == "I lost it."


def test_a_team_for_an_environment_is_that_of_its_agents() -> None:
    env = tiger()
    menus = {agent: env.choices(agent) for agent in env.possible_agents}
    by_hand = load_team(env.possible_agents, "builtin:table", menus=menus)
    assert same(weights(by_hand), weights(llm_dec_pomdp.load_team(env, "builtin:table")))
