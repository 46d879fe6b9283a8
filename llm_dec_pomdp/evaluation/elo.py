"""Elo ratings from the games of a cross-play, for two-player games whose equilibrium is not known.

A rating is a model of the expected score of team i in the first role against team j in the second:

    E_ij = 1 / (1 + 10^(-(R_i - R_j + H) / 400))

H is the advantage of the first role. All R and H are fitted at once by maximum likelihood (Bradley and Terry 1952), so
that the order of the games does not matter. The score of a game is 1/2 for equal rewards, and 1 or 0 for the largest
difference of rewards among all games, and linear in the difference between these. One virtual draw (tied game) of every
team against a team of rating 0 keeps the rating of a team that wins all games finite.

Elo orders teams by their results against each other. It does not measure exploitability: a team that beats all others
may lose to a best response, and in a game of rock, paper and scissors all three have the same rating.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..envs.base import TextDecPOMDP
from ..seeding import generator
from ..types import Episode
from .intervals import LEVEL, Array, Interval

MEAN = 1500.0  # mean rating of the teams
_SCALE = 400 / math.log(10)  # points of a unit of the logistic function
_RESAMPLES = 1000
_STEPS = 50  # of Newton's method
Games = Mapping[tuple[int, ...], Sequence[float]]
"""By the team of the first and of the second role: reward of the first minus reward of the second, for each game."""


@dataclass(frozen=True)
class Elo:
    """Ratings of teams, with 95 % intervals by a bootstrap over the games of each pair.

    Attributes:
        ratings: The rating of each team; their mean is 1500.
        first: The advantage of the first role, in points.
    """

    ratings: tuple[Interval, ...]
    first: Interval


def differences(env: TextDecPOMDP, episodes: Sequence[Episode]) -> list[float]:
    """Return the reward of the first minus that of the second agent for each scored episode.

    The list is empty unless the environment is a game of two agents whose rewards have the same sum in every episode.
    """
    if len(env.possible_agents) != 2 or env.facts.joint_reward:
        return []
    totals = [[sum(episode.rewards_of(agent)) for agent in env.possible_agents] for episode in episodes]
    totals = [pair for pair in totals if not math.isnan(sum(pair))]
    sums = [first + second for first, second in totals]
    opposite = bool(sums) and max(sums) - min(sums) < 1e-9
    return [first - second for first, second in totals] if opposite else []


def elo(games: Games, teams: int) -> Elo:
    """Fit ratings to the games of all pairs of teams; see the module.

    Args:
        games: The games of each ordered pair of teams, see `Games`.
        teams: Number of teams.

    Raises:
        ValueError: A pair has no games.
    """
    empty = [pair for pair, played in games.items() if not len(played)]
    if empty or not games:
        raise ValueError(f"the pairs {empty} of teams have no games; play at least one episode for each pair")
    largest = max(max(map(abs, played)) for played in games.values()) or 1.0
    scores = {pair: 0.5 + np.asarray(played) / (2 * largest) for pair, played in games.items()}
    counts = np.array([len(played) for played in scores.values()], dtype=float)
    means = np.array([[played.mean() for played in scores.values()]])
    random = generator(0, "elo")
    resampled = np.stack(
        [
            played[random.integers(len(played), size=(_RESAMPLES, len(played)))].mean(axis=1)
            for played in scores.values()
        ],
        axis=1,
    )
    design = np.zeros((len(scores), teams + 1))  # of a pair: +1 for the first team, -1 for the second, 1 for H
    for row, (first, second) in zip(design, scores, strict=True):
        row[first] += 1
        row[second] -= 1
        row[-1] = 1
    found, samples = (_fitted(design, counts, part) for part in (means, resampled))
    low, high = np.quantile(samples, [LEVEL / 2, 1 - LEVEL / 2], axis=0)
    *ratings, first = (Interval(*map(float, bounds)) for bounds in zip(found[0], low, high, strict=True))
    return Elo(tuple(ratings), first)


def _fitted(design: Array, counts: Array, means: Array) -> Array:
    """Return ratings and the advantage of the first role, shape (B, N + 1), by Newton's method.

    Args:
        design: Of each pair, shape (P, N + 1).
        counts: Games of each pair [P].
        means: Mean score of each pair in B samples, shape (B, P).
    """
    rows = np.vstack([design, np.eye(design.shape[1])])  # virtual draws
    weights = np.append(counts, np.ones(design.shape[1]))
    wanted = np.hstack([means, np.full((len(means), design.shape[1]), 0.5)])
    values: Array = np.zeros((len(means), design.shape[1]))
    for _ in range(_STEPS):
        expected = 1 / (1 + np.exp(-values @ rows.T))
        gradient = ((wanted - expected) * weights) @ rows
        curvature: Array = np.einsum("bp,pi,pj->bij", expected * (1 - expected) * weights, rows, rows)
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        values = values + np.clip(step, -1.0, 1.0)
    values[:, :-1] -= values[:, :-1].mean(axis=1, keepdims=True)
    values *= _SCALE
    values[:, :-1] += MEAN
    return values
