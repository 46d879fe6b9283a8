"""arxiv-v1: arxiv-v0 with a reward that cannot be had without writing about the abstract.

| fact | value |
|---|---|
| agents | agent_0 "background", agent_1 "method" |
| turns | 1 (`max_turns` for more; `feedback` says what is told in between, see `envs.writing.feedback`) |
| several turns pay | the score of the last one, or as `pays` says, see `envs.pays` |
| data | `OpenMLRL/arXiv_abstract` (field `abstract_text`), train[:1000] / val[:1000] |
| offline | 72 abstracts written for this suite |
| return | 0 to 3.0; every embedded reference pair earns at least 90 % |

Observation, action: as in arxiv-v0.

Reward: the levels and components of arxiv-v0, with signs neither counted as words nor as length, and connectives
counted as words and with diminishing returns per sentence; every component is then multiplied by the product of eight
properties in [0, 1] that natural texts have in full:

| property | what it stops |
|---|---|
| relevance | fluent text about something else: content words are shared with the abstract |
| variety | one sentence repeated: bigrams do not repeat |
| originality | copying: 5-grams of the abstract do not make up the text |
| independence | one text as a copy of the other |
| rewording | copying with changes: the abstract's words do not follow each other as they do there |
| context | words of the abstract put into a template or another text: their neighbours are as there, or go with them |
| agreement | phrases of the abstract drawn for each text: both texts take up the same of the abstract |
| grammar | random words: classes of words follow each other as they do in English |

Ramps and measures: `llm_dec_pomdp.envs.writing.quality`. Each is in the infos as `diagnostic/<name>`. Equations, and
what degenerate strategies earn: docs/degenerate_writing.md.
`length_ratio="paper"` as in arxiv-v0.

Source: "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652, for the levels; the properties
are this suite's own.

Version history: v1, the first hardened version. Its returns do not compare with those of v0. Before its release
rewording, context and agreement were added, grammar was made stricter, and context was given what a text that tells
anew has in place of two ramps of context and one of agreement; figures from before that do not compare.

Example:
    >>> import llm_dec_pomdp
    >>> llm_dec_pomdp.make("arxiv-v1").role("agent_0")
    'background'
"""

from __future__ import annotations

from .arxiv import ArXiv
from .base import HardenedWritingTask


class HardenedArXiv(HardenedWritingTask, ArXiv):
    """Expand an abstract into two paragraphs; the module is the manual."""

    metadata = {**ArXiv.metadata, "name": "arxiv-v1"}
