"""tldr-v2: Like tldr-v0, with a reward for texts from which an LLM judge can predict the post.

| fact | value |
|---|---|
| agents | agent_0 "summary", agent_1 "elaboration" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: `envs.writing.feedback`) |
| data | `trl-lib/tldr` (field `prompt`), train[:1000] / test[:1000], with `tasks="hub"` |
| offline | 120 posts written for this suite (the default) |
| judge | `judge=`, a frozen language model: a model name or path as for `--model`, "base", or a `types.TextJudge` |
| return | 0 to 3.0, reachable 2.98; embedded reference pairs receive at least 90 % on average |

Observation, action: as in tldr-v0.

Reward. Every component of tldr-v0 is multiplied by two factors in [0, 1]. An LLM judge measures both in nats:

| factor | measured quantity | 0 at | 1 at |
|---|---|---|---|
| informativeness | gain in log p of the post after both texts, per token of the post | 0.032 | 0.16 |
| fluency | log p(text) - log p(its words backwards) per word, lower of both texts | 2.0 | 2.5 |

For each token of the post:

`gain = log p(token | both texts) - mean of log p(token | other post) over four other posts`

The other posts are the first posts of the task set, so a task set needs at least five posts. Tokens of the post inside
a trigram that a text copied have a gain of 0. So copies, fixed texts and a pair of texts about another post have no
gain. The judge does not read the subreddit and the labels of a post, nor texts that receive 0 from tldr-v0.

Judge. The two ranges were set with SmolLM2-135M-Instruct. Another judge gives other returns, so the result of a run
names the judge with a hash of its weights. `judge="base"` is the base model of a team with adapters (sharing=lora),
which is already in memory.

Limits. These texts receive more than they should:

* A text that states the opposite of the post receives nearly the return of a reference.
* So does a pair in which the first text is the beginning of the second.
* A pair with one text about another post receives about 60 % of the maximum.
* Copied runs of one or two words do not count as copies. A search by mutation found such a text that is fluent enough.

Correct summaries of one sentence receive little. docs/rewards.md lists the returns of degenerate strategies.

Source: as in tldr-v0. The factors were designed for this suite, after the pointwise mutual information of
arXiv:1510.03055.

Version history: v2, the first version with an LLM judge.

Example:
    >>> import llm_dec_pomdp
    >>> # builtin:tiny is a placeholder; in a real run give the path of a GGUF file
    >>> env = llm_dec_pomdp.make("tldr-v2", judge="builtin:tiny")
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
    """Summarise a post in two lengths; the module docstring describes the environment."""

    declared = replace(TLDR.declared, name="tldr-v2", default_model="")
    full = judged.TLDR

    def judged_source(self, item: TaskItem) -> str:
        """Return title and post without their labels, which are the same in all posts."""
        return _LABELS.sub("", self.source_text(item))
