"""tldr-v2: Like tldr-v0, with a reward for texts from which an LLM judge learns about the post.

| fact | value |
|---|---|
| agents | agent_0 "summary", agent_1 "elaboration" |
| turns | 1; `max_turns` for more, with rewards as in `envs.turn_rewards`; `feedback`: `envs.writing.feedback` |
| data | `trl-lib/tldr` (field `prompt`), train[:1000] / test[:1000] |
| offline | 120 posts written for this suite |
| judge | `judge=`, a frozen language model: a name that `agents.io.models` takes, "base", or a `types.TextJudge` |
| return | 0 to 3.0, reachable 2.98; embedded reference pairs get at least 90 % on average |

Observation, action: as in tldr-v0.

Reward: every component of tldr-v0 is multiplied by two factors in [0, 1], which the judge measures:

| factor | measured in nats | 0 at | 1 at |
|---|---|---|---|
| informativeness | gain in log p of the post after both texts, per token of the post | 0.032 | 0.16 |
| fluency | log p(text) - log p(its words backwards) per word, lower of both texts | 2.0 | 2.5 |

The gain is the difference to the mean after four other posts in place of the two texts. These are the first posts of
the task set, which therefore needs at least five posts. Tokens of the post within a run of three words that also stands
in a text count 0. So copies, fixed texts and texts about another post have no gain. Subreddit and labels of a post are
left out.

The judge does not read texts that receive 0 from tldr-v0. The ramps were set with SmolLM2-135M-Instruct. Another judge
gives other numbers, so the result of a run names its judge with a hash of the weights. "base" is the model below the
adapters of a team (sharing=lora), which is already in memory.

Limits: a text that states the opposite of the post gets nearly the return of a reference, and so does a pair in which
the first text is the beginning of the second. Copied words in runs of one or two do not count as copies, and a search
by mutation found such a text that is fluent enough. Summaries of one sentence get little. Returns of degenerate texts:
docs/rewards.md.

Source: as in tldr-v0; the factors are this suite's own (pointwise mutual information as in arXiv:1510.03055).

Version history: v2, the first with a judge.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("tldr-v2", judge="builtin:tiny")  # a real one: the path of SmolLM2's GGUF file
    >>> env.role("agent_0")
    'summary'
"""

from __future__ import annotations

import re
from dataclasses import replace

from ....types import TaskItem
from ..tldr import TLDR
from . import judged
from .base import JudgedWritingTask

_LABELS = re.compile(r"^(SUBREDDIT:.*\s+|TITLE:\s*|POST:\s*)", re.MULTILINE)


class JudgedTLDR(JudgedWritingTask, TLDR):
    """Summarise a post in two lengths; the module is the manual."""

    declared = replace(TLDR.declared, name="tldr-v2", default_model="")
    full = judged.TLDR

    def judged_source(self, item: TaskItem) -> str:
        """Return title and post without their labels, which are the same in all posts."""
        return _LABELS.sub("", self.source_text(item))
