"""broadcast-v0: Two stations share a channel that carries one message at a time.

| fact | value |
|---|---|
| agents | agent_0 "station 1", agent_1 "station 2" |
| turns | 3; `max_turns` sets the horizon |
| optimal value | 2, 2.99, 3.89 at horizon 2, 3, 4 (published) |
| tables | `data/classics/broadcast.dpomdp` |
| options | `words`: "fixed" (one sentence for each observation) or "paraphrased" (one of several sentences) |

Observation, action: as in dectiger-v0. Each agent observes whether it noticed a collision. Actions: send, wait. A text
without an action name counts as "wait".

Reward. Both agents receive the same reward. The score is the return so far:

| event | reward |
|---|---|
| one station sends a message and the other waits | 1 |
| any other event | 0 |

An empty buffer is filled with probability 0.9 per turn at station 1 and 0.1 at station 2. Both stations begin with a
message.

Optimum. `script:optimal` is an optimal team for horizons 2 to 4.

Source: Hansen, Bernstein, Zilberstein, "Dynamic programming for partially observable stochastic games", AAAI 2004.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("broadcast-v0", max_turns=2)
    >>> env.facts.optimum
    2.0
    >>> _ = env.reset(seed=0)
    >>> _, rewards, _, _, _ = env.step({"agent_0": "send", "agent_1": "I will wait."})
    >>> rewards["agent_0"]
    1.0
"""

from __future__ import annotations

from .base import Classic


class Broadcast(Classic):
    """Two stations share a channel; the module docstring describes the environment."""

    file = "broadcast"
    explanation = (
        "Two stations share a channel. A message that one station sends while the other waits gets through "
        "and pays 1; when both send, nothing gets through. A station that sends without having a message pays "
        "nothing. Both have a message at first; later the empty buffer of station 1 fills in 9 turns of 10, "
        "that of station 2 in 1 of 10. Whether there was a collision is reported wrongly in 1 turn of 10."
    )
    harmless = "wait"
    phrases = {
        "collision": (
            "You notice a collision on the channel.",
            "Two messages seem to have met.",
            "The channel reports a collision.",
        ),
        "no-collision": (
            "You notice no collision on the channel.",
            "The channel seems clear.",
            "No two messages seem to have met.",
        ),
    }
    published = {2: 2.0, 3: 2.99, 4: 3.89}
