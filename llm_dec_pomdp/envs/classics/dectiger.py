"""dectiger-v0: Two doors, behind one a treasure and behind the other a tiger; two explorers listen and open.

| fact | value |
|---|---|
| agents | agent_0 "explorer 1", agent_1 "explorer 2" |
| turns | 3; `max_turns` sets the horizon |
| optimal value | -4, 5.1908, 4.8028 at horizon 2, 3, 4 (published) |
| tables | `data/classics/dectiger.dpomdp` |
| options | `words`: "fixed" (one sentence for each observation) or "paraphrased" (one of several sentences) |

Observation. At the first turn both agents observe the problem, the possible actions and the number of turns left. Later
each agent observes the side of a growl and the number of turns left. It observes neither the action nor the observation
of its teammate.

Action. The action is the last action name in the text: listen, open left or open right. Names are matched as whole
words in any case, with spaces, hyphens or underscores between them. A text without an action name counts as "listen"
and costs 1.

Reward. Both agents receive the same reward. The score is the return so far:

| joint action | reward |
|---|---|
| both listen | -2 |
| both open the door of the treasure | 20 |
| both open the door of the tiger | -50 |
| they open different doors | -100 |
| one listens, the other opens the door of the treasure | 9 |
| one listens, the other opens the door of the tiger | -101 |

If both listen, the tiger stays, and each agent observes the correct side with probability 0.85. After any other joint
action the tiger is placed behind a random door, and the next observation carries no information.

Optimum. `script:optimal` is an optimal team for horizons 2 to 4.

Source: Nair, Tambe, Yokoo, Pynadath, Marsella, "Taming decentralized POMDPs", IJCAI 2003.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("dectiger-v0", max_turns=2)
    >>> env.facts.optimum
    -4.0
    >>> _ = env.reset(seed=0)
    >>> _, rewards, _, _, _ = env.step({"agent_0": "I open the door: open left", "agent_1": "open-right"})
    >>> rewards["agent_0"]
    -100.0
"""

from __future__ import annotations

from .base import Classic


class DecTiger(Classic):
    """Two doors, a treasure and a tiger; the module docstring describes the environment."""

    file = "dectiger"
    explanation = (
        "There are two doors. Behind one is a tiger, behind the other a treasure. You and a partner, whom you "
        "cannot hear, act at the same time. If both listen, each hears a growl from the tiger's side, and is "
        "wrong 15 times in 100. Opening the treasure together pays 20, the tiger together -50, different "
        "doors -100. If one opens while the other listens, the treasure pays 9 and the tiger -101. Listening "
        "together costs 2. Whenever a door was opened, tiger and treasure are placed anew."
    )
    harmless = "listen"
    phrases = {
        "growl-left": (
            "You hear a growl behind the left door.",
            "A low growl comes from the left.",
            "Something growls on the left-hand side.",
            "The left door shakes from a growl.",
        ),
        "growl-right": (
            "You hear a growl behind the right door.",
            "A low growl comes from the right.",
            "Something growls on the right-hand side.",
            "The right door shakes from a growl.",
        ),
    }
    published = {2: -4.0, 3: 5.1908, 4: 4.8028}
