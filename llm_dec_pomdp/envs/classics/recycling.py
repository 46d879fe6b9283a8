"""recycling-v0: Two robots collect small cans individually and large cans together, and watch their batteries.

| fact | value |
|---|---|
| agents | agent_0 "robot 1", agent_1 "robot 2" |
| turns | 3; `max_turns` sets the horizon |
| optimal value | 7, 10.66, 13.38 at horizon 2, 3, 4 (published) |
| tables | `data/classics/recycling.dpomdp` |
| options | `words`: "fixed" (one sentence for each observation) or "paraphrased" (one of several sentences) |

Observation, action: as in dectiger-v0. Each agent observes the level of its battery. Actions: recharge, small, large. A
text without an action name counts as "recharge".

Reward. Both agents receive the same reward, the expected value for the state and the actions. The score is the return
so far:

| event | reward |
|---|---|
| a robot collects small cans | 2 |
| both collect large cans | 5 |
| a low battery runs down | -10 |

A full battery becomes low with probability 0.3 (small cans) or 0.5 (large cans). A low battery runs down with
probability 0.2 (small cans) or 0.3 (large cans). Then no robot collects a can, and the battery is full again.

Optimum. `script:optimal` is an optimal team for horizons 2 to 4.

Source: Amato, Bernstein, Zilberstein, "Optimizing memory-bounded controllers for decentralized POMDPs", UAI 2007.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("recycling-v0", max_turns=2)
    >>> env.facts.optimum
    7.0
    >>> _ = env.reset(seed=0)
    >>> _, rewards, _, _, _ = env.step({"agent_0": "large", "agent_1": "Let us take the large one."})
    >>> rewards["agent_0"]
    5.0
"""

from __future__ import annotations

from .base import Classic


class Recycling(Classic):
    """Two robots collect cans; the module docstring describes the environment."""

    file = "recycling"
    explanation = (
        "Two robots collect cans. Collecting small cans pays 2 for each robot that does it; collecting a "
        "large can pays 5 and needs both robots at once. Small cans leave a full battery low in 3 turns of "
        "10, large ones in 5 of 10. With a low battery, small cans run it down in 2 turns of 10 and large "
        "ones in 3 of 10, which costs 10. Recharging pays nothing and fills the battery. Both batteries are "
        "full at first."
    )
    harmless = "recharge"
    phrases = {
        "high": ("Your battery is full.", "The battery light is green.", "There is plenty of charge left."),
        "low": ("Your battery is low.", "The battery light is red.", "There is little charge left."),
    }
    published = {2: 7.0, 3: 10.66, 4: 13.38}
