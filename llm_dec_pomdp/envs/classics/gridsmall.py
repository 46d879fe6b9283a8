"""gridsmall-v0: Two robots, each of which sees one wall, try to meet on a grid of 2 x 2 cells.

| fact | value |
|---|---|
| agents | agent_0 "robot 1", agent_1 "robot 2" |
| turns | 3; `max_turns` sets the horizon |
| optimal value | 0.91, 1.5504, 2.2416 at horizon 2, 3, 4 (published) |
| tables | `data/classics/gridsmall.dpomdp` |
| options | `words`: "fixed" (one sentence for each observation) or "paraphrased" (one of several sentences) |

Observation, action: as in dectiger-v0. Each agent observes on which side it sees a wall, left or right. Actions: up,
down, left, right, stay. A text without an action name counts as "stay".

Reward. Both agents receive the same reward. The score is the return so far:

| after the turn | reward |
|---|---|
| both robots are in the same cell | 1 |
| they are in different cells | 0 |

A robot moves in the chosen direction with probability 0.6. With probability 0.1 each it moves in one of the other three
directions or stays. It also stays if a wall is in the way. The action stay always works. Robot 1 begins in the upper
right cell, robot 2 in the lower left cell.

Optimum. `script:optimal` is an optimal team for horizons 2 to 4.

Source: Bernstein, Hansen, Zilberstein, "Bounded policy iteration for decentralized POMDPs", IJCAI 2005; with the two
observations of Amato, Bernstein, Zilberstein, AAMAS workshop MSDM 2006.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("gridsmall-v0", max_turns=2)
    >>> env.facts.optimum
    0.91
    >>> _ = env.reset(seed=0)
    >>> _, rewards, _, _, _ = env.step({"agent_0": "stay", "agent_1": "stay"})
    >>> rewards["agent_0"]
    0.0
"""

from __future__ import annotations

from .base import Classic


class GridSmall(Classic):
    """Two robots meet on a grid; the module docstring describes the environment."""

    file = "gridsmall"
    explanation = (
        "Two robots are on a grid of two rows and two columns, robot 1 in the upper right cell and robot 2 in "
        "the lower left one. Every turn after which both are in the same cell pays 1. A move goes as wanted 6 "
        "times in 10, otherwise somewhere else or nowhere; staying always works. All a robot sees is on which "
        "side of it the outer wall is."
    )
    harmless = "stay"
    phrases = {
        "left-wall": (
            "You see a wall on your left.",
            "The wall to the left is close.",
            "There is nothing but wall in the west.",
        ),
        "right-wall": (
            "You see a wall on your right.",
            "The wall to the right is close.",
            "There is nothing but wall in the east.",
        ),
    }
    published = {2: 0.91, 3: 1.5504, 4: 2.2416}
