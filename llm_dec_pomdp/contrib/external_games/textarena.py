"""TextArena's games (github.com/LeonGuertler/TextArena) as tasks for teams.

    from llm_dec_pomdp.contrib.external_games.textarena import from_textarena

    env = from_textarena("Mastermind-v0", roles=("adviser", "player"))
    env = from_textarena("IteratedPrisonersDilemma-v0", players=2, roles=("one", "other"))
    env = llm_dec_pomdp.make("llm_dec_pomdp.contrib.external_games.textarena:from_textarena", game="Mastermind-v0")

`contrib.external_games.games` describes the observations and rewards of the roles. TextArena's ids that end in "-raw"
show only what is new at each turn, and the history of an agent grows. The other ids repeat everything that matters at
every turn, and histories are reset at every turn. TextArena is installed by `pip install -e '.[textarena]'`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from llm_dec_pomdp.envs import TaskOptions, Tasks
from llm_dec_pomdp.integrations.libraries import construct, library
from llm_dec_pomdp.registries import UnknownNameError, nearest

from .games import TEAM, Game, GameView, Sees


def from_textarena(
    game: str,
    *,
    roles: Sequence[str] = TEAM,
    sees: Sees = "advisers",
    players: int = 1,
    best: float = 1.0,
    options: Mapping[str, Any] | None = None,
    tasks: Tasks = "sample",
    **common: Unpack[TaskOptions],
) -> Game:
    """Return a game of TextArena as a task for a team.

    Args:
        game: The id in TextArena, such as "Mastermind-v0".
        roles, sees, players, best: See `Game`.
        options: Options of TextArena's constructor.
        tasks, common: See `Game`; a game may end before `max_turns`.

    Raises:
        ImportError: TextArena is missing or too old.
        KeyError: TextArena has no such game; the message names the nearest ones.
    """
    known = library("textarena", "textarena").envs.registration.ENV_REGISTRY
    if game not in known:
        raise UnknownNameError(f"TextArena has no game {game!r}; {nearest(game, known)}")
    return Game(
        f"textarena/{game}",
        partial(TextArenaGame, game, players, dict(options or {})),
        roles,
        sees,
        players,
        best,
        tasks=tasks,
        **common,
    )


class TextArenaGame:
    """A running game of TextArena, by its id, its number of players and the options of its constructor.

    Raises:
        RuntimeError: TextArena cannot build it.
    """

    def __init__(self, game: str, players: int, options: Mapping[str, Any]) -> None:
        self._players = players
        self._env = construct(library("textarena", "textarena").make, game, options)

    def reset(self, seed: int) -> GameView:
        """Start the game."""
        self._env.reset(num_players=self._players, seed=seed)
        return self._look()

    def step(self, text: str) -> GameView:
        """Make a move; TextArena gives rewards at the end of a game."""
        over, _ = self._env.step(action=text)
        if not over:
            return self._look()
        rewards, _ = self._env.close()
        paid = tuple(float(rewards[player]) if rewards else math.nan for player in range(self._players))
        return GameView("", paid, over=True)

    def _look(self) -> GameView:
        player, seen = self._env.get_observation()
        nothing = (0.0,) * self._players
        if isinstance(seen, str):
            return GameView(seen, nothing, player=player, whole=True)
        return GameView("\n".join(message for sender, message, _ in seen if sender != player), nothing, player=player)
