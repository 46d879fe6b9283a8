"""Two-player games with known values, and learners with individual rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from llm_dec_pomdp import make
from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.agents.scripted import Scripted
from llm_dec_pomdp.agents.table import Table
from llm_dec_pomdp.algorithms.credit import CounterfactualCredit, JointCredit
from llm_dec_pomdp.algorithms.registration import build_algorithm
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.contrib.games.kuhn import BET, PASS
from llm_dec_pomdp.contrib.games.self_play import value
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Completion, Episode, Group, Message, Turn

LEARNERS = ("magrpo", "marloo", "mareinforce", "maremax", "madpo", "iac", "maac", "magrpo_shuffled")


def evenly(env: Any) -> Any:
    return lambda agent, history: dict.fromkeys(env.choices(agent), 0.5)


def test_the_values_of_kuhn_poker() -> None:
    env: Any = make("kuhn-v0")
    assert value(env, env.equilibrium, "agent_0") == pytest.approx(-1 / 18)
    assert value(env, env.equilibrium, "agent_1") == pytest.approx(1 / 18)
    assert env.exploitability(env.equilibrium) == pytest.approx(0.0, abs=1e-12)
    assert value(env, evenly(env), "agent_0") == pytest.approx(1 / 8)
    assert env.exploitability(evenly(env)) == pytest.approx(11 / 24)


def test_a_bet_that_nobody_calls_wins_every_deal() -> None:
    """Both always pass, so that a bet is never called."""
    env: Any = make("kuhn-v0")
    passive = lambda agent, history: {PASS: 1.0, BET: 0.0}  # noqa: E731
    # Always betting wins 1 on every deal, where passing wins 0 on average: both players gain 1.
    assert env.exploitability(passive) == pytest.approx(1.0)


@pytest.mark.parametrize(("heads", "expected"), [(0.5, 0.0), (0.75, 0.5), (1.0, 1.0)])
def test_exploitability_of_pennies(heads: float, expected: float) -> None:
    env: Any = make("pennies-v0")
    assert env.exploitability(lambda a, h: {"heads": heads, "tails": 1 - heads}) == pytest.approx(expected)


def test_measured_is_the_exploitability_of_what_was_played() -> None:
    env: Any = make("pennies-v0")
    team = Team(dict.fromkeys(env.possible_agents, Scripted(lambda agent, history: "heads")))
    groups = Trajectories().play(env, team, ["pennies"], [0], Sampling(), 4)
    assert env.measure(groups) == {"self-play": {"exploitability": 1.0}}


def test_the_script_draws_the_equilibrium() -> None:
    env: Any = make("kuhn-v0")
    say, history = (
        env.script("equilibrium"),
        (Message("observation", "Your card is J of J, Q and K. The first player passes."),),
    )
    bets = np.mean([say("agent_1", history) == BET for _ in range(900)])
    assert bets == pytest.approx(1 / 3, abs=0.05)


def played(*rewards: Sequence[float]) -> Group:
    """Return a turn of two agents for each pair of rewards; the team has the first reward."""
    texts = [
        {agent: Completion(f"{agent} {g}", (1,), (g,), (0.0,)) for agent in ("agent_0", "agent_1")}
        for g in range(len(rewards))
    ]
    turns = [
        Turn(dict.fromkeys(actions, ""), actions, paid[0], rewards=dict(zip(actions, paid, strict=True)))
        for actions, paid in zip(texts, rewards, strict=True)
    ]
    return Group("t", tuple(Episode("t", g, (turn,), True) for g, turn in enumerate(turns)))


def test_samples_of_an_agent_are_compared_by_its_own_returns() -> None:
    group = played((1.0, 5.0), (0.0, 5.0), (2.0, 8.0))
    samples = list(JointCredit(advantage="leave_one_out").samples(group, 1.0))
    by_agent = {a: [s.advantage for s in samples if s.agent == a] for a in ("agent_0", "agent_1")}
    assert by_agent == {"agent_0": [0.0, -1.5, 1.5], "agent_1": [-1.5, -1.5, 3.0]}


def test_counterfactual_credit_is_by_the_own_return() -> None:
    """In pennies the advantages of the players are opposite, and alternatives are scored for both."""
    env: Any = make("pennies-v0")
    team = Team({agent: Table(env.choices(agent)) for agent in env.possible_agents})
    credit = CounterfactualCredit()
    [group] = credit.rollout.play(env, team, ["pennies"], [1], Sampling(max_new_tokens=1), 6)
    for decision in group.decisions:
        for branch in decision.branches:
            assert branch.rewards_of("agent_0") == branch.rewards == tuple(-r for r in branch.rewards_of("agent_1"))
    advantages = {s.agent: s.advantage for s in list(credit.samples(group, 1.0))[:2]}
    first = {a: t.text for a, t in group.episodes[0].turns[0].actions.items()}
    others = [{a: t.text for a, t in e.turns[0].actions.items()} for e in group.episodes[1:]]
    won = 1.0 if len(set(first.values())) == 1 else -1.0
    for agent, sign in (("agent_0", 1), ("agent_1", -1)):
        changed = np.mean([other[agent] != first[agent] for other in others])
        assert advantages[agent] == pytest.approx(sign * won * 2 * changed)


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_trains_players(learner: str) -> None:
    env: Any = make("pennies-v0")
    tables = {agent: Table(env.choices(agent)) for agent in env.possible_agents}
    sampling = Sampling(max_new_tokens=1)
    algorithm = build_algorithm(learner, {"pairs": "all"} if learner == "madpo" else {}, Team(dict(tables)), sampling)
    algorithm.check_compatible(env)
    algorithm.update(algorithm.rollout.play(env, algorithm.policy, ["pennies"], [2], sampling, 7))
    changes = [table.table.detach()[0, 0] - table.table.detach()[0, 1] for table in tables.values()]
    assert all(change != 0 for change in changes)


def test_recorded_preferences_are_refused_where_agents_are_paid_individually(tmp_path: Any) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"task": "pennies", "chosen": {"agent_0": "heads"}, "rejected": {"agent_0": "tails"}}\n')
    env: Any = make("pennies-v0")
    team = Team({agent: Table(env.choices(agent)) for agent in env.possible_agents})
    algorithm = build_algorithm("madpo", {"source": str(path)}, team, Sampling(max_new_tokens=1))
    with pytest.raises(ConfigError, match=r"pairs\.jsonl"):
        algorithm.check_compatible(env)
