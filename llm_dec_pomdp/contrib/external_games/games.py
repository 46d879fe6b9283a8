"""Text games of other suites, played by a team: the shared part of `gem` and `textarena` next to this module.

In a game of one player the last role of the team makes the moves, and the other roles advise it. As for every task,
the protocol decides which agents observe each other's texts ("sequential": the advisers first, then the player). The
option `sees` decides what the roles observe of the game:

| `sees` | advisers | player |
|---|---|---|
| "advisers" (default) | all that the game shows | only that a game is played, and what the protocol passes on |
| "all" | all that the game shows | all that the game shows |
| "parts" | every n-th line, a different one each | every n-th line |

In a game of several players every role is a player. It observes what the game shows to this player, moves when it is
its turn, and receives its own reward.

A task is a start of the game: the seed for its `reset`. The state is this start and all moves since. If a position is
not in the cache, the game is replayed from the start. So forks, snapshots and replays are as exact as the game. For
games that use the global random generators of Python and NumPy, these are seeded before each move and restored after
it. A game with its own unseeded generator fails a check of `check_env`.

The score is the sum of the game's rewards. Its lower bound is the return of a team that sends only empty texts.
`check_env` reports games that reward empty texts, such as games that reward progress when an invalid move ends them.
"""

from __future__ import annotations

import contextlib
import math
import random
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Protocol, Unpack, get_args

import numpy as np

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, TaskSource, Transition
from llm_dec_pomdp.registries import nearest
from llm_dec_pomdp.types import Message, Score, TaskItem

Sees = Literal["advisers", "all", "parts"]
TEAM = ("adviser", "player")
STARTS = 64  # number of tasks; every fourth is a test task
TURNS = 20
KEPT = 64  # cached games in progress
_EXAMPLE = re.compile(r"\\boxed\{(?!\.\.\.)[^{}]+\}|\[(?!GAME\]|Player)[^\[\]]+\]")  # no names of speakers


class GameView(NamedTuple):
    """The position of a game after a move, or at the start.

    Attributes:
        text: The text for the player whose turn it is.
        rewards: The reward of the move for each player.
        over: Whether the game is over.
        player: The player whose turn it is, from 0.
        whole: Whether the text contains everything that the game showed before.
    """

    text: str
    rewards: tuple[float, ...]
    over: bool = False
    player: int = 0
    whole: bool = False


class ExternalGame(Protocol):
    """A running game of another suite."""

    def reset(self, seed: int) -> GameView:
        """Start the game."""
        ...

    def step(self, text: str) -> GameView:
        """Make a move."""
        ...


Moves = tuple[tuple[str, int], ...]  # (text, seed of the random generators during the move)


class GameState(NamedTuple):
    """The state: the start, the moves since, the position after them, and the return so far."""

    start: int
    moves: Moves
    position: GameView
    paid: float = 0.0


class Table:
    """A cache of games in progress, by start and moves; copies of an environment share it."""

    _alone = threading.RLock()  # all games share the global random generators

    def __init__(self, build: Callable[[], ExternalGame]) -> None:
        self._build = build
        self._games: OrderedDict[tuple[int, Moves], ExternalGame] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {"_build": self._build, "_games": OrderedDict()}

    def play(self, start: int, moves: Moves) -> GameView:
        """Return the position after these moves."""
        with self._alone:
            game = self._games.pop((start, moves[:-1]), None) if moves else None
            position, left = None, moves[-1:]
            if game is None:
                left = moves
                with own_chance(start):
                    game = self._build()
                    position = game.reset(start)
            for text, seed in left:
                with own_chance(seed):
                    position = game.step(text)
            assert position is not None  # a cached game is always followed by a move
            self._games[start, moves] = game
            while len(self._games) > KEPT:
                self._games.popitem(last=False)
            return position


@contextlib.contextmanager
def own_chance(seed: int) -> Generator[None]:
    """Seed the global generators of Python and NumPy, and restore them at the end."""
    before, numpy_before = random.getstate(), np.random.get_state()  # noqa: NPY002  # games use the legacy generator
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)  # noqa: NPY002


