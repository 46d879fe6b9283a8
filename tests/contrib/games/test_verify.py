"""verify-v0: values of verdicts, and all pure strategies of solver and verifier."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from llm_dec_pomdp import make
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.contrib.games.self_play import value
from llm_dec_pomdp.contrib.games.verify import ACCEPT, COST, NOTHING, REJECT, RIGHT, WRONG, YES
from llm_dec_pomdp.rollout import Trajectories

SIDES = ("yes", "no")


@pytest.mark.parametrize(
    ("texts", "total", "accepted"),
    [
        (["yes", "accept"], RIGHT, 1.0),
        (["no", " Accept\n"], WRONG, 1.0),
        (["no", "reject"], 0.0, 0.0),
        (["no", "ask", "I am sure", "accept"], WRONG - COST, 1.0),
        (["yes", "ask", "yes", "reject"], -COST, 0.0),
        (["yes", "ask", "yes", "ask"], -2 * COST, 0.0),
        (["yes", "ask", "yes", "well"], WRONG - COST, 0.0),
        (["perhaps"], WRONG - COST, 0.0),
        (["yes", ""], WRONG - COST, 0.0),
    ],
)
def test_rewards_by_role_and_joint(texts: Sequence[str], total: float, accepted: float) -> None:
    for rewards, solver in (("role", accepted), ("joint", total)):
        env: Any = make("verify-v0", rewards=rewards)
        env.reset(options={"task_id": "verify/yes_nothing_1"})
        received: Mapping[str, float] = {}
        for text in texts:
            received = env.step(dict.fromkeys(env.agents, text))[1]
        assert not env.agents
        assert received == pytest.approx({"agent_0": solver, "agent_1": total})
        assert env.last_score.total == pytest.approx(total)


def test_each_agent_observes_its_own_evidence_only() -> None:
    env: Any = make("verify-v0")
    observed = env.reset(options={"task_id": "verify/no_no_3"})[0]
    assert observed["agent_0"].endswith("The answer is no.")
    assert not env.asked("agent_1")
    observed = env.step(dict.fromkeys(env.agents, "no"))[0]
    assert "Your evidence says yes" in observed["agent_1"]
    observed = env.step(dict.fromkeys(env.agents, "ask"))[0]
    assert "yes; it" not in observed["agent_0"]


def matrices() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the values of verdicts and the acceptances of all pure strategies, and whether the verifier may ask.

    A solver has a proposal and a reply for each of three states of knowledge. A verifier has one of six plans for each
    evidence and proposal: reject, accept, or ask and then one of four replies.
    """
    env: Any = make("verify-v0")
    plans = [REJECT, ACCEPT, *itertools.product((REJECT, ACCEPT), repeat=2)]
    solvers = list(itertools.product(itertools.product((0, 1), repeat=3), itertools.product((0, 1), repeat=3)))
    values, accepts = np.zeros((len(solvers), 4, len(plans))), np.zeros((len(solvers), 4, len(plans)))
    for item, (row, (proposes, replies)) in itertools.product(env.items, enumerate(solvers)):
        knowledge = (*SIDES, NOTHING).index(item.fields["solver"])
        proposal, reply = proposes[knowledge], replies[knowledge]
        seen = 2 * SIDES.index(item.fields["verifier"]) + proposal
        for column, plan in enumerate(plans):
            verdict = plan if isinstance(plan, str) else plan[reply]
            right = SIDES[proposal] == item.fields["answer"]
            worth = (RIGHT if right else WRONG) * (verdict == ACCEPT) - COST * (not isinstance(plan, str))
            values[row, seen, column] += worth / len(env.items)
            accepts[row, seen, column] += (verdict == ACCEPT) / len(env.items)
    verifiers = np.array(list(itertools.product(range(len(plans)), repeat=4)))
    situations = list(range(4))
    by_plan = [of[:, situations, verifiers].sum(-1) for of in (values, accepts)]
    return by_plan[0], by_plan[1], np.any(verifiers >= 2, axis=1)


def test_optimum_and_pure_equilibria_are_those_of_the_page() -> None:
    values, accepts, asks = matrices()
    env: Any = make("verify-v0")
    assert values.max() == pytest.approx(env.facts.optimum)
    assert values[:, ~asks].max() == pytest.approx(1 / 3)
    best = values >= values.max(1, keepdims=True) - 1e-9  # of the verifier
    for solver, returns in ((values, [0, 0.2, 1 / 3, env.facts.optimum]), (accepts, [0])):
        stable = best & (solver >= solver.max(0) - 1e-9)
        assert sorted({round(float(found), 9) for found in values[stable]}) == pytest.approx(returns)


def test_the_mixed_equilibrium_of_role_rewards() -> None:
    env: Any = make("verify-v0", rewards="role")

    def strategy(agent: str, history: Any) -> Mapping[str, float]:
        if agent == "agent_0":
            known = next((side for side in SIDES if f"The answer is {side}." in history[0].text), None)
            return {known: 1.0} if known and len(history) == 1 else {"yes": 0.5, "no": 0.5}
        own, proposed = (f"{verb} {YES}" in history[0].text for verb in ("says", "proposes"))
        return {ACCEPT if own == proposed and len(history) == 1 else REJECT: 1.0}

    assert env.exploitability(strategy) == pytest.approx(0.0, abs=1e-12)
    assert value(env, strategy, "agent_1") == pytest.approx(0.25)


@pytest.mark.parametrize(("script", "total", "asked"), [("optimal", 0.4625, 75.0), ("trusting", 0.0, 0.0)])
def test_returns_of_the_scripted_teams(script: str, total: float, asked: float) -> None:
    env: Any = make("verify-v0")
    ids = [item.id for item in env.items]
    groups = Trajectories().play(env, Scripted(env.script(script)), ids, [0] * len(ids), Sampling())
    assert fmean(group.episodes[0].total for group in groups) == pytest.approx(total)
    measured = env.measure(groups)["verdicts"]
    assert (measured["asked %"], measured.get("true replies %", 100)) == (asked, 100)
    assert measured["accepted wrong %"] == (25 if script == "trusting" else 0)
