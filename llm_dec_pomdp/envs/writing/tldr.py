"""tldr-v0: A short and a long summary of a forum post.

| fact | value |
|---|---|
| agents | agent_0 "summary", agent_1 "elaboration" |
| turns | 1; `max_turns` for more, with rewards as in `envs.turn_rewards`; `feedback`: `envs.writing.feedback` |
| data | `trl-lib/tldr` (field `prompt`), train[:1000] / test[:1000] |
| offline | 120 posts written for this suite |
| return | 0 to 3.0, reachable 2.98 |

Observation. Both agents see the post (`SUBREDDIT / TITLE / POST`). agent_0 is asked for a concise, factual summary,
agent_1 for a detailed one with more unique words and some transition words. Neither is told about the other.

Action. Any text.

Reward (one float for the team; c1, c2 are the texts; levels are checked in order, the first that fails ends the sum):

| component | range | rule |
|---|---|---|
| structure | 0.5 | 8 to 256 words in both, else 0 in total |
| coordination | 0..1 | r = chars(c2)/chars(c1): 1 in [1.6, 3.2], linear to 0 at 1.1 and at 5.0, beyond: stop |
| vocabulary | 0..0.5 | u = unique(c2)/unique(c1): 0.5 from 2.0 on, linear to 0 at 1.3, below: stop |
| coherence | 0..0.38 | 0.4 T, T from the number of connective categories in c2 |
| consistency | 0..0.6 | 0.6 min(J, 0.03)/0.03, J = Jaccard similarity without stop words |

Default model. `builtin:extractive` copies sentences of the post, which this reward allows. After 80 updates it reaches
90 % of the maximum on the test posts (three seeds, 89 to 91). Untrained it reaches 20 %, with shuffled rewards 14 %.
tldr-v1 and tldr-v2 do not reward copies. On tldr-v1 this policy gets 0 %; both keep `builtin:tiny` as the default.

Source: "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652, and its released experiments.

Version history: v0, the task as published. It can be gamed (connectives are counted as substrings, nothing checks that
the texts are about the post), which is the point of keeping it: numbers compare.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("tldr-v0", split="test")
    >>> observations, infos = env.reset(seed=0)
    >>> _, rewards, _, _, _ = env.step({agent: "Too short." for agent in env.agents})
    >>> rewards
    {'agent_0': 0.0, 'agent_1': 0.0}
"""

from __future__ import annotations

from dataclasses import replace

from ...types import Excerpt, TaskItem
from ..tasks import TaskSource
from . import reward
from .base import WritingTask

_ROLES = ("summary", "elaboration")


class TLDR(WritingTask):
    """Summarise a post in two lengths; the module is the manual."""

    source = TaskSource("tldr", "trl-lib/tldr", {"train": "train[:1000]", "test": "test[:1000]"})
    formula = reward.TLDR
    requests = (
        "Write a concise, factual summary of this post in one or a few sentences.",
        "Write a detailed summary of this post. Use more unique words and some transition words.",
    )
    declared = replace(
        WritingTask.declared,
        name="tldr-v0",
        roles=_ROLES,
        excerpt=Excerpt("\nPOST:", tuple(zip(_ROLES, requests, strict=True))),
        default_model="builtin:extractive",
    )

    def source_text(self, item: TaskItem) -> str:
        """The post without the cue at its end that the published rows carry."""
        return item.prompt.strip().removesuffix("TL;DR:").strip()
