from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from models import COLOURS, match

import llm_dec_pomdp
from llm_dec_pomdp.agents import Scripted, Team
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.evaluation.crossplay import CrossPlay, compositions, roles_of
from llm_dec_pomdp.evaluation.intervals import Interval
from llm_dec_pomdp.evaluation.metrics import Summary
from llm_dec_pomdp.evaluation.robustness import Loss, Robustness, loss_between
from llm_dec_pomdp.types import Episode, Scale, Score, Turn


def team_of(colour: str) -> Team:
    return Team(dict.fromkeys(("agent_0", "agent_1"), Scripted(lambda agent, history: colour)))


def test_teams_with_conventions_fail_with_each_other() -> None:
    found = llm_dec_pomdp.crossplay([team_of(colour) for colour in COLOURS[:3]], match())
    assert found.matrix.tolist() == [[100, 0, 0], [0, 100, 0], [0, 0, 100]]
    assert (found.own, found.other, found.gap) == (Interval(100, 100, 100), Interval(0, 0, 0), Interval(100, 100, 100))


def test_teams_with_the_same_convention_have_no_gap() -> None:
    assert llm_dec_pomdp.crossplay([team_of("red")] * 2, match()).gap.mean == 0


@pytest.mark.parametrize("count", [0, 1])
def test_cross_play_needs_two_teams(count: int) -> None:
    with pytest.raises(ConfigError, match=f"is {count} team"):
        llm_dec_pomdp.crossplay([team_of("red")] * count, match())


def test_a_team_of_another_environment_is_refused_before_play() -> None:
    stranger = Team({"agent_0": Scripted(lambda agent, history: "red")})
    with pytest.raises(ConfigError, match=r"team 2.*'agent_1'"):
        llm_dec_pomdp.crossplay([team_of("red"), stranger], match())


def test_one_role_of_one_team_joins_the_others_of_another() -> None:
    three = compositions(3, 2)
    assert three[:2] == [(0, 0, 0), (1, 1, 1)]
    assert sorted(three[2:]) == [(0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0)]
    assert len(compositions(2, 5)) == 25


def test_agents_of_one_role_change_together_and_equal_roles_one_by_one() -> None:
    assert roles_of(llm_dec_pomdp.make("scouts-v0")) == {
        "coordinator": ["agent_0"],
        "scout": ["agent_1", "agent_2"],
    }
    with pytest.raises(ConfigError, match="single agent"):
        roles_of(llm_dec_pomdp.make("telegrams-v0", n_agents=1))


def crossed(matrix: list[list[float]]) -> CrossPlay:
    """A cross-play of two roles whose second role has the transposed returns."""
    summary = Summary(Interval(0, 0, 0), {}, 0, 0, 0, 0, 0, 0, 0, 0)
    table = [[replace(summary, return_percent=Interval(v, v, v)) for v in row] for row in matrix]
    return CrossPlay(
        tuple(map(str, range(len(matrix)))), ("a", "b"), [table, list(map(list, zip(*table, strict=True)))]
    )


def test_the_interval_of_the_gap_counts_teams_and_not_pairs() -> None:
    rng = np.random.default_rng(0)
    covered, widths = 0, list[float]()
    for _ in range(60):
        skill = rng.normal(size=5) * 10  # a pair is as good as the sum of the skills of its teams
        own = np.diag(20 + rng.normal(size=5) * 4)
        found = crossed((skill[:, None] + skill[None, :] + own).tolist())
        covered += found.gap.low <= 20 <= found.gap.high
        widths.append(found.other.high - found.other.low)
    assert covered / 60 > 0.9
    assert np.mean(widths) > 2 * 2 * 10 / math.sqrt(5) * 1.96 * 0.9  # of 20 independent pairs it would be half as wide


def test_two_teams_have_no_interval() -> None:
    assert math.isnan(crossed([[90, 10], [20, 80]]).gap.low)
    assert crossed([[90, 10], [20, 80]]).gap.mean == 70


def episodes(task: str, *scores: float) -> list[Episode]:
    turns = ((Turn({}, {}, score, Score(score, {})),) for score in scores)
    return [Episode(task, 0, turn, terminated=True) for turn in turns]


def test_losses_are_paired_by_task_and_in_a_single_task_by_episode() -> None:
    scale = Scale(0.0, 1.0)
    several = loss_between(episodes("a", 1, 0) + episodes("b", 0.5), episodes("a", 0, 0) + episodes("b", 0), scale)
    assert (several.mean, several.low, several.high) == (50, 50, 50)
    single = loss_between(episodes("a", 1, 0.5, math.nan), episodes("a", 0.5, 0, 1), scale)
    assert (single.mean, single.low) == (50, 50)


def test_the_critical_role_loses_most_by_silence_and_others_may_not_be_missed() -> None:
    def silence(role: str, low: float, mean: float) -> Loss:
        return Loss("silent", role, Interval(0, 0, 0), Interval(mean, low, 2 * mean - low))

    found = Robustness(Interval(90, 80, 100), [silence("a", 5, 9), silence("b", -2, 0), silence("c", -3, 12)], {})
    assert (found.critical, found.dispensable) == ("a", ["b"])
