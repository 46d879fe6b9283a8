"""tldr-v1: Like tldr-v0, with a reward that counts whole words and does not reward copies and lists.

| fact | value |
|---|---|
| agents | agent_0 "summary", agent_1 "elaboration" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: `envs.writing.feedback`) |
| data | `trl-lib/tldr` (field `prompt`), train[:1000] / test[:1000], with `tasks="hub"` |
| offline | 120 posts written for this suite (the default) |
| return | 0 to 3.0, reachable 2.98; every embedded reference pair receives at least 90 % |

Observation, action: as in tldr-v0.

Reward. The levels and components are those of tldr-v0, measured on words. Punctuation counts neither as a word nor as
length, and a connective must be a whole word. Every component is then multiplied by four properties in [0, 1]. All four
are 1 for the reference texts:

| property | measures | prevents |
|---|---|---|
| relevance | content words shared with the post | fluent text about something else |
| variety | bigrams that do not repeat | one sentence repeated |
| originality | trigrams that are not in the post | copies of the post |
| independence | trigrams of the first text that are not in the second | one text as a copy of the other |

`envs.writing.v1.quality` defines the properties. Each is in the infos as `diagnostic/<name>`.

Limits. The reward compares words and does not measure whether a text makes sense. Degenerate strategies therefore still
receive a high return on the test posts:

| texts | % of the maximum |
|---|---|
| one fixed text for all posts, then 50 words copied from the post | 97 |
| one fixed text for all posts, then 50 content words of the post in random order | 100 |
| the words of the post or of a reference in random order | 92-99 |
| the post without every fourth word | 85 |

docs/rewards.md lists more strategies. tldr-v2 scores texts with an LLM judge.

Source: "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652, for the levels. The properties
were designed for this suite.

Version history: v1, the first hardened version.

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
    """Summarise a post in two lengths; the module docstring describes the environment."""

    declared = replace(TLDR.declared, name="tldr-v1", default_model="")
