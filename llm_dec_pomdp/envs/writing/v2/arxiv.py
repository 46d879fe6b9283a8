"""arxiv-v2: Like arxiv-v0, with a reward for texts from which an LLM judge can predict the abstract.

| fact | value |
|---|---|
| agents | agent_0 "background", agent_1 "method" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: `envs.writing.feedback`) |
| data | `OpenMLRL/arXiv_abstract` (field `abstract_text`), train[:1000] / val[:1000], with `tasks="hub"` |
| offline | 72 abstracts written for this suite (the default) |
| options | `length_ratio`: "released" (default), or "paper" for the length ratio of the first release |
| judge | `judge=`, as in tldr-v2 |
| return | 0 to 3.0, reachable 2.98; embedded reference pairs receive at least 90 % on average |

Observation, action: as in arxiv-v0.

Reward. Every component of arxiv-v0 is multiplied by informativeness and fluency. Both are measured as in tldr-v2, with
the abstract in place of the post, in nats:

| factor | 0 at | 1 at |
|---|---|---|
| informativeness | 0.058 | 0.29 |
| fluency | 2.2 | 2.7 |

Source: as in tldr-v2.

Version history: v2, the first version with an LLM judge.

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
    """Expand an abstract into two paragraphs; the module docstring describes the environment."""

    declared = replace(ArXiv.declared, name="arxiv-v2")
    full = judged.ARXIV
