"""scouts-v0: observations, rewards of looks, and returns of teams with a known value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.contrib.scouts.scouts import Scouts
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.types import Episode

SHOWN = ((3, 1), (2, 5), (9, 0))


class Known(Scouts):
    """Environment with the same offers in every episode."""

    def shown_at(self, seed: int, look: int) -> tuple[int, ...]:
        return SHOWN[look - 1]


def play(env: Scouts, decisions: Sequence[str], report: str = "poor") -> list[float]:
    """Return the reward of each decision; the scouts report in between."""
    env.reset(seed=0)
    paid: list[float] = []
    for decision in decisions:
        paid.append(env.step(dict.fromkeys(env.agents, decision))[1]["agent_0"])
        if env.agents:
            assert env.step(dict.fromkeys(env.agents, report))[1]["agent_0"] == 0.0
    return paid


@pytest.mark.parametrize(
    ("decisions", "paid", "looks"),
    [
        (["STOP"], [0], 0),
        (["LOOK", "STOP"], [3 - 1, 0], 1),
        (["LOOK", "LOOK", "STOP"], [3 - 1, 5 - 3 - 1, 0], 2),
        (["LOOK", "LOOK", "LOOK"], [3 - 1, 5 - 3 - 1, 9 - 5 - 1], 3),
        (["LOOK", "perhaps"], [3 - 1, -1], 1),
        ([""], [-1], 0),
        (["Do not stop: look", "I looked. Stop."], [3 - 1, 0], 1),
        (["look or STOP", ""], [0], 0),
    ],
)
def test_a_look_pays_what_it_betters_less_its_cost(decisions: list[str], paid: list[float], looks: int) -> None:
    env = Known(max_turns=5)
    assert play(env, decisions[: len(paid)]) == pytest.approx(paid)
    score = env.last_score
    assert score is not None
    best = max([0, *(offer for offers in SHOWN[:looks] for offer in offers)])
    assert score.total == pytest.approx(sum(paid)) == pytest.approx(best + score.components["cost"])
    assert score.diagnostics == {"looks": looks, "optimal_looks": 3}  # 9 is the first of at least 6.1
    assert [event.kind for event in env.latest.transition.events] == ["stop"]
    assert env.latest.transition.terminated


def test_a_scout_sees_its_own_offer_of_this_look_alone_and_the_coordinator_reports_alone() -> None:
    env = Known(max_turns=5)
    env.reset(seed=0)
    assert not any(env.asked(agent) for agent in ("agent_1", "agent_2"))
    seen: list[str] = []
    for _ in range(2):
        env.step(dict.fromkeys(env.agents, "LOOK"))
        seen += [env.history(agent)[-1].text.splitlines()[-1] for agent in ("agent_1", "agent_2")]
        assert [len(env.history(agent)) for agent in ("agent_1", "agent_2")] == [1, 1]
        env.step({"agent_0": "", "agent_1": " high\nenough", "agent_2": "low"})
    assert seen == ["Your offer: 3", "Your offer: 1", "Your offer: 2", "Your offer: 5"]
    last = env.history("agent_0")[-1].text
    assert last == "Scout 1 reports: high enough\nScout 2 reports: low\nLooks left: 1"


def test_offers_follow_from_the_seed_and_are_uniform() -> None:
    env = Scouts(offers=4, scouts=3)
    drawn = [offer for seed in range(1000) for look in (1, 2) for offer in env.shown_at(seed, look)]
    for offer in range(4):  # 6000 draws of 1/4 each: six standard errors are 201
        assert abs(drawn.count(offer) - 1500) < 201
    assert env.shown_at(7, 1) == env.shown_at(7, 1) != env.shown_at(7, 2)


# --- values -----------------------------------------------------------------------------------------------------------


def episodes(env: Scouts, script: str, count: int) -> list[Episode]:
    policy = Scripted(env.script(script))
    [group] = Trajectories("own").play(env, policy, ["scouts"], [0], Sampling(), count)
    return list(group.episodes)


def facts(episode: Episode) -> tuple[float, float]:
    assert episode.final is not None
    return episode.final.diagnostics["looks"], episode.final.diagnostics["optimal_looks"]


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize(
    "options", [{}, {"scouts": 1, "cost": 0.5}, {"scouts": 3, "offers": 20}, {"cost": 7.0}], ids=str
)
def test_the_optimal_team_makes_the_looks_of_the_best_rule(options: dict[str, Any]) -> None:
    played = [facts(episode) for episode in episodes(Scouts(**options), "optimal", 40)]
    assert all(earned == best for earned, best in played)


@pytest.mark.slow
def test_a_million_episodes_of_the_best_rule_earn_the_optimum() -> None:
    """This tests the rule on the environment's offers; the test above shows that the optimal team follows it."""
    env = Scouts()
    most, total, squares, count = env.search.looks, 0.0, 0.0, 1_000_000
    for seed in range(count):
        looks = best = 0
        while looks < most and best < env.threshold:
            looks += 1
            best = max(best, *env.shown_at(seed, looks))
        earned = best - env.cost * looks
        total, squares = total + earned, squares + earned**2
    error = math.sqrt((squares / count - (total / count) ** 2) / count)
    assert env.facts.optimum is not None
    assert total / count == pytest.approx(env.facts.optimum, abs=3 * error)
    assert error < 0.002


def test_a_table_plays_it_and_what_changes_is_said_in_few_words() -> None:
    env = Scouts(max_turns=5)
    menus = {agent: env.choices(agent) for agent in env.possible_agents}
    team = load_team(env.possible_agents, "builtin:table", roles=env.facts.roles, menus=menus)
    assert team.members["agent_1"] is team.members["agent_2"]
    [group] = Trajectories().play(env, team, ["scouts"], [3], Sampling(max_new_tokens=1), 8)
    turns = [turn for episode in group.episodes for turn in episode.turns]
    assert {completion.text for turn in turns for completion in turn.actions.values()} == {
        "LOOK",
        "STOP",
        "poor",
        "good",
    }
    lines = [line for turn in turns for text in turn.observations.values() for line in text.splitlines()]
    changing = [line for line in lines if line.startswith(("Scout", "Looks", "Your"))]
    assert {word for line in changing for word in line.split()} <= set(env.facts.vocabulary)
    assert {"Scout 2 reports: good", "Looks left: 2"} <= set(changing)


def test_scripts_refuse_drafts_and_the_optimum_is_of_the_parallel_protocol() -> None:
    env = with_protocol(Scouts(), "discussion")
    env.reset(seed=0)
    assert env.facts.optimum is None
    with pytest.raises(ValueError, match="drafts"):
        Scouts().script("optimal")("agent_0", env.history("agent_0"))
