"""Learners and environments: what does not fit is refused before anything is loaded, and the rest runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import llm_dec_pomdp
from llm_dec_pomdp.algorithms.registration import algorithms, learns
from llm_dec_pomdp.benchmarks import setup
from llm_dec_pomdp.benchmarks.checks import check_cells
from llm_dec_pomdp.benchmarks.suite import Cell, Suite
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.config import ConfigError, build
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.training.fit import fitting_learners

LEARNERS = [name for name in algorithms if learns(name)]
HIERARCHIES = ("research-v0", "keys-v0")


def options_of(env_id: str) -> dict[str, Any]:
    """What an environment cannot be made without."""
    return {"judge": "base"} if env_id in ("tldr-v2", "arxiv-v2") else {}


def cell(env_id: str, learner: str, model: str = "", **options: Any) -> Cell:
    method = {"name": learner, "options": options}
    size = {"steps": 1, "prompts_per_step": 1, "group_size": 2}
    values = {"name": "fit", "methods": [method], "training": size}
    values["environments"] = [{"id": env_id, "options": options_of(env_id)}]
    values["models"] = [{"name": model}]
    short = {"sampling": {"max_new_tokens": 1}, "evaluation": {"items": 1, "samples": 1}}
    [only] = build(Suite, {**values, **short}, source="test").cells()
    return only


def refused(env_id: str) -> list[str]:
    """The learners that need pairs, or a team to imitate, or one whose actions are listed."""
    env = llm_dec_pomdp.make(env_id, **options_of(env_id))
    taught = env_id in HIERARCHIES or env.facts.optimum is not None
    listed = "optimal" in env.facts.scripts and all(map(env.choices, env.possible_agents))
    return ["reward_model", *([] if taught else ["imitation"]), *([] if listed else ["distil"])]


@pytest.mark.parametrize("env_id", list(llm_dec_pomdp.registry))
def test_every_learner_is_refused_before_anything_is_loaded_or_fits(
    env_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "load_team", lambda *_, **__: pytest.fail("a model was loaded"))
    for learner in (others := refused(env_id)):
        with pytest.raises(ConfigError):
            check_cells([cell(env_id, learner)])
    check_cells([cell(env_id, learner) for learner in LEARNERS if learner not in others])


def test_a_refusal_names_the_learners_that_fit() -> None:
    fitting = fitting_learners(llm_dec_pomdp.make("pennies-v0"))
    assert {"magrpo", "mgrpo", "iac", "maac", "madpo"} < set(fitting)
    assert "imitation" not in fitting
    with pytest.raises(ConfigError, match=", ".join(fitting)):
        check_cells([cell("pennies-v0", "imitation")])
    with pytest.raises(ConfigError, match=r"'crossed'.* 3 turns"):
        check_cells([cell("dectiger-v0", "magrpo", credit="crossed")])
    with pytest.raises(ConfigError, match="builtin:table"):
        check_cells([cell("dectiger-v0", "imitation", "builtin:table")])
    with pytest.raises(ConfigError, match="builtin:extractive"):
        check_cells([cell("tldr-v0", "imitation", "builtin:extractive", source="script:gold")])
    env = llm_dec_pomdp.make("pennies-v0")
    team = llm_dec_pomdp.load_team(env, "builtin:table")
    with pytest.raises(ConfigError, match=", ".join(fitting)):
        llm_dec_pomdp.train(team, env, "imitation")


@pytest.mark.parametrize(
    "values", ['environments = ["pennies-v0"]', 'environments = ["dectiger-v0"]\nmodels = ["builtin:table"]']
)
def test_a_dry_run_refuses_what_the_run_refuses(values: str, tmp_path: Path) -> None:
    suite, out = tmp_path / "suite.toml", tmp_path / "run"
    suite.write_text(f'name = "s"\nmethods = ["concat", "imitation"]\n{values}\n')
    run, dry = (CliRunner().invoke(app, ["bench", str(suite), *o]) for o in (["--out", str(out)], ["--dry-run"]))
    assert run.exit_code == dry.exit_code == 2
    assert dry.output == run.output
    assert "imitation" in dry.output
    assert not out.exists()


def test_a_learner_that_fits_a_hierarchy_runs() -> None:
    env = with_protocol(llm_dec_pomdp.make("keys-v0"), "centralized")
    team = llm_dec_pomdp.load_team(env, "builtin:words")
    short = llm_dec_pomdp.Sampling(max_new_tokens=1)
    llm_dec_pomdp.train(team, env, "grpo", steps=1, prompts_per_step=1, group_size=2, sampling=short)
