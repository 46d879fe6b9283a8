"""GEM's environments (github.com/axon-rl/gem) as tasks for teams.

    from llm_dec_pomdp.contrib.external_games.gem import from_gem

    env = from_gem("game:Mastermind-v0-hard", roles=("adviser", "player"))
    env = llm_dec_pomdp.make("llm_dec_pomdp.contrib.external_games.gem:from_gem", game="game:Mastermind-v0-hard")

`contrib.external_games.games` describes the observations and rewards of the roles. GEM is installed by
`pip install -e '.[gem]'`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from llm_dec_pomdp.envs import TaskOptions, Tasks
from llm_dec_pomdp.integrations.libraries import construct, library
from llm_dec_pomdp.registries import UnknownNameError, nearest

from .games import TEAM, Game, GameView, Sees


def from_gem(
    game: str,
    *,
    roles: Sequence[str] = TEAM,
    sees: Sees = "advisers",
    best: float = 1.0,
    options: Mapping[str, Any] | None = None,
    tasks: Tasks = "sample",
    **common: Unpack[TaskOptions],
) -> Game:
    """Return an environment of GEM as a task for a team.

    Args:
        game: The id in GEM, such as "game:Mastermind-v0-hard".
        roles, sees, best: See `Game`.
        options: Options of GEM's constructor.
        tasks, common: See `Game`; a game may end before `max_turns`.

    Raises:
        ImportError: GEM is missing or too old.
        KeyError: GEM has no such environment; the message names the nearest ones.
    """
    gem = library("gem", "gem")
    known = gem.envs.registration.ENV_REGISTRY
    if game not in known:
        raise UnknownNameError(f"GEM has no environment {game!r}; {nearest(game, known)}")
    build = partial(GemGame, game, dict(options or {}))
    return Game(
        f"gem/{game}",
        build,
        roles,
        sees,
        best=best,
        tasks=tasks,
        **common,
    )


class GemGame:
    """A running environment of GEM, by its id and the options of its constructor.

    Raises:
        RuntimeError: GEM cannot build it.
    """

    def __init__(self, game: str, options: Mapping[str, Any]) -> None:
        self._env = construct(library("gem", "gem").make, game, options)

    def reset(self, seed: int) -> GameView:
        """Start the game."""
        text, info = self._env.reset(seed=seed)
        return GameView(_with_suffix(text, info), (0.0,))

    def step(self, text: str) -> GameView:
        """Make a move; a game that GEM truncates is over."""
        observation, reward, terminated, truncated, info = self._env.step(text)
        return GameView(_with_suffix(observation, info), (float(reward),), bool(terminated or truncated))


def _with_suffix(text: Any, info: Mapping[str, Any]) -> str:
    if not isinstance(text, str):
        raise TypeError(
            f"GEM returned a {type(text).__name__} ({text!r:.60}) as the observation; choose one of its text "
            "environments"
        )
    return "\n".join(part for part in (text, info.get("suffix", "")) if part)
