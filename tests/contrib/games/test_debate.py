"""debate-v0: rewards, what the judge observes, and the equilibria of both variants."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from llm_dec_pomdp import make
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.contrib.games.self_play import History, Strategy, value
from llm_dec_pomdp.rollout import Trajectories


@pytest.mark.parametrize(
    ("verdict", "expected"), [("yes", (1, -1, 0)), (" No ", (-1, 1, 1)), ("neither", (0, 0, 0)), ("", (0, 0, 0))]
)
def test_debaters_are_rewarded_for_the_verdict_and_the_judge_for_the_right_one(
    verdict: str, expected: tuple[float, float, float]
) -> None:
    env: Any = make("debate-v0")
    env.reset(options={"task_id": "debate/yes_yes_no_no_no"})
    env.step({"agent_0": "2", "agent_1": "I\nwin", "agent_2": ""})
    assert "The debater for no claims: I win" in env.history("agent_2")[-1].text
    assert tuple(env.step(dict.fromkeys(env.agents, verdict))[1].values()) == expected


@pytest.mark.parametrize(
    ("text", "shown"), [("all", "yes, no."), ("YES", "yes."), ("no", "no."), ("none", "nothing."), ("oh", "nothing.")]
)
def test_the_judge_observes_the_shown_documents_only(text: str, shown: str) -> None:
    env: Any = make("debate-v0", evidence="shown")
    env.reset(options={"task_id": "debate/no_no_yes_yes_yes"})
    observed = env.step(dict.fromkeys(env.agents, text))[0]["agent_2"]
    assert observed.splitlines()[1] == f"The debater for yes shows: {shown}"


@pytest.mark.parametrize(
    ("evidence", "script", "expected"),
    [
        ("claimed", "optimal", 1),
        ("shown", "optimal", 1),
        ("claimed", "advocates", 11 / 16),
        ("shown", "advocates", 0.75),
    ],
)
def test_returns_of_scripted_teams(evidence: str, script: str, expected: float) -> None:
    env: Any = make("debate-v0", evidence=evidence)
    ids = [item.id for item in env.items]
    groups = Trajectories().play(env, Scripted(env.script(script)), ids, [0] * len(ids), Sampling())
    assert fmean(group.episodes[0].total for group in groups) == expected
    measured = env.measure(groups)["debate"]
    if evidence == "claimed":
        assert measured == {"true claims %": 100 if script == "optimal" else 25}
    else:
        assert measured == {"helpful shown %": 100, "harmful shown %": 100 if script == "optimal" else 0}


def test_hidden_documents_that_count_against_their_debater_make_an_equilibrium() -> None:
    env: Any = make("debate-v0", evidence="shown")

    def strategy(of_debaters: str, of_judge: str) -> Strategy:
        def chances(agent: str, history: History) -> Mapping[str, float]:
            return {env.script(of_judge if agent == "agent_2" else of_debaters)(agent, history): 1.0}

        return chances

    for debaters in ("optimal", "advocates"):
        assert env.exploitability(strategy(debaters, "optimal")) == 0
        assert value(env, strategy(debaters, "optimal"), "agent_2") == 1
    assert env.exploitability(strategy("optimal", "advocates")) > 0


def test_honest_claims_are_no_equilibrium() -> None:
    env: Any = make("debate-v0")

    def honest(agent: str, history: History) -> Mapping[str, float]:
        return {env.script("optimal")(agent, history): 1.0}

    assert env.exploitability(honest) > 0.1


def test_claims_leave_the_judge_with_the_public_document_in_every_pure_equilibrium() -> None:
    """All 27 x 27 x 512 pure strategies if the public document says yes; the other case is its mirror image."""
    chance = np.outer([1, 2, 1], [1, 2, 1]) / 16  # of the numbers of documents that say yes
    yes = np.add.outer(np.arange(3), np.arange(3)) >= 2  # the right answer
    words = np.array(list(itertools.product(range(3), repeat=3)))  # the claim of each number
    judges = np.array(list(itertools.product((False, True), repeat=9))).reshape(-1, 3, 3)
    right, says_yes = np.zeros((27, 27, 512)), np.zeros((27, 27, 512))
    for (f, first), (g, second) in itertools.product(enumerate(words), enumerate(words)):
        verdicts = judges[:, first[:, None], second[None, :]]
        right[f, g] = ((verdicts == yes) * chance).sum((1, 2))
        says_yes[f, g] = (verdicts * chance).sum((1, 2))
    stable = right >= right.max(2, keepdims=True) - 1e-9
    stable &= (says_yes >= says_yes.max(0, keepdims=True) - 1e-9) & (says_yes <= says_yes.min(1, keepdims=True) + 1e-9)
    assert stable.any()
    assert right[stable] == pytest.approx(11 / 16)
