"""firefighting-v0: Two fire fighters choose among three burning houses in a row.

| fact | value |
|---|---|
| agents | agent_0 "fighter 1", agent_1 "fighter 2" |
| turns | 3; `max_turns` sets the horizon |
| optimal value | -4.3835, -5.737, -6.5788 at horizon 2, 3, 4 (published) |
| tables | `data/classics/firefighting.dpomdp` |
| options | `words`: "fixed" (one sentence for each observation) or "paraphrased" (one of several sentences) |

Observation, action: as in dectiger-v0. Each agent observes whether it sees flames at its house. Actions: house 1, house
2, house 3. A text without an action name counts as "house 1".

Reward. Both agents receive the same reward: minus the sum of the fire levels (0 to 2) of all houses after the turn. The
score is the return so far.

| fighters at a house | change of its fire |
|---|---|
| two | it is put out |
| one | falls by one level: always if no neighbour burns, else with probability 0.6 |
| none, the house burns | rises by one level with probability 0.8 if a neighbour burns, else 0.4 |
| none, the house does not burn | starts with probability 0.8 if a neighbour burns |

An agent sees flames with probability 0.2, 0.5 or 0.8 at level 0, 1 or 2. All levels are equally likely at the
beginning.

Optimum. `script:optimal` is an optimal team for horizons 2 to 4.

Source: Oliehoek, Spaan, Vlassis, "Optimal and approximate Q-value functions for decentralized POMDPs", JAIR 32, 2008.
The paper prints -4.3825 for horizon 2; its tables, rounded as published, give -4.3835.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("firefighting-v0", max_turns=2)
    >>> env.facts.optimum
    -4.3835
    >>> _ = env.reset(seed=0)
    >>> _, rewards, _, _, _ = env.step({"agent_0": "house 1", "agent_1": "house 3"})
    >>> rewards["agent_0"] <= 0
    True
"""

from __future__ import annotations

from .base import Classic


class FireFighting(Classic):
    """Two fire fighters and three houses; the module docstring describes the environment."""

    file = "firefighting"
    explanation = (
        "Three houses stand in a row, and each may burn at level 0, 1 or 2. At every turn each of two "
        "fighters goes to one house. Two at a house put its fire out. One alone lowers it by a level, always "
        "where no neighbour burns, and 6 times in 10 otherwise. An unattended fire tends to rise, and burning "
        "houses set their neighbours on fire. After every turn the levels of all houses are summed, and that "
        "is what it costs. Flames can be overlooked or imagined."
    )
    harmless = "house-1"
    phrases = {
        "flames": (
            "You see flames at your house.",
            "Your house seems to burn.",
            "Fire flickers in the windows of your house.",
        ),
        "no-flames": (
            "You see no flames at your house.",
            "Your house seems safe.",
            "The windows of your house stay dark.",
        ),
    }
    published = {2: -4.3835, 3: -5.737, 4: -6.5788}
