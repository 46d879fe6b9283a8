"""Training with partners: who is trained on which groups, the pool, resumes, and bad input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from models import same, weights
from placing import Nearby, cell, ran
from typer.testing import CliRunner

import llm_dec_pomdp
from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.agents.io.save import CheckpointError, save_team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.algorithms.mgrpo import MGRPO
from llm_dec_pomdp.algorithms.registration import build_algorithm
from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.benchmarks.checks import check_cells
from llm_dec_pomdp.benchmarks.suite import Cell
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.options import EvaluationConfig, PartnersConfig, TrainerConfig
from llm_dec_pomdp.training.partners import WithPartners
from llm_dec_pomdp.types import Completion, Episode, Event, Group, Turn

ENV = llm_dec_pomdp.make("dectiger-v0", max_turns=2)


def table_team() -> Team:
    return llm_dec_pomdp.load_team(ENV, "builtin:table")


def table_of(agent: str) -> Team:
    return Team({agent: table_team().members[agent]})


def learner(name: str = "magrpo", *, team: Team | None = None, options: Any = (), **partners: Any) -> WithPartners:
    inner = build_algorithm(name, dict(options), team or table_team(), Sampling())
    return WithPartners(inner, PartnersConfig(**partners))


def played(learner: Any, seeds: Sequence[int] = range(12), width: int = 4) -> list[Group]:
    ids = [ENV.items[0].id] * len(seeds)
    return learner.rollout.play(ENV, learner.team, ids, seeds, Sampling(), width)


def run(steps: int, pool: Any = "self", method: str = "magrpo", **partners: Any) -> Cell:
    training: dict[str, Any] = {"partners": {"pool": pool, "every": 1, **partners}}
    environment = {"id": "dectiger-v0", "max_turns": 2}
    whole = cell(environment, {"name": method}, {"name": "builtin:table"}, steps, **training)
    return replace(whole, evaluation=EvaluationConfig(samples=2))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run without partners, for pools."""
    folder = tmp_path_factory.mktemp("other")
    run_cell(replace(run(2), training=TrainerConfig(steps=2), seed=7), folder, tracking=())
    return folder


# --- who is trained ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("magrpo", {}),
        ("magrpo", {"advantage": "agent"}),
        ("magrpo", {"tree": True, "credit": "crossed"}),
        ("magrpo", {"credit": "counterfactual"}),
        ("magrpo", {"credit": "message"}),
        ("magrpo", {"replacements": 1}),
        ("magrpo_shuffled", {}),
        ("marloo", {}),
        ("mgrpo", {}),
        ("madpo", {}),
        ("iac", {}),
        ("maac", {}),
        ("maac", {"critic_level": "token"}),
    ],
)
def test_a_member_that_a_partner_replaces_is_not_trained(name: str, options: dict[str, Any]) -> None:
    trained = learner(name, options=options, share=1.0, pool="frozen")
    groups = [group for group in played(trained, width=2) if group.partner == "agent_1"]
    before = weights(trained.team)
    trained.update(groups)
    after = weights(trained.team)
    assert same(before[1:], after[1:])
    assert not same(before[:1], after[:1])


def test_returns_of_a_partner_are_in_no_baseline_of_its_agent() -> None:
    trained = learner(options={"advantage": "agent"}, share=0.5)
    groups = played(trained)
    own = [group for group in groups if group.partner != "agent_1"]
    assert 0 < len(own) < len(groups)
    inner = trained.learner
    assert isinstance(inner, MAGRPO)
    found = [[s.advantage for s in inner.samples(some) if s.agent == "agent_1"] for some in (groups, own)]
    assert found[0] == pytest.approx(found[1])


