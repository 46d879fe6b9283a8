"""firefighting-v0: Two fire fighters choose among three burning houses in a row.

| fact | value |
|---|---|
| agents | agent_0 "fighter 1", agent_1 "fighter 2" |
| turns | 3 (`max_turns`, the horizon) |
| optimal value | -4.3835, -5.737, -6.5788 at horizon 2, 3, 4 (published) |
| tables | `data/classics/firefighting.dpomdp` |
| options | `words`: "fixed" (always the same sentence for an observation) or "paraphrased" (one of several) |

Observation, action: as in dectiger-v0. Each agent observes whether it saw flames at its house. Actions: house 1,
house 2, house 3; a text without one counts as "house 1".

Reward (one float for the team): minus the sum of the fire levels (0 to 2) of all houses after the turn. The score is
the return so far.

| at a house | its fire |
|---|---|
| two fighters | is put out |
| one fighter | falls by a level, for sure where no neighbour burns, else with 0.6 |
| none, it burns | rises by a level with 0.8 where a neighbour burns, else with 0.4 |
| none, it does not burn | begins with 0.8 where a neighbour burns |

Flames are seen with 0.2, 0.5 or 0.8, by the level. All levels are equally likely at first.

Source: Oliehoek, Spaan, Vlassis, "Optimal and approximate Q-value functions for decentralized POMDPs", JAIR 32,
2008, which prints -4.3825 for horizon 2; its tables, rounded as they were published, give -4.3835. An optimal team
plays as `script:optimal` for horizons 2 to 4.

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
    """Two fire fighters and three houses; the module is the manual."""

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
