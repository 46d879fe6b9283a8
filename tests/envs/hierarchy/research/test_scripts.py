"""What the scripted teams earn on all embedded questions: the values that the manual gives."""

from __future__ import annotations

from typing import Any

import pytest
from teams import play, research

from llm_dec_pomdp.agents.assembly import MemberConfig, assemble_team
from llm_dec_pomdp.agents.base import Sampling
from llm_dec_pomdp.rollout import Trajectories

SPECIALISTS = {"specialists": ["people+towns", "companies+works"]}


@pytest.mark.parametrize(
    ("grammar", "name", "value", "options"),
    [
        ("free", "optimal", 1.0, SPECIALISTS),
        ("choice", "optimal", 1.0, {}),
        ("free", "ask_everything", 1.0, {}),
        ("choice", "never_ask", 0.1, {}),
    ],
)
def test_a_scripted_team_earns_its_value_on_every_question(
    grammar: str, name: str, value: float, options: dict[str, Any]
) -> None:
    env = research(grammar=grammar, split="all", **options)
    for index in range(len(env.items)):
        rewards, _ = play(env, env.script(name), index=index)
        assert rewards["agent_0"] == pytest.approx(value)
        if name == "optimal":  # 0.1 + 0.4 + 0.5 for everybody who was asked
            assert list(rewards.values()) == pytest.approx([1.0] * len(rewards))


@pytest.mark.parametrize("grammar", ["free", "choice"])
def test_one_agent_alone_can_earn_as_much(grammar: str) -> None:
    env = research(grammar=grammar, split="all").alone()
    for index in range(len(env.items)):
        assert play(env, env.script("optimal"), index=index)[0] == pytest.approx({"agent_0": 1.0})


def test_costs_are_paid_by_main_alone() -> None:
    env = research(cost_per_invocation=0.05, cost_per_turn=0.01)
    rewards, events = play(env, env.script("optimal"))
    asked = sum(event.kind == "spawn" for event in events)
    assert rewards["agent_0"] == pytest.approx(1 - 0.05 * asked - 0.01 * env.turn)
    assert rewards["agent_1"] == pytest.approx(1.0)
    everything, _ = play(env, env.script("ask_everything"))
    assert everything["agent_0"] == pytest.approx(1 - 0.05 * 4 - 0.01 * env.turn)


def test_scripted_teams_are_models_by_name() -> None:
    env = research(grammar="choice")
    roles = [env.role(agent) for agent in env.possible_agents]
    members = [MemberConfig(agents=["main", "sub"], model="script:optimal")]
    team = assemble_team(env.possible_agents, roles, members, scripts=env.facts.scripts, script=env.script)
    [group] = Trajectories().play(env, team, [env.items[0].id], [0], Sampling(), width=2)
    assert [episode.total for episode in group.episodes] == [1.0, 1.0]