def test_invocations_of_a_partner_are_in_no_baseline_of_sub_agents() -> None:
    trained = learner("mgrpo", share=1.0).learner
    assert isinstance(trained, MGRPO)
    called = Turn(
        {"agent_0": "?"},
        {"agent_0": Completion("go", (0,), (1,), (0.0,))},
        0.0,
        events=(Event("spawn", "agent_1"), Event("spawn", "agent_2")),
    )
    asked = {agent: Completion("here", (0,), (1,), (0.0,)) for agent in ("agent_1", "agent_2")}
    reported = Turn(dict.fromkeys(asked, "?"), asked, 1.0)
    group = Group("t", (Episode("t", 0, (called, reported), terminated=True),) * 2, partner="agent_1")
    assert {t.agent for t in trained.trajectories(group)} == {"agent_0", "agent_2"}


def test_groups_without_a_partner_are_those_of_a_training_without_partners() -> None:
    trained = learner(share=0.5)
    alone, mixed = played(trained.learner), played(trained)
    assert [g.partner for g in alone] == [""] * len(alone)
    assert {group.partner for group in mixed} == {"", "agent_0", "agent_1"}
    assert [g for g in mixed if not g.partner] == [a for a, g in zip(alone, mixed, strict=True) if not g.partner]


def test_the_share_is_that_of_the_groups() -> None:
    trained = learner(share=0.3)
    chosen = [trained.choose(seed) for seed in range(2000)]
    assert sum(choice is not None for choice in chosen) / 2000 == pytest.approx(0.3, abs=0.04)


# --- the pool ---------------------------------------------------------------------------------------------------------


def test_the_pool_self_holds_the_weights_at_the_start_and_after_every_so_many_updates() -> None:
    trained, newest = (learner(pool="self", every=2, last=n, options={"learning_rate": 1.0}) for n in (None, 2))
    moved = [weights(trained.team)]
    for step in range(4):
        groups = played(trained, range(100 * step, 100 * step + 4))
        for each in (trained, newest):
            each.update(groups)
        moved.append(weights(trained.team))
    [kept] = trained.pool
    assert len(kept) == 3
    assert all(same(there, moved[2 * number]) for number, there in enumerate(kept))
    assert [same(there, moved[2 * number]) for number, there in enumerate(newest.pool[0], 1)] == [True, True]
    assert not same(moved[0], moved[4])
    choice = next(c for seed in range(99) if (c := trained.choose(seed)) and c.weights == 1)
    place = list(trained.team.members).index(choice.agent)
    assert same([trained.partner(choice, ()).state_dict()], moved[2][place : place + 1])


def test_a_run_in_the_pool_acts_as_its_team(other: Path) -> None:
    trained = learner(pool=[str(other)], share=1.0)
    team = llm_dec_pomdp.load_team(ENV, "builtin:table", weights=other)
    assert same(trained.pool[0][0], weights(team))
    assert not same(weights(team), weights(trained.team))


@pytest.mark.parametrize("fault", ["silent", "noisy", "late"])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_fault_acts_in_place_of_a_member(fault: str, share: float) -> None:
    trained = learner(pool=fault, share=share)
    groups = played(trained, range(8))
    texts = {t.actions[g.partner].text for g in groups if g.partner for e in g.episodes for t in e.turns}
    assert texts == {""} if fault == "silent" else texts > {""} or "" not in texts
    trained.update(groups)


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_resumed_run_has_the_same_pool_and_the_same_numbers(other: Path, tmp_path: Path) -> None:
    pool = ["self", "noisy", str(other)]
    whole = ran(run(4, pool), tmp_path / "whole", "local")
    run_cell(run(3, pool), tmp_path / "parts", tracking=())
    parts = ran(run(4, pool), tmp_path / "parts", "local")
    assert parts.pop("curve.jsonl") != whole.pop("curve.jsonl")  # evaluated after three updates, too
    assert parts == whole


