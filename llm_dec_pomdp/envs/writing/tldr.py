"""tldr-v0: A short and a long summary of a forum post.

| fact | value |
|---|---|
| agents | agent_0 "summary", agent_1 "elaboration" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: `envs.writing.feedback`) |
| data | `trl-lib/tldr` (field `prompt`), train[:1000] / test[:1000], with `tasks="hub"` |
| offline | 120 posts written for this suite (the default) |
| return | 0 to 3.0, reachable 2.98 |

Observation. Both agents observe the post (`SUBREDDIT / TITLE / POST`) and a request. The request asks agent_0 for a
concise, factual summary. It asks agent_1 for a detailed summary with more unique words and some transition words. The
observations do not mention the teammate.

Action. Any text.

Reward. Both agents receive the same reward, the sum of five components. c1 and c2 are the texts of agent_0 and agent_1.
The components are checked from top to bottom. If one fails, all components below it are 0:

| component | range | rule |
|---|---|---|
| structure | 0.5 | both texts have 8 to 256 words; otherwise the reward is 0 |
| coordination | 0..1 | r = chars(c2)/chars(c1): 1 in [1.6, 3.2], linear to 0 at 1.1 and at 5.0; fails outside |
| vocabulary | 0..0.5 | u = unique(c2)/unique(c1): 0.5 from 2.0 on, linear to 0 at 1.3; fails below |
| coherence | 0..0.38 | 0.4 T; T grows with the number of connective categories in c2, up to 0.95 |
| consistency | 0..0.6 | 0.6 min(J, 0.03)/0.03, J = Jaccard similarity of the words without stop words |

Default model. `builtin:extractive` copies sentences of the post, and this reward allows copies. After 80 updates it
reaches 90 % of the maximum on the test posts (three seeds, 89 to 91). The untrained model reaches 20 %, and the
shuffled-reward control 14 %. tldr-v1 and tldr-v2 do not reward copies: on tldr-v1 this policy receives 0 %. Their
default model is `builtin:tiny`.

Source: "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652, and its released experiments.

Version history: v0, the task as published. Its reward can be exploited: connectives are counted as substrings, and no
component checks that the texts are about the post. The version is kept so that returns compare with published ones.

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
    """Summarise a post in two lengths; the module docstring describes the environment."""

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
        """Return the post without the cue "TL;DR:" at its end, which published rows have."""
        return item.prompt.strip().removesuffix("TL;DR:").strip()
