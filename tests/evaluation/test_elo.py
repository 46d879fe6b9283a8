"""Elo ratings: two teams by the equation, the first role, order, intervals, and games without opposite rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from models import match

import llm_dec_pomdp
from llm_dec_pomdp.agents import Scripted, Team
from llm_dec_pomdp.envs import Script
from llm_dec_pomdp.evaluation.elo import elo
from llm_dec_pomdp.types import Message


def pair(first: float, second: float, games: int) -> dict[tuple[int, int], list[float]]:
    """Games of two teams: the shares that the first role wins if it is team 0, and if it is team 1."""
    shares = {(0, 1): first, (1, 0): second}
    return {teams: [1.0 if g < share * games else -1.0 for g in range(games)] for teams, share in shares.items()}


def test_three_wins_of_four_are_191_points() -> None:
    found = elo(pair(0.75, 0.25, 4000), 2)
    strong, weak = found.ratings
    assert strong.mean - weak.mean == pytest.approx(400 * math.log10(3), abs=1.0)
    assert strong.mean + weak.mean == pytest.approx(3000)
    assert found.first.mean == pytest.approx(0.0, abs=1.0)
    assert strong.low < strong.mean < strong.high < strong.mean + 20


def test_the_first_role_has_an_advantage_of_its_own() -> None:
    found = elo(pair(0.75, 0.75, 4000), 2)
    assert [rating.mean for rating in found.ratings] == pytest.approx([1500, 1500], abs=1.0)
    assert found.first.mean == pytest.approx(400 * math.log10(3), abs=1.0)


def test_more_games_narrow_the_interval_and_a_team_that_wins_all_has_a_rating() -> None:
    widths = [(found := elo(pair(0.6, 0.4, n), 2).ratings[0]).high - found.low for n in (20, 2000)]
    assert widths[1] < widths[0] / 5
    winner = elo(pair(1.0, 0.0, 50), 2).ratings[0]
    assert 1600 < winner.mean < 3000


def test_a_pair_without_games_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\(0, 1\)"):
        elo({(0, 1): [], (1, 0): [1.0]}, 2)


def test_cross_play_rates_teams_of_a_game_and_no_others() -> None:
    """A player of Kuhn poker that bets with K and calls with K and Q gains 1/3 a game from one that always bets."""

    def sound(agent: str, history: Sequence[Message]) -> str:
        card = history[0].text.removeprefix("Your card is ")[0]
        return "bet" if card == "K" or (card == "Q" and "player bets" in history[-1].text) else "pass"

    env = llm_dec_pomdp.make("kuhn-v0")
    says: list[Script] = [sound, lambda agent, history: "bet"]
    teams = [Team(dict.fromkeys(env.possible_agents, Scripted(say))) for say in says]
    found = llm_dec_pomdp.crossplay(teams, env, samples=40)
    assert found.elo is not None
    better, worse = found.elo.ratings
    assert better.low > worse.high
    assert better.mean - worse.mean == pytest.approx(400 * math.log10(0.5833 / 0.4167), abs=2)  # 1/2 + (2/3) / (2 * 4)
    assert found.to_dict()["elo"]["ratings"][0]["mean"] == better.mean
    one = Team(dict.fromkeys(("agent_0", "agent_1"), Scripted(lambda agent, history: "red")))
    assert llm_dec_pomdp.crossplay([one, one], match()).elo is None
