"""Calls and what follows without them: a fork for each, in which no tool runs, and its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from models import ITEMS, Match, Recorder

import llm_dec_pomdp
from llm_dec_pomdp.agents import Policy, Sampling, Team
from llm_dec_pomdp.algorithms.credit import CallCredit
from llm_dec_pomdp.envs.tools import kit
from llm_dec_pomdp.envs.wrappers import WithTools
from llm_dec_pomdp.rollout import Calls
from llm_dec_pomdp.types import NO_CALL, Completion, Group


class Worker(Policy):
    """The left agent answers with what its tool gives, else with blue; the right agent answers green."""

    def generate(self, requests: Sequence[Any], sampling: Sampling) -> list[list[Completion]]:
        return [[self._say(r.agent, r.history[-1]) for _ in r.seeds] for r in requests]

    def _say(self, agent: str, last: Any) -> Completion:
        given = "green" if last.text.startswith("green") else "blue"
        text = "green" if agent == "agent_1" else given if last.role == "tool" else "lookup()"
        return Completion(text, (0,), (1,), (0.0,))


def played(policy: Policy, calls: list[str]) -> Group:
    def lookup() -> str:
        """Look up the colour."""
        calls.append("lookup")
        return "green"

    env = WithTools(Match(ITEMS), [kit("oracle", lookup)], rounds=2, users={"oracle": ["left"]})
    [group] = Calls().play(env, Team(dict.fromkeys(env.possible_agents, policy)), ["t1"], [0], Sampling(), 2)
    return group


def test_a_call_is_worth_what_the_team_gets_by_its_result() -> None:
    calls: list[str] = []
    group = played(Worker(), calls)
    assert len(calls) == 2  # of two episodes; no fork runs the tool
    assert [episode.total for episode in group.episodes] == [1.0, 1.0]
    samples = [(s.agent, s.completion.text, s.advantage) for s in CallCredit().samples(group, 1.0)]
    assert (
        samples
        == [("agent_1", "green", 0.0)] * 2
        + [
            ("agent_0", "lookup()", 1.0),  # without it, the answer is blue
            ("agent_0", "green", 1.0),  # after "no result" in its place, the answer is blue too
        ]
        * 2
    )


def test_forks_count_among_the_costs() -> None:
    recorder = Recorder(Worker())
    group = played(recorder, [])
    assert group.cost.generations == sum(len(r.seeds) for call in recorder.calls for r in call)
    assert group.extra.generations > 0
    assert group.extra.joint_rewards > 0


@pytest.mark.parametrize(
    ("name", "options", "actions"),
    [
        ("calls-v0", {}, {"agent_0": "A"}),
        ("research-v0", {"needs": [1]}, {}),
    ],
)
def test_agents_that_call_by_a_letter_can_leave_the_call_out(
    name: str, options: Mapping[str, Any], actions: Mapping[str, str]
) -> None:
    env = llm_dec_pomdp.make(name, candidates=True, **options)
    env.reset(seed=0, options={"index": 0})
    if actions:
        env.step(dict.fromkeys(env.agents, "") | dict(actions))
    [caller] = [agent for agent in env.agents if env.asked(agent)]
    assert env.can_call(caller)
    observed, *_ = env.step(dict.fromkeys(env.agents, "") | {caller: NO_CALL})
    assert "no result" in observed["agent_0"]


def test_a_team_without_tools_is_refused() -> None:
    assert "credit is 'call'" in CallCredit().incompatibility(Match(ITEMS))
