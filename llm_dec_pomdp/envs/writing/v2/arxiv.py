"""arxiv-v2: Like arxiv-v1, with a reward that a language model judges.

| fact | value |
|---|---|
| agents | agent_0 "background", agent_1 "method" |
| turns | 1; `max_turns` for more, which pay as in `envs.turn_rewards`; `feedback`: `envs.writing.feedback` |
| data | `OpenMLRL/arXiv_abstract` (field `abstract_text`), train[:1000] / val[:1000] |
| offline | 72 abstracts written for this suite |
| judge | `judge=`, as in tldr-v2 |
| return | 0 to 3.0, reachable 2.98; embedded reference pairs earn at least 90 % on average |

Observation, action: as in arxiv-v0.

Reward: that of arxiv-v1, times plausibility, fluency and information as in tldr-v2, in nats per word:

| property | 0 at | 1 at |
|---|---|---|
| plausibility | -5.9 | -5.4 |
| fluency | 2.2 | 2.7 |
| fluency, both texts together | 2.4 | 2.9 |
| information | -0.2 | 0.3 |

Source: as in tldr-v2.

Version history: v2, the first that is judged.

Example:
    >>> import llm_dec_pomdp
    >>> llm_dec_pomdp.make("arxiv-v2", judge="builtin:tiny").role("agent_0")
    'background'
"""

from __future__ import annotations

from dataclasses import replace

from ..arxiv import ArXiv
from . import judged
from .base import JudgedWritingTask


class JudgedArXiv(JudgedWritingTask, ArXiv):
    """Expand an abstract into two paragraphs; the module is the manual."""

    declared = replace(ArXiv.declared, name="arxiv-v2")
    lowest = judged.ARXIV