def test_a_team_trained_in_python_resumes_with_its_pool(tmp_path: Path) -> None:
    def trained(steps: int, folder: str) -> Team:
        team = table_team()
        partners = {"pool": "self", "share": 0.7, "every": 1}
        options: dict[str, Any] = {"partners": partners, "checkpoints": tmp_path / folder, "learning_rate": 1.0}
        llm_dec_pomdp.train(team, ENV, steps=steps, prompts_per_step=2, group_size=3, **options)
        return team

    whole = trained(4, "whole")
    trained(2, "parts")
    assert same(weights(trained(4, "parts")), weights(whole))
    with pytest.raises(CheckpointError, match="partners"):
        llm_dec_pomdp.train(
            table_team(), ENV, steps=5, prompts_per_step=2, group_size=3, checkpoints=tmp_path / "parts"
        )


def test_policies_in_workers_have_the_same_partners() -> None:
    with Nearby() as executor:
        placed = {agent: executor.place([agent], partial(table_of, agent)) for agent in ENV.possible_agents}
        there, here = learner(team=Team(placed), every=1), learner(every=1)
        for step in range(3):
            groups = [played(each, range(100 * step, 100 * step + 3)) for each in (here, there)]
            assert groups[0] == groups[1]
            for each, mine in zip((here, there), groups, strict=True):
                each.update(mine)


def test_the_command_line_stores_the_partners_with_the_run(tmp_path: Path) -> None:
    options = ["--steps", "1", "--prompts", "1", "--group-size", "2", "--samples", "1", "--turns", "1"]
    partners = ["--partners", 'pool=["self", "silent"]', "--partners", "share=0.25"]
    result = CliRunner().invoke(app, ["train", "dectiger-v0", *options, *partners, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    [path] = tmp_path.glob("run/cells/*/cell.json")
    assert Cell.read(path).training.partners == PartnersConfig(pool=("self", "silent"), share=0.25)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partners", "named"),
    [
        ({"pool": []}, "pool is empty"),
        ({"pool": ["self", "self"]}, "twice"),
        ({"share": 0.0}, "share"),
        ({"last": 0}, "last"),
        ({"pool": "frozen", "last": 2}, "last is 2"),
        ({"share": 1.5}, "share"),
        ({"pool": "selff"}, "'selff'"),
        ({"pool": "self", "staleness": 1}, "staleness is 1"),
    ],
)
def test_wrong_options_are_refused(partners: dict[str, Any], named: str) -> None:
    training = {name: partners.pop(name) for name in ("staleness",) if name in partners}
    with pytest.raises(ConfigError, match=named):
        llm_dec_pomdp.train(table_team(), ENV, partners=partners, **training)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"environment": {"id": "broadcast-v0"}}, "broadcast-v0"),
        ({"environment": {"protocol": "sequential"}}, "protocol"),
        ({"model": {"sharing": "shared"}}, "sharing"),
    ],
)
def test_a_run_of_another_kind_is_refused_before_anything_loads(
    changes: dict[str, Any], named: str, other: Path
) -> None:
    changed = run(2, str(other))
    parts = {part: getattr(changed, part).model_copy(update=update) for part, update in changes.items()}
    with pytest.raises(ConfigError, match=named):
        check_cells([replace(changed, **parts)])


def test_a_pool_or_a_team_of_another_kind_is_refused(tmp_path: Path) -> None:
    save_team(Team({"agent_5": table_team().members["agent_0"]}), tmp_path / "team")
    with pytest.raises(ConfigError, match="agent_5"):
        llm_dec_pomdp.train(table_team(), ENV, partners={"pool": str(tmp_path / "team")})
    with pytest.raises(CheckpointError, match="0 trained teams"):
        check_cells([run(2, str(tmp_path))])
    with pytest.raises(ConfigError, match="Imitation"):
        learner("imitation")
    frozen = llm_dec_pomdp.load_team(ENV, {"agent_0": "builtin:table", "agent_1": "script:uniform"})
    with pytest.raises(ConfigError, match="agent_0"):
        WithPartners(MAGRPO(frozen, Sampling(), MAGRPOConfig()), PartnersConfig())