class Game(Task[GameState]):
    """A game of another suite as a task. See the module docstring.

    Args:
        name: Name of suite and game.
        build: Function that builds the game; it is pickled with the environment.
        roles: The advisers and, last, the player; in a game of several players, the players.
        sees: "advisers", "all" or "parts", in a game of one player.
        players: The number of players of the game.
        best: The highest sum of rewards in a game.
        tasks, common: See `Task`; `max_turns` is 20 by default. Rows have a `prompt`, which no agent observes, and a
            `start`, the seed.

    Raises:
        ValueError: Roles or `sees` are incompatible with the number of players.
    """

    def __init__(
        self,
        name: str,
        build: Callable[[], ExternalGame],
        roles: Sequence[str] = TEAM,
        sees: Sees = "advisers",
        players: int = 1,
        best: float = 1.0,
        *,
        tasks: Tasks = "sample",
        **common: Unpack[TaskOptions],
    ) -> None:
        if sees not in get_args(Sees):
            raise ValueError(f"sees is {sees!r}; {nearest(sees, get_args(Sees))}")
        if players > 1 and len(roles) != players:
            raise ValueError(
                f"{name} has {players} players, and there are {len(roles)} roles ({list(roles)}); give {players} roles"
            )
        if players == 1 and len(roles) < 2 and sees != "all":
            raise ValueError(f"roles are {list(roles)}: a player without advisers must see the game; set sees='all'")
        self.declared = Facts(
            name=name,
            roles=tuple(roles),
            components=("game",),
            score_range=(-math.inf, best),  # set in `facts`, since the return of empty texts may depend on max_turns
            joint_reward=players == 1,
            shares_texts=True,  # a game may show the moves to all players
            scripts=("examples",),
        )
        self.sees, self.players, self.best = sees, players, best
        self.source = TaskSource(name, required=("prompt", "start"), sample=self._starts)  # type: ignore[misc]
        self._table = Table(build)
        self._silent: dict[tuple[str, int], float] = {}  # return of empty texts, by start and turns
        common.setdefault("max_turns", TURNS)
        super().__init__(tasks, **common)

    def _starts(self) -> list[TaskItem]:
        name = self.declared.name
        splits = ["test" if number % 4 == 3 else "train" for number in range(STARTS)]
        return [
            TaskItem(f"{name}/{number}", f"{name}, start {number}", split, fields={"start": str(number)})
            for number, split in enumerate(splits)
        ]

    def problem(self, item: TaskItem) -> str:
        """Return why the start of a row is not a seed; "" if it is."""
        start = item.fields["start"]
        return "" if start.isascii() and start.isdigit() else f"field 'start': {start!r} is not a number of at least 0"

    # --- the game -----------------------------------------------------------------------------------------------------

    def initial_state(self, item: TaskItem, seed: int) -> GameState:
        """Return the state at the start that the row names."""
        start = int(item.fields["start"])
        return GameState(start, (), self._table.play(start, ()))

    def transition(self, state: GameState, actions: Mapping[str, str], seed: int) -> Transition[GameState]:
        """Make the move of the player whose turn it is."""
        moves = (*state.moves, (actions[self._mover(state)], seed))
        position = self._table.play(state.start, moves)
        reward = sum(position.rewards) / self.players
        following = GameState(state.start, moves, position, state.paid + reward)
        rewards = None if self.players == 1 else dict(zip(self.possible_agents, position.rewards, strict=True))
        reset_history = frozenset(self.observations(following)) if position.whole else frozenset[str]()
        score = Score(following.paid, {"game": following.paid})
        return Transition(following, reward, score, position.over, rewards, reset_history=reset_history)

    def _mover(self, state: GameState) -> str:
        return self.possible_agents[-1 if self.players == 1 else state.position.player]

    def observations(self, state: GameState) -> Mapping[str, str | Message]:
        """Return the observation of each agent that acts next; empty when the game is over."""
        if state.position.over:
            return {}
        if self.players > 1:
            return {self._mover(state): state.position.text}
        return {agent: self._view(place, state.position.text) for place, agent in enumerate(self.possible_agents)}

    def _view(self, place: int, text: str) -> str:
        roles = self.declared.roles
        *advisers, player = roles
        plays = place == len(advisers)
        request = (
            f"You are the {player}: your text is the next move."
            if plays
            else f"You are the {roles[place]}. Write to the {player}, who makes the moves, what it should do."
        )
        if self.sees == "advisers" and plays:
            return f"A game is played that {' and '.join(advisers)} can see and you cannot. {request}"
        if self.sees == "parts":
            lines = text.splitlines()[place :: len(roles)]
            text = "\n".join([f"Every {len(roles)}. line of what the game shows, the others see the rest:", *lines])
        return f"{text}\n\n{request}" if len(roles) > 1 else text

    def describe(self, state: GameState) -> Mapping[str, Any]:
        """Return the start, the moves, and the return so far."""
        return {"start": state.start, "moves": [text for text, _ in state.moves], "paid": state.paid}

    # --- bounds of the return -----------------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        """The facts; the score ranges from the return of empty texts at the first start to `best`.

        The reward of a turn may be any difference of two scores in this range. In a game of several players, the
        maximum loss of a player equals the maximum gain of another.
        """
        low, high = self._silence(), self.best
        turn = min(low, low - high, -high if self.players > 1 else 0.0), max(high, high - low)
        return replace(self.declared, score_range=(low, high), turn_range=turn)

    def _silence(self) -> float:
        first = self.items[0].fields["start"], self.max_turns
        if first not in self._silent:
            state = self.initial_state(self.items[0], 0)
            while not state.position.over and len(state.moves) < self.max_turns:
                state = self.transition(state, {self._mover(state): ""}, 0).state
            self._silent[first] = state.paid
        return self._silent[first]

    def script(self, name: str) -> Script:
        """Return the team "examples": the player repeats the moves that the game's rules quote; advisers are silent."""
        if name != "examples":
            return super().script(name)
        position = self.initial_state(self.items[0], 0).position
        examples = _EXAMPLE.findall(position.text) or [""]

        def say(agent: str, history: Sequence[Message]) -> str:
            if self.players == 1 and agent != self.possible_agents[-1]:
                return ""
            return examples[sum(message.role == "action" for message in history) % len(examples)]

        return say
