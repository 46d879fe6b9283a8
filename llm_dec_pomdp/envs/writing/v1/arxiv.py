"""arxiv-v1: Like arxiv-v0, with a reward that counts words and does not reward copies and lists.

| fact | value |
|---|---|
| agents | agent_0 "background", agent_1 "method" |
| turns | 1; `max_turns` for more, with rewards as in `envs.turn_rewards`; `feedback`: `envs.writing.feedback` |
| data | `OpenMLRL/arXiv_abstract` (field `abstract_text`), train[:1000] / val[:1000] |
| offline | 72 abstracts written for this suite |
| return | 0 to 3.0, reachable 2.98; every embedded reference pair receives at least 90 % |

Observation, action: as in arxiv-v0.

Reward: the levels and components of arxiv-v0, measured and multiplied as in tldr-v1, with the abstract in place of the
post. `length_ratio="paper"` as in arxiv-v0.

Limits: as in tldr-v1. On the test abstracts the words of an abstract or of a reference in random order get 94 to 99 %
of the maximum. One fixed text for all abstracts gets 10 % with 50 copied words (the best of 48 texts: 22 %), and 39 %
with 50 content words in random order.

Source: as in tldr-v1.

Version history: v1, as in tldr-v1.

Example:
    >>> import llm_dec_pomdp
    >>> llm_dec_pomdp.make("arxiv-v1").role("agent_0")
    'background'
"""

from __future__ import annotations

from dataclasses import replace

from ..arxiv import ArXiv
from .base import HardenedWritingTask


class HardenedArXiv(HardenedWritingTask, ArXiv):
    """Expand an abstract into two paragraphs; the module is the manual."""

    declared = replace(ArXiv.declared, name="arxiv-v1")
