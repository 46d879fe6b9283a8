"""tldr-v1: Like tldr-v0, with a reward for texts on words of the post that are no copies.

| fact | value |
|---|---|
| agents | agent_0 "summary", agent_1 "elaboration" |
| turns | 1; `max_turns` for more, with rewards as in `envs.turn_rewards`; `feedback`: `envs.writing.feedback` |
| data | `trl-lib/tldr` (field `prompt`), train[:1000] / test[:1000] |
| offline | 120 posts written for this suite |
| return | 0 to 3.0, reachable 2.98; every embedded reference pair earns at least 90 % |

Observation, action: as in tldr-v0.

Reward: the levels and components of tldr-v0 on words: signs count neither as words nor as length, and connectives are
whole words. Every component is then multiplied by four properties in [0, 1], all of which references have in full:

| property | what it stops |
|---|---|
| relevance | fluent text about something else: content words are shared with the post |
| variety | one sentence repeated: bigrams do not repeat |
| originality | copying: trigrams of the post do not make up the text |
| independence | one text as a copy of the other |

Ramps: `envs.writing.v1.quality`. Each is in the infos as `diagnostic/<name>`.

Limits: v1 compares words and never reads a text as a whole. On the test posts these get, in % of the maximum:

| texts | return |
|---|---|
| one fixed text for all posts, then 50 words copied from the post | 97 |
| one fixed text for all posts, then 50 content words of the post in random order | 100 |
| the words of the post or of a reference in random order | 92-99 |
| the post without every fourth word | 85 |

docs/rewards.md has more of them. tldr-v2 has a judge.

Source: "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652, for the levels; the properties
are this suite's own.

Version history: v1, the first hardened version. Figures from before its release, when it had eight properties, do not
compare.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("tldr-v1", split="test")
    >>> _ = env.reset(options={"index": 0})
    >>> _, rewards, _, _, _ = env.step(dict.fromkeys(env.agents, "so but if as also " * 30))
    >>> rewards["agent_0"]
    0.0
"""

from __future__ import annotations

from dataclasses import replace

from ..tldr import TLDR
from .base import HardenedWritingTask


class HardenedTLDR(HardenedWritingTask, TLDR):
    """Summarise a post in two lengths; the module is the manual."""

    declared = replace(TLDR.declared, name="tldr-v1", default_model="")
