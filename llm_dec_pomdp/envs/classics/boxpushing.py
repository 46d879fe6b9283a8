"""boxpushing-v0: Two agents push small boxes individually or a large box together.

| fact | value |
|---|---|
| agents | agent_0 "agent 1", agent_1 "agent 2" |
| turns | 3; `max_turns` sets the horizon |
| optimal value | 17.6, 66.08, 98.59 at horizon 2, 3, 4 (published) |
| tables | `data/classics/boxpushing.dpomdp` |
| options | `words`: "fixed" (one sentence for each observation) or "paraphrased" (one of several sentences) |

Observation, action: as in dectiger-v0. Each agent observes what is in front of it. Actions: turn left, turn right,
forward, stay. A text without an action name counts as "stay".

Reward. Both agents receive the same reward. The score is the return so far:

| event | reward |
|---|---|
| a small box is pushed | 10 |
| both push the large box in the same turn | 100 |
| an agent bumps into something | -5 |
| every turn, for each agent | -0.1 |

An action succeeds with probability 0.9. After a push of a box the problem returns to its initial state, in a turn with
reward 0.

Optimum. `script:optimal` is an optimal team for horizons 2 to 4.

Source: Seuken, Zilberstein, "Improved memory-bounded dynamic programming for decentralized POMDPs", UAI 2007.

Version history: v0, the first.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("boxpushing-v0", max_turns=2)
    >>> env.facts.optimum
    17.6
    >>> _ = env.reset(seed=0)
    >>> _, rewards, _, _, _ = env.step({"agent_0": "turn left", "agent_1": "turn right"})
    >>> rewards["agent_0"]
    -0.2
"""

from __future__ import annotations

from .base import Classic


class BoxPushing(Classic):
    """Two agents push boxes; the module docstring describes the environment."""

    file = "boxpushing"
    explanation = (
        "The lower row of a field has four columns. North of columns 1 and 4 stands a small box, north of "
        "columns 2 and 3 one large box. Agent 1 begins in column 1 and faces east, agent 2 in column 4 and "
        "faces west. Going forward against a small box pushes it, for 10; the large box pays 100 when both "
        "push it at the same time from columns 2 and 3. Bumping into anything costs 5, and every turn 0.1 for "
        "each agent. Actions fail once in 10 times. After a box was pushed everything begins anew."
    )
    harmless = "stay"
    phrases = {
        "empty-field": ("In front of you is an empty field.", "The way ahead is free.", "You look at bare ground."),
        "wall": ("In front of you is a wall.", "A wall blocks the way ahead.", "You look at bricks."),
        "other-agent": (
            "In front of you is the other agent.",
            "Your partner stands in your way.",
            "You look at your partner.",
        ),
        "small-box": (
            "In front of you is a small box.",
            "A small box is right ahead.",
            "You look at a box that one can push.",
        ),
        "large-box": (
            "In front of you is a large box.",
            "A large box is right ahead.",
            "You look at a box that takes two.",
        ),
    }
    published = {2: 17.6, 3: 66.08, 4: 98.59}
