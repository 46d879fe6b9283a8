"""incident-v0: messages and their costs, taking over, and the optimum over all plans."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import pytest

from llm_dec_pomdp import make
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.contrib.incident.incident import Incident, optimum
from llm_dec_pomdp.rollout import Trajectories


def play(env: Any, task: str, turns: Sequence[str]) -> float:
    """Play words for the coordinator, the deputy and so on, separated by spaces, and return the return."""
    env.reset(options={"task_id": task})
    for turn in turns:
        words = dict(zip(env.possible_agents, turn.split(), strict=True))
        env.step({agent: words[agent] for agent in env.agents})
    assert not env.agents
    return float(env.last_score.total)


@pytest.mark.parametrize(
    ("task", "turns", "share", "costs"),
    [
        ("stays_1", ["wait lead lead", "wait lead lead"], 1, 0.4),
        ("stays_2", ["wait keep lead", "brief all well"], 1 / 2, 0.4),  # a briefing, and a message to two agents
        ("leaves_1", ["wait lead all", "- lead keep", "- keep lead"], 1, 0.4),
        ("leaves_1", ["wait lead lead", "- lead keep", "- keep lead"], 3 / 4, 0.3),  # 2.1 is lost
        ("leaves_1", ["wait lead all", "- keep lead", "- keep keep"], 1 / 2, 0.3),  # 1.1 and 1.2 are lost
        ("leaves_2", ["wait lead lead", "brief lead lead", "- lead keep"], 3 / 4, 0.5),  # 2.2 is lost
        ("leaves_2", ["wait keep lead", "wait keep all", "- keep lead"], 1 / 2, 0.3),
        ("leaves_2", ["wait keep keep", "wait keep keep", "- lead lead", "- keep keep", "- lead keep"], 1 / 2, 0.2),
        ("leaves_2", ["wait keep keep", "wait keep keep", *["- lead lead"] * 3], 0, 0.3),
    ],
)
def test_the_return_is_the_share_that_the_lead_knows_less_costs(
    task: str, turns: Sequence[str], share: float, costs: float
) -> None:
    env = make("incident-v0", responders=2, rounds=2, cost=0.1)
    assert play(env, f"incident/{task}", turns) == pytest.approx(share - costs)


def test_after_leaving_others_are_asked_and_the_new_lead_is_not() -> None:
    env: Any = make("incident-v0", responders=2)
    env.reset(options={"task_id": "incident/leaves_1"})
    env.step(dict.fromkeys(env.agents, "keep"))
    assert env.agents == ["agent_1", "agent_2"]
    observed = env.step({"agent_1": "lead", "agent_2": "keep"})[0]
    assert "Your report 2.2 is new" in observed["agent_2"]
    assert not observed["agent_1"]
    assert not env.asked("agent_1")


def best_after(env: Incident, state: Any) -> float:
    """Return the highest score from a state without coordinator, by trying all joint actions."""
    agents = list(env.observations(state))
    found: list[float] = []
    for words in itertools.product(("keep", "lead"), repeat=len(agents)):
        after = env.transition(state, dict(zip(agents, words, strict=True)), 0)
        if after.state.lead is not None:  # failing to take over only delays
            found.append(after.score.total if after.score else best_after(env, after.state))
    return max(found)


def best_of_all_plans(env: Incident) -> float:
    """Return the expected return of the best plan, by trying all plans until the coordinator leaves."""
    menus = [env.choices(agent) for agent in env.possible_agents]
    joint = [dict(zip(env.possible_agents, words, strict=True)) for words in itertools.product(*menus)]

    def value(states: Mapping[str, Any]) -> float:
        """Return the best sum of scores over tasks that agents cannot tell apart."""
        found: list[float] = []
        for actions in joint:
            total, following = 0.0, dict[str, Any]()
            for task, state in states.items():
                after = env.transition(state, actions, 0)
                if after.score:
                    total += after.score.total
                elif after.state.lead is None:
                    total += best_after(env, after.state)
                else:
                    following[task] = after.state
            found.append(total + (value(following) if following else 0.0))
        return max(found)

    return value({item.id: env.initial_state(item, 0) for item in env.items}) / len(env.items)


@pytest.mark.parametrize(
    ("responders", "rounds", "cost"), [(2, 1, 0.05), (2, 2, 0.05), (2, 2, 0.15), (3, 1, 0.02), (2, 2, 0.3)]
)
def test_the_optimum_is_the_value_of_the_best_plan(responders: int, rounds: int, cost: float) -> None:
    env: Any = make("incident-v0", responders=responders, rounds=rounds, cost=cost)
    assert best_of_all_plans(env) == pytest.approx(env.facts.optimum)


@pytest.mark.slow
def test_briefing_is_in_the_best_plan_of_three_responders() -> None:
    env: Any = make("incident-v0", rounds=2, cost=0.04)
    assert best_of_all_plans(env) == pytest.approx(env.facts.optimum)
    assert [step.words[0] for step in optimum(3, 2, 0.04)[1]] == ["wait", "brief"]


@pytest.mark.parametrize("options", [{}, {"responders": 2}, {"rounds": 2, "cost": 0.05}])
def test_the_optimal_script_receives_the_optimum_and_an_unprepared_team_less(options: dict[str, Any]) -> None:
    env: Any = make("incident-v0", **options)
    ids, returns = [item.id for item in env.items], dict[str, float]()
    measured: dict[str, Mapping[str, float]] = {}
    for name in ("optimal", "unprepared"):
        groups = Trajectories().play(env, Scripted(env.script(name)), ids, [0] * len(ids), Sampling())
        returns[name] = fmean(group.episodes[0].total for group in groups)
        measured[name] = env.measure(groups)["handover"]
    assert returns["optimal"] == pytest.approx(env.facts.optimum)
    assert returns["unprepared"] < returns["optimal"]
    assert measured["optimal"]["lost %"] < measured["unprepared"]["lost %"]
    assert [found["agent_1 leads %"] for found in measured.values()] == [100, 100]
    assert [found["recovery turns"] for found in measured.values()] == [1, 1]
