"""The examples of docs/extend.md: each runs as it stands, and does what the page says."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from models import match, softmax_team

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.agents.engines import ENGINES
from llm_dec_pomdp.agents.loading import load_team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.envs import check_env, make
from llm_dec_pomdp.envs.wrappers import PROTOCOLS, with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Group

PAGE = Path(__file__).parents[1] / "docs" / "extend.md"
Example = Callable[[str], dict[str, Any]]
ONE_WORD = Sampling(max_new_tokens=1)


def play(team: Team, step: int = 0) -> list[Group]:
    return Trajectories().play(match(), team, ["t0", "t1"], [2 * step, 2 * step + 1], ONE_WORD, 4)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Example:
    """What the one example of a section defines, as a module of a user's."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(section: str) -> dict[str, Any]:
        text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
        [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        name = "page_" + section.lower().replace(" ", "_")
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        return vars(importlib.import_module(name))

    return run


def test_a_credit_gives_long_texts_less(example: Example) -> None:
    team = softmax_team()
    groups = play(team)
    plain, brief = (kind(team, ONE_WORD).samples(groups) for kind in (MAGRPO, example("A credit")["Brief"]))
    assert any(sample.advantage for sample in plain)
    for one, other in zip(plain, brief, strict=True):
        assert other.advantage == pytest.approx(one.advantage / (1 + len(one.completion.token_ids) / 100))


def test_an_updater_with_another_loss_moves_weights_otherwise(example: Example) -> None:
    sizes: list[float] = []
    for kind in (MAGRPO, example("An updater")["Shrinking"]):
        team = softmax_team(logits=[1.0, 2.0, -1.0, 0.5])
        learner = kind(team, ONE_WORD)
        for step in range(20):
            learner.update(play(team, step))
        sizes.append(sum(float(p.detach().square().sum()) for policy in team.trainable for p in policy.parameters()))
    assert sizes[1] < sizes[0]
    assert torch.tensor(sizes).isfinite().all()


def test_a_critic_learns_what_a_history_is_worth(example: Example) -> None:
    team = softmax_team()
    learner = example("A critic")["BagIAC"](team, ONE_WORD)
    groups = play(team)
    losses = [learner.update(groups)["value_loss"] for _ in range(40)]
    assert losses[-1] < 0.8 * losses[0]
    again = example("A critic")["BagIAC"](softmax_team(), ONE_WORD)
    again.load_state_dict(learner.state_dict())
    readings = [("agent_0", (0,))]
    assert again.updaters[0].values(readings) == learner.updaters[0].values(readings)


def test_an_engine_draws_with_the_weights_of_now(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENGINES, "_specs", dict(ENGINES))  # the name is for this test
    example("An engine")
    env = make("tldr-v0")
    team = load_team(env.possible_agents, engine={"kind": "generate"})
    learner = MAGRPO(team, Sampling(max_new_tokens=8), MAGRPOConfig(learning_rate=0.01))
    for step in (0, 1):
        groups = Trajectories().play(env, team, [env.items[0].id], [step], learner.sampling, 4)
        for agent, policy in zip(env.possible_agents, team.trainable, strict=True):
            texts = [turn.actions[agent] for episode in groups[0].episodes for turn in episode.turns]
            logprobs, mask = policy.token_logprobs([(agent, text) for text in texts], 1.0)
            recorded = [p for text in texts for p in text.logprobs]
            assert logprobs[mask.bool()].tolist() == pytest.approx(recorded, abs=1e-3)
        learner.update(groups)


def test_an_integration_tells_and_scores_what_the_environment_does(example: Example) -> None:
    module, env = example("An integration"), make("tldr-v0")
    rows = list(module["rows"](env))
    assert [(row["task"], row["agent"]) for row in rows[:2]] == [
        (env.items[0].id, agent) for agent in env.possible_agents
    ]
    first = env.items[0]
    assert rows[1]["prompt"] == env.reset(options={"index": 0})[0]["agent_1"]
    gold = dict(zip(env.possible_agents, first.reference, strict=True))
    assert module["score"](env, first.id, gold) == env.max_return
    assert module["score"](env, first.id, dict.fromkeys(gold, "")) == 0.0


def test_a_protocol_keeps_the_laws_and_is_learnt_under(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROTOCOLS, "_specs", dict(PROTOCOLS))  # the name is for this test
    learner = example("A protocol")["NotedMAGRPO"]
    env = with_protocol(make("telegrams-v0"), learner.protocol)
    assert "forks" in check_env(env)
    observations, _ = env.reset(seed=1, options={"index": 0})
    assert [agent for agent in env.agents if env.asked(agent)] == ["agent_0"]
    assert observations["agent_0"].endswith("First write a note to the others.")
    observations, *_ = env.step(dict.fromkeys(env.agents, "meet at noon"))
    assert all(text.endswith("Note: meet at noon") for text in observations.values())
