"""arxiv-v1: Like arxiv-v0, with a reward that counts whole words and does not reward copies and lists.

| fact | value |
|---|---|
| agents | agent_0 "background", agent_1 "method" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: `envs.writing.feedback`) |
| data | `OpenMLRL/arXiv_abstract` (field `abstract_text`), train[:1000] / val[:1000], with `tasks="hub"` |
| offline | 72 abstracts written for this suite (the default) |
| options | `length_ratio`: "released" (default), or "paper" for the length ratio of the first release |
| return | 0 to 3.0, reachable 2.98; every embedded reference pair receives at least 90 % |

Observation, action: as in arxiv-v0.

Reward. The levels and components are those of arxiv-v0. They are measured on words and multiplied by four properties as
in tldr-v1, with the abstract in place of the post.

Limits. As in tldr-v1, degenerate strategies still receive a high return on the test abstracts:

| texts | % of the maximum |
|---|---|
| the words of an abstract or of a reference in random order | 94 to 99 |
| one fixed text for all abstracts, then 50 words copied from the abstract | 10 (22 for the best of 48 texts) |
| one fixed text for all abstracts, then 50 content words of the abstract in random order | 39 |

Source: as in tldr-v1.

Version history: v1, with the same changes as tldr-v1.

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
    """Expand an abstract into two paragraphs; the module docstring describes the environment."""

    declared = replace(ArXiv.declared, name="arxiv-v1")
