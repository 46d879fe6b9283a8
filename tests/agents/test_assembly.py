"""Teams of unlike members: who plays whom, what is trained, and how fast."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from models import AGENTS, match, same, weights

from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.agents.io.load import MemberConfig, assemble_team
from llm_dec_pomdp.agents.io.models import ModelError
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.agents.scripted import RandomText, Scripted
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.algorithms.updater import parameter_groups
from llm_dec_pomdp.benchmarks.suite import read_team
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.training.checkpoint import Checkpoints
from llm_dec_pomdp.types import Group

ROLES = ("left", "right")
SHORT = Sampling(max_new_tokens=4)
Folder = Callable[[int], str]


def refuse_to_load(*_: Any, **__: Any) -> Team:
    raise AssertionError("a model is loaded")


def assemble(*members: Mapping[str, Any], agents: tuple[str, ...] = AGENTS, roles: tuple[str, ...] = ROLES) -> Team:
    return assemble_team(
        agents,
        roles,
        [MemberConfig(**{"device": "cpu", **m}) for m in members],
        scripts=match().facts.scripts,
        script=match().script,
    )


def play(team: Team, step: int = 0) -> list[Group]:
    return Trajectories().play(match(), team, ["t0", "t1"], [derive(step, i) for i in range(2)], SHORT, 4)


def learn(team: Team, steps: int = 3, **options: Any) -> None:
    learner = MAGRPO(team, SHORT, MAGRPOConfig(advantage="raw", **{"learning_rate": 0.05, **options}))
    for step in range(steps):
        groups = play(team, step)
        learner.update([Group(g.item_id, tuple(paid(e, 1.0 - i) for i, e in enumerate(g.episodes))) for g in groups])


def paid(episode: Any, reward: float) -> Any:
    """The episode with another reward, so that there is something to learn in every group."""
    return dataclasses.replace(episode, turns=tuple(dataclasses.replace(t, reward=reward) for t in episode.turns))


def test_models_of_different_sizes_play_and_learn_together(saved: Folder) -> None:
    team = assemble({"agents": ["left"], "model": saved(16)}, {"agents": ["right"], "model": saved(32)})
    before = weights(team)
    learn(team)
    assert len(team.policies) == 2
    assert [w["model.embed_tokens.weight"].shape[1] for w in weights(team)] == [16, 32]
    assert not any(same([b], [a]) for b, a in zip(before, weights(team), strict=True))


def test_a_frozen_member_stays_as_it_is(saved: Folder) -> None:
    team = assemble({"agents": ["left"], "model": saved(16)}, {"agents": ["right"], "model": saved(32), "train": False})
    frozen = team.members["agent_1"]
    assert isinstance(frozen, LanguageModel)
    before = {name: p.clone() for name, p in frozen.model.named_parameters()}
    learn(team)
    assert len(team.trainable) == 1
    assert all(torch.equal(before[name], p) for name, p in frozen.model.named_parameters())


def test_scripted_members(saved: Folder) -> None:
    team = assemble({"agents": ["left"], "model": saved(16)}, {"agents": ["right"], "model": "script:gold"})
    assert isinstance(team.members["agent_1"], Scripted)
    assert all(e.turns[0].actions["agent_1"].text == "red" for g in play(team) for e in g.episodes)
    learn(team)
    other = assemble({"agents": ["left", "right"], "model": "script:random"})
    assert isinstance(other.members["agent_0"], RandomText)


def test_agents_may_be_named_by_name_or_role(saved: Folder) -> None:
    team = assemble({"agents": ["agent_1", "left"], "model": saved(16), "sharing": "shared"})
    assert list(team.members) == list(AGENTS)
    assert len(team.policies) == 1


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_adapters_on_one_base_may_have_their_own_learning_rates(saved: Folder) -> None:
    team = assemble({"agents": ["left", "right"], "model": saved(16), "sharing": "lora", "lora_rank": 2})
    team.learning_rates = {"agent_1": 0.0}
    [before] = weights(team)
    learn(team)
    [after] = weights(team)
    moved = [name for name in after if not torch.equal(before[name], after[name])]
    assert moved
    assert all(".agent_0." in name for name in moved)


def test_members_have_their_own_learning_rates(saved: Folder) -> None:
    team = assemble(
        {"agents": ["left"], "model": saved(16), "learning_rate": 0.0}, {"agents": ["right"], "model": saved(16)}
    )
    before = weights(team)
    learn(team)
    after = weights(team)
    assert same(before[:1], after[:1])
    assert not same(before[1:], after[1:])


def test_members_are_trained_at_their_own_temperature(saved: Folder) -> None:
    cool = {"temperature": 0.5}
    team = assemble(
        {"agents": ["left"], "model": saved(16), "sampling": cool}, {"agents": ["right"], "model": saved(16)}
    )
    learner = MAGRPO(team, SHORT, MAGRPOConfig(learning_rate=0.0))
    assert [updater.temperature for updater in learner.updaters] == [0.5, 1.0]
    for agent, temperature in (("agent_0", 0.5), ("agent_1", 1.0)):
        texts = [(agent, e.turns[0].actions[agent]) for group in play(team) for e in group.episodes]
        logprobs, mask = team.members[agent].token_logprobs(texts, temperature)
        recorded = [p for _, completion in texts for p in completion.logprobs]
        assert logprobs[mask.bool()].tolist() == pytest.approx(recorded, abs=1e-4)


def test_agents_of_one_policy_are_trained_at_one_temperature(saved: Folder) -> None:
    team = assemble({"agents": ["left", "right"], "model": saved(16), "sharing": "shared"})
    team.samplings = {"agent_0": Sampling(temperature=0.5)}
    with pytest.raises(ValueError, match=r"'agent_0': 0\.5"):
        MAGRPO(team, SHORT)


def test_a_schedule_scales_every_learning_rate(saved: Folder) -> None:
    team = assemble(
        {"agents": ["left"], "model": saved(16), "learning_rate": 0.2}, {"agents": ["right"], "model": saved(16)}
    )
    learner = MAGRPO(team, SHORT, MAGRPOConfig(learning_rate=0.1, warmup=2))
    learner.update(play(team))
    assert [u.optimizer.param_groups[0]["lr"] for u in learner.updaters] == pytest.approx([0.1, 0.05])


def test_agents_that_share_weights_share_a_learning_rate(saved: Folder) -> None:
    team = assemble({"agents": ["left", "right"], "model": saved(16), "sharing": "shared"})
    team.learning_rates = {"agent_0": 0.1, "agent_1": 0.2}
    with pytest.raises(ValueError, match="agents that share weights"):
        MAGRPO(team, SHORT)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("sharing", ["lora", "separate"])
def test_agents_of_the_same_role_share_all_weights(saved: Folder, sharing: str, tmp_path: Path) -> None:
    agents, roles = ("agent_0", "agent_1", "agent_2"), ("main", "sub", "sub")
    members = [{"agents": ["sub", "main"], "model": saved(16), "sharing": sharing}]
    team = assemble(*members, agents=agents, roles=roles)
    groups = parameter_groups(team, team.trainable[0], 0.1) if sharing == "lora" else []
    assert team.members["agent_1"] is team.members["agent_2"]
    assert len(team.policies) == (1 if sharing == "lora" else 2)
    assert {group.agents for group in groups} == ({("agent_0",), ("agent_1", "agent_2")} if groups else set())
    with torch.no_grad():
        for policy in team.trainable:
            for parameter in policy.parameters():
                parameter += 1
    Checkpoints(tmp_path, {}).save(1, team, {}, {})
    again = assemble(*members, agents=agents, roles=roles)
    kept = Checkpoints(tmp_path, {})
    newest = kept.newest()
    assert newest is not None
    kept.restore(newest, again)
    assert same(weights(team), weights(again))
    assert sorted(path.name for path in newest.folder.iterdir() if path.is_dir()) == ["agent_0", "agent_1"]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([{"agents": ["left"], "model": "script:random"}], "has no member"),
        ([{"agents": ["left", "agent_0"], "model": "script:random"}], "'agent_0'"),
        ([{"agents": ["lefft"], "model": "script:random"}], "'lefft'.*left"),
        ([{"agents": ["left"]}, {"agents": ["agent_0"]}], "'agent_0'"),
        ([{"agents": ["left"]}, {"agents": ["right"], "model": "builtin:tyny"}], "builtin:tyny.*builtin:tiny"),
        ([{"agents": ["left"]}, {"agents": ["right"], "model": "script:rand"}], "script:rand.*script:random"),
        ([{"agents": ["left"]}, {"agents": ["right"], "model": __file__}], "test_assembly"),
    ],
)
def test_what_is_wrong_with_a_team_is_named_before_a_model_is_loaded(
    members: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        assemble_team(AGENTS, ROLES, [MemberConfig(**member) for member in members], load=refuse_to_load)


@pytest.mark.parametrize(
    "text",
    [
        '[[members]]\nagents = ["summary"]\ntrain = false\n\n[[members]]\nagents = ["elaboration"]\n',
        '[members]\nsummary = { train = false }\nelaboration = "builtin:tiny"\n',
    ],
)
def test_a_team_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mixed.toml"
    path.write_text(text)
    team = read_team(path)
    assert team.name == "mixed"
    assert [(m.agents, m.train) for m in team.members] == [(["summary"], False), (["elaboration"], True)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[members]]\nagents = ["a"]\nmodell = "x"\n', "modell.*model"),
        ('[[members]]\nagents = ["a"]\nsampling = { temprature = 1 }\n', "temprature.*temperature"),
        ("[[members]]\n", "members.0.agents"),
        ("seed = 1\n", "seed"),
        ('sharing = "lora"\n[members]\nleft = "x"\n', "sharing"),
        ("[members]\nleft = 3\n", "members.0.model = 3"),
        ("[members.left]\nagents = ['right']\n", "'left'"),
        ('members = "x"\n', "members = 'x'"),
        ("", r"no \[members\]"),
    ],
)
def test_a_bad_team_file_is_explained(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "team.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_team(path)
