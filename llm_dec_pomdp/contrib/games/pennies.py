"""pennies-v0: Two players show a side of a coin; one wins if the sides are equal, and the other if they differ.

| fact | value |
|---|---|
| agents | agent_0 "matcher", agent_1 "mismatcher" |
| turns | 1 |
| data | one task; the same for training and test |
| return | of a player -1 to 1; the team's return is the matcher's |
| value | 0: both players choose each side with probability 1/2 |

Observation. Whether this player wins if the sides are equal, or if they differ.

Action. heads or tails. A player with any other text loses; if both players have another text, the reward is 0 for both.

Reward. Agents receive individual rewards (`joint_reward=False`): 1 for the winner and -1 for the loser. Reports show
the matcher's return, so that a mean return of 0 is the value of the game.

What it tests. Self-play with opposite interests: no pure strategy is stable. `env.exploitability(strategy)` returns the
exact mean, over the players, of the gain by a best response. It is 0 in the equilibrium, and 1 if both players always
show the same side. `script:equilibrium` chooses uniformly.

Measured (`env.measure`): the exploitability of the observed frequencies of the sides.

Source: von Neumann, Zur Theorie der Gesellschaftsspiele, 1928.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("pennies-v0")
    >>> env.reset(seed=0)[0]["agent_1"]
    'You win where the two coins differ. Say heads or tails.'
    >>> env.step({"agent_0": "heads", "agent_1": "tails"})[1]
    {'agent_0': -1.0, 'agent_1': 1.0}
    >>> env.exploitability(lambda agent, history: {"heads": 0.75, "tails": 0.25})
    0.5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Unpack

from llm_dec_pomdp.envs import Facts, Script, Task, TaskOptions, Tasks, TaskSource, Transition
from llm_dec_pomdp.types import Group, Message, Scale, Score, TaskItem

from .self_play import History, Strategy, drawn, exploitability, frequencies

SIDES = ("heads", "tails")
_TASK = TaskItem("pennies", "Say heads or tails.")


class State(NamedTuple):
    """The state of `Pennies`."""

    item: TaskItem
    over: bool = False


class Pennies(Task[State]):
    """Environment of matching pennies. See the module docstring.

    Args:
        tasks: "sample" is the one task, which is in every split; rows of your own have another request.
        common: See `Task`; `max_turns` is 1.

    Raises:
        ValueError: `max_turns` is not 1.
    """

    source = TaskSource("pennies", sample=lambda: [_TASK], every_split=True)
    declared = Facts(
        name="pennies-v0",
        roles=("matcher", "mismatcher"),
        components=("won",),
        score_range=(-1.0, 1.0),
        scale=Scale(-1.0, 1.0),
        silence_is_lowest=False,
        joint_reward=False,
        vocabulary=SIDES,
        scripts=("equilibrium",),
    )

    def __init__(self, tasks: Tasks = "sample", **common: Unpack[TaskOptions]) -> None:
        super().__init__(tasks, **common)

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """Return the state before the turn."""
        return State(item)

    def observations(self, state: State) -> Mapping[str, str | Message]:
        """Return for each player when it wins."""
        if state.over:
            return {}
        wins = dict(zip(self.possible_agents, ("are equal", "differ"), strict=True))
        return {agent: f"You win where the two coins {when}. {state.item.prompt}" for agent, when in wins.items()}

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Compare the sides and compute the rewards."""
        sides = [actions[agent].strip().lower() for agent in self.possible_agents]
        shown = [side in SIDES for side in sides]
        won = (1.0 if sides[0] == sides[1] else -1.0) if all(shown) else float(shown[0] - shown[1])
        rewards = dict(zip(self.possible_agents, (won, -won), strict=True))
        return Transition(State(state.item, over=True), won, Score(won, {"won": won}), terminated=True, rewards=rewards)

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return the sides."""
        return SIDES

    def exploitability(self, strategy: Strategy) -> float:
        """Return the mean gain of a best response, see `self_play.exploitability`."""
        return exploitability(self, strategy)

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the exploitability of the observed frequencies of the sides."""
        return {"self-play": {"exploitability": self.exploitability(frequencies(groups))}} if groups else {}

    def equilibrium(self, agent: str, history: History) -> Mapping[str, float]:
        """Return the probability of each side in the Nash equilibrium."""
        return dict.fromkeys(SIDES, 0.5)

    def script(self, name: str) -> Script:
        """Return the team "equilibrium", which samples the sides uniformly."""
        return drawn(self.equilibrium) if name == "equilibrium" else super().script(name)
