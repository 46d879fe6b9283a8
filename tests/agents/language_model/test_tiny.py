"""The built-in model keeps its promises."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.envs.wrappers import PROTOCOLS, with_protocol
from llm_dec_pomdp.rollout import Trajectories


@pytest.fixture(scope="module")
def team() -> Team:
    return load_team(["agent_0", "agent_1"], "builtin:tiny", sharing="shared", device="cpu")


def test_it_is_small(team: Team) -> None:
    policy = team.policies[0]
    assert isinstance(policy, LanguageModel)
    assert sum(p.numel() for p in policy.model.parameters()) <= 4_000_000
    folder = Path(str(resources.files("llm_dec_pomdp.data") / "tiny"))
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 8_000_000


@pytest.mark.slow
@pytest.mark.parametrize(("env_id", "tokens"), [("tldr-v0", 112), ("arxiv-v0", 400)])
def test_untrained_it_earns_between_a_quarter_and_two_thirds(team: Team, env_id: str, tokens: int) -> None:
    env = llm_dec_pomdp.make(env_id, split="test")
    ids = [item.id for item in env.items]
    groups = Trajectories().play(env, team, ids, range(len(ids)), Sampling(max_new_tokens=tokens), width=2)
    totals = [episode.total for group in groups for episode in group.episodes]
    assert 0.25 < sum(totals) / len(totals) / env.facts.reward_range[1] < 0.65


@pytest.mark.every(2)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("env_id", ["tldr-v0", "coophumaneval-v0"])
def test_it_answers_under_every_protocol(team: Team, env_id: str, protocol: str) -> None:
    env = with_protocol(llm_dec_pomdp.make(env_id, split="test"), protocol)
    (group,) = Trajectories().play(env, team, [env.items[0].id], [1], Sampling(max_new_tokens=24))
    for turn in group.episodes[0].turns:
        assert all(completion.text for completion in turn.actions.values())


@pytest.mark.slow
def test_it_ends_its_texts_by_itself(team: Team) -> None:
    env = llm_dec_pomdp.make("tldr-v0", split="test")
    ids = [item.id for item in env.items[:6]]
    groups = Trajectories().play(env, team, ids, range(6), Sampling(max_new_tokens=250))
    ended = [not c.truncated for g in groups for e in g.episodes for t in e.turns for c in t.actions.values()]
    assert sum(ended) >= 9
