"""kuhn-v0: Poker of two players with three cards and one bet.

| fact | value |
|---|---|
| agents | agent_0 "first", agent_1 "second" |
| turns | 2 or 3: the first player, the second player, and the first again if it passed and the second bet |
| data | 6 tasks: the deals of two of the cards J < Q < K; the same for training and test |
| files | rows of `prompt` (the request to both) and `cards`, those of the first and of the second player, such as KJ |
| return | of a player -2 to 2; the team's return is the first player's |
| value | -1/18 for the first player |

Observation. A player observes its own card at its first turn, and the other player's last move.

Action. The text `bet` is a bet; any other text is a pass. Both players have put 1 into the pot. A bet adds 1. After a
bet of the other player, bet calls it and pass gives up. After two passes, or after a bet and a call, the higher card
wins.

Reward. Agents receive individual rewards (`joint_reward=False`) at the end. The winner receives the amount that the
loser has put into the pot, 1 or 2, and the loser receives the negative amount. Reports show the first player's return.

What it tests. Self-play with hidden cards: an equilibrium includes bluffs. `env.exploitability(strategy)` returns the
exact mean, over the players, of the gain by a best response. It is 0 in an equilibrium, and 11/24 if both players
choose uniformly. `script:equilibrium` plays this equilibrium:

| player | bets with | calls a bet with |
|---|---|---|
| first | no card | K, and Q one time in three |
| second | K, and J one time in three (a bluff) | K, and Q one time in three |

Measured (`env.measure`): the exploitability of the observed frequencies of a bet in each situation. With few episodes
it is a little too high.

Source: Kuhn, A simplified two-person poker, Contributions to the Theory of Games I, 1950.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("kuhn-v0")
    >>> env.reset(options={"task_id": "kuhn/KQ"})[0]["agent_0"]
    'Your card is K of J, Q and K. Say bet or pass.'
    >>> env.step({"agent_0": "bet", "agent_1": ""})[0]["agent_1"]
    'Your card is Q of J, Q and K. The first player bets. Say bet or pass.'
    >>> env.step({"agent_0": "", "agent_1": "bet"})[1]
    {'agent_0': 2.0, 'agent_1': -2.0}
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Unpack

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, TaskSource, Transition
from llm_dec_pomdp.types import Group, Message, Scale, Score, TaskItem

from .self_play import History, Strategy, drawn, exploitability, frequencies

CARDS = "JQK"
PASS, BET = "pass", "bet"


def _tasks() -> list[TaskItem]:
    deals = map("".join, itertools.permutations(CARDS, 2))
    return [TaskItem(f"kuhn/{cards}", "Say bet or pass.", fields={"cards": cards}) for cards in deals]


class State(NamedTuple):
    """The state of `Kuhn`."""

    item: TaskItem
    played: tuple[bool, ...] = ()  # for each move whether it was a bet
    over: bool = False


class Kuhn(Task[State]):
    """Environment of three-card poker. See the module docstring.

    Args:
        tasks: "sample": the six deals, which are in every split; rows of your own have another request.
        common: See `Task`; `max_turns` is 3 by default.
    """

    source = TaskSource("kuhn", required=("prompt", "cards"), sample=_tasks, every_split=True)
    declared = Facts(
        name="kuhn-v0",
        roles=("first", "second"),
        components=("won",),
        score_range=(-2.0, 2.0),
        scale=Scale(-2.0, 2.0),
        silence_is_lowest=False,
        joint_reward=False,
        scripts=("equilibrium",),
    )

    def __init__(self, tasks: Tasks = "sample", **common: Unpack[TaskOptions]) -> None:
        common.setdefault("max_turns", 3)
        super().__init__(tasks, **common)

    def problem(self, item: TaskItem) -> str:
        """Return why the cards of a row are invalid; "" if they are valid."""
        cards = item.fields["cards"]
        deal = len(cards) == 2 and set(cards) <= set(CARDS) and cards[0] != cards[1]
        return "" if deal else f"field 'cards': {cards!r:.60} is no deal; give two of {', '.join(CARDS)}, such as KJ"

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the state after the deal."""
        return State(item)

    def observations(self, state: State) -> Mapping[str, str | Message]:
        """Return the card at a player's first turn, and the last move of the other player."""
        if state.over:
            return {}
        mover = len(state.played) % 2
        card = f"Your card is {state.item.fields['cards'][mover]} of J, Q and K." if len(state.played) < 2 else ""
        other = ("second", "first")[mover]
        move = f"The {other} player {'bets' if state.played[-1] else 'passes'}." if state.played else ""
        text = " ".join(filter(None, (card, move, state.item.prompt)))
        return {self.possible_agents[mover]: text}

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Make a move; after the last one, compute the rewards."""
        mover = self.possible_agents[len(state.played) % 2]
        played = (*state.played, actions[mover].strip().lower() == BET)
        over = len(played) == 3 or (len(played) == 2 and played != (False, True)) or len(played) == self.max_turns
        won = _won(state.item.fields["cards"], played) if over else 0.0
        rewards = dict(zip(self.possible_agents, (won, -won), strict=True))
        return Transition(State(state.item, played, over), won, Score(won, {"won": won}), over, rewards)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the two moves."""
        return PASS, BET

    def exploitability(self, strategy: Strategy) -> float:
        """Return the mean gain of a best response, see `self_play.exploitability`."""
        return exploitability(self, strategy)

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the exploitability of the observed frequencies of bets in each situation."""
        return {"self-play": {"exploitability": self.exploitability(frequencies(groups))}} if groups else {}

    def equilibrium(self, agent: str, history: History) -> Mapping[str, float]:
        """Return the probability of each move in a Nash equilibrium: Kuhn's with alpha = 0."""
        first = history[0].text
        card = next((card for card in CARDS if first.startswith(f"Your card is {card} ")), None)
        if card is None:
            raise ValueError(f"kuhn-v0 has no observation {first!r:.60}; give a history of this environment")
        if agent == self.possible_agents[0] and len(history) == 1:
            bet = 0.0
        elif "player bets" in history[-1].text:
            bet = {"J": 0.0, "Q": 1 / 3, "K": 1.0}[card]
        else:
            bet = {"J": 1 / 3, "Q": 0.0, "K": 1.0}[card]
        return {PASS: 1 - bet, BET: bet}

    def script(self, name: str) -> Script:
        """Return the team "equilibrium", which samples moves from an equilibrium."""
        return drawn(self.equilibrium) if name == "equilibrium" else super().script(name)


def _won(cards: str, played: Sequence[bool]) -> float:
    """Return the reward of the first player; the second player's reward is its negative."""
    bets = [any(played[0::2]), any(played[1::2])]  # whether each player has put 2 into the pot
    if bets[0] != bets[1]:
        return 1.0 if bets[0] else -1.0
    stake = 1.0 + all(bets)
    return stake if CARDS.index(cards[0]) > CARDS.index(cards[1]) else -stake
