"""Cross-play: the return of teams whose members come from different training runs.

For every role r and every pair of teams (i, j), the member of role r comes from team i and all other members from team
j. The entry (i, j) of the matrix is the mean over the roles. Its diagonal is the return of each team with its own
members. With two roles, the matrix is symmetric.

The teams are the sampling unit, because pairs that share a team are not independent. Intervals are t intervals with
n - 1 degrees of freedom for n teams. The standard error comes from a bootstrap that resamples teams and is multiplied
by sqrt(n / (n - 1)), as in `comparisons.interquartile_interval`. Intervals need three teams.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ..agents.base import Team
from ..agents.partners import mixed_team
from ..config import ConfigError
from ..envs.base import TextDecPOMDP
from ..seeding import generator
from . import play
from .elo import Elo, Games, differences, elo
from .intervals import LEAST_SEEDS, LEVEL, Array, Interval, within_percent
from .metrics import Summary

_RESAMPLES = 2000
Composition = tuple[int, ...]  # for every role, the number of the team from which its member comes


@dataclass(frozen=True)
class CrossPlay:
    """The returns of all pairs of teams.

    Attributes:
        teams: Names of the N teams.
        roles: Names of the R roles.
        summaries: By role r and teams i and j, the evaluation of the member of role r of team i with the remaining
            members of team j.
        games: In a game of two players with opposite rewards, the differences of their rewards, see `evaluation.elo`.
    """

    teams: tuple[str, ...]
    roles: tuple[str, ...]
    summaries: Sequence[Sequence[Sequence[Summary]]]
    games: Games = field(default_factory=dict[Composition, Sequence[float]])

    @classmethod
    def of(
        cls,
        teams: Sequence[str],
        roles: Sequence[str],
        played: Mapping[Composition, Summary],
        games: Games | None = None,
    ) -> CrossPlay:
        """Return the cross-play of some teams from the evaluation and the games of each of `compositions`.

        Without `games`, or if a pair has none, there are no Elo ratings.
        """
        numbers = range(len(teams))
        summaries = [
            [[played[composition(role, i, j, len(roles))] for j in numbers] for i in numbers]
            for role in range(len(roles))
        ]
        complete: Games = games if games and all(games.values()) else {}
        return cls(tuple(teams), tuple(roles), summaries, complete)

    @property
    def by_role(self) -> Array:
        """Return the mean returns in %, shape (R, N, N)."""
        return np.array([[[s.return_percent.mean for s in row] for row in rows] for rows in self.summaries])

    @property
    def matrix(self) -> Array:
        """Return the mean returns over roles in %, shape (N, N); see the module."""
        return self.by_role.mean(axis=0)

    @property
    def own(self) -> Interval:
        """Return the mean return of a team with its own members, in %."""
        return within_percent(self._over_teams()[0], self.matrix.ravel())

    @property
    def other(self) -> Interval:
        """Return the mean return with one member from another team, in %."""
        return within_percent(self._over_teams()[1], self.matrix.ravel())

    @property
    def gap(self) -> Interval:
        """Return `own` minus `other`, in percentage points."""
        return self._over_teams()[2]

    def _over_teams(self) -> list[Interval]:
        """Return own, other and gap with their intervals over teams."""
        count, matrix = len(self.teams), self.matrix
        means = _own_other_gap(matrix, np.ones((1, count)))[:, 0]
        if count < LEAST_SEEDS:
            return [Interval(float(mean), math.nan, math.nan) for mean in means]
        weights = generator(0, "teams").multinomial(count, np.full(count, 1 / count), size=_RESAMPLES).astype(float)
        mixed = weights[(weights > 0).sum(axis=1) > 1]  # a sample with a single team has no pair
        errors = _own_other_gap(matrix, mixed).std(axis=1, ddof=1)
        half = float(stdtrit(count - 1, 1 - LEVEL / 2)) * math.sqrt(count / (count - 1)) * errors
        return [Interval(float(m), float(m - h), float(m + h)) for m, h in zip(means, half, strict=True)]

    @property
    def elo(self) -> Elo | None:
        """Return Elo ratings; None if the environment is not a game of two players with opposite rewards."""
        return elo(self.games, len(self.teams)) if self.games else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        ratings = self.elo
        return {
            "teams": list(self.teams),
            "roles": list(self.roles),
            "matrix": self.matrix.tolist(),
            "by_role": self.by_role.tolist(),
            **{name: asdict(getattr(self, name)) for name in ("own", "other", "gap")},
            **({"elo": asdict(ratings)} if ratings else {}),
        }

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {getattr(self, name).mean:.1f}" for name in ("own", "other", "gap"))
        return f"CrossPlay({len(self.teams)} teams, {len(self.roles)} roles, {parts})"


def _own_other_gap(matrix: Array, weights: Array) -> Array:
    """Return own, other and gap [3, B] of B samples of the N teams, given their weights [B, N]."""
    diagonal = np.diag(matrix)
    own = weights @ diagonal / weights.sum(axis=1)
    pairs = np.einsum("si,ij,sj->s", weights, matrix, weights) - weights**2 @ diagonal
    other = pairs / (weights.sum(axis=1) ** 2 - (weights**2).sum(axis=1))
    return np.array([own, other, own - other])


def roles_of(env: TextDecPOMDP) -> dict[str, list[str]]:
    """Return the agents of each role; if all agents have the same role, each agent by its name.

    Raises:
        ConfigError: There is a single agent.
    """
    agents = env.possible_agents
    names = [env.role(agent) for agent in agents]
    if len(set(names)) == 1:
        names = agents
    if len(agents) == 1:
        raise ConfigError(
            f"{env.metadata['name']} has the single agent {agents[0]!r} here, so no member can be exchanged; give an "
            "environment and a protocol with at least two agents"
        )
    return {role: [agent for agent, name in zip(agents, names, strict=True) if name == role] for role in names}


def composition(role: int, i: int, j: int, roles: int) -> Composition:
    """Return the team of every role, if `role` comes from team i and the other roles from team j."""
    return tuple(i if number == role else j for number in range(roles))


def compositions(roles: int, teams: int) -> list[Composition]:
    """Return all different compositions of a matrix, the teams with their own members first."""
    numbers = range(teams)
    own = [composition(0, i, i, roles) for i in numbers]
    mixed = [composition(role, i, j, roles) for role in range(roles) for i in numbers for j in numbers]
    return list(dict.fromkeys([*own, *mixed]))


def crossplay(
    teams: Sequence[Team],
    env: TextDecPOMDP,
    *,
    items: int | None = None,
    samples: int | None = None,
    seed: int = 0,
) -> CrossPlay:
    """Evaluate every pair of teams as `llm-dec-pomdp crossplay` does.

    Args:
        teams: At least two teams for the agents of `env`, e.g. trained with different seeds. Each member keeps the
            sampling options of its team.
        env: The environment, with the communication protocol of the teams.
        items: Number of tasks, starting with the first; None: all.
        samples: Number of episodes per task; None: 1, or 100 if there is a single task.
        seed: The seed of completions and of the environment's chance; the same for all pairs.

    Returns:
        The matrix of evaluations, with `own`, `other` and `gap`; and with `elo` in a game of two players.

    Raises:
        ConfigError: There are fewer than two teams, a team lacks an agent, or the environment has a single agent.
    """
    if len(teams) < 2:
        raise ConfigError(f"there is {len(teams)} team; cross-play needs at least two, e.g. of two training seeds")
    for number, team in enumerate(teams, 1):
        if missing := [agent for agent in env.possible_agents if agent not in team.members]:
            raise ConfigError(
                f"team {number} has no member for {missing[0]!r} of {env.metadata['name']}; give teams of the agents "
                f"{', '.join(env.possible_agents)}"
            )
    roles = roles_of(env)
    played: dict[Composition, Summary] = {}
    games: dict[Composition, Sequence[float]] = {}
    for sources in compositions(len(roles), len(teams)):
        members = {a: teams[i] for agents, i in zip(roles.values(), sources, strict=True) for a in agents}
        team = mixed_team({agent: members[agent] for agent in env.possible_agents})
        groups, played[sources] = play.evaluate(team, env, team.sampling, seed, items=items, samples=samples)
        games[sources] = differences(env, [episode for group in groups for episode in group.episodes])
    return CrossPlay.of([str(number + 1) for number in range(len(teams))], list(roles), played, games)
