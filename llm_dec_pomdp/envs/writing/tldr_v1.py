"""tldr-v1: tldr-v0 with a reward that only texts about the post can earn.

| fact | value |
|---|---|
| agents | agent_0 "summary", agent_1 "elaboration" |
| turns | 1 (`max_turns` for more; `feedback` says what agents are told in between, see `envs.writing.feedback`) |
| several turns pay | the score of the last one; for other rules set `pays`, see `envs.pays` |
| data | `trl-lib/tldr` (field `prompt`), train[:1000] / test[:1000] |
| offline | 120 posts written for this suite |
| return | 0 to 3.0; every embedded reference pair earns at least 90 % |

Observation, action: as in tldr-v0.

Reward: the levels and components of tldr-v0. Signs count neither as words nor as length, and connectives are counted as
words, with diminishing returns per sentence. Every component is then multiplied by the product of eight properties in
[0, 1], all of which natural texts have in full:

| property | what it stops |
|---|---|
| relevance | fluent text about something else: content words are shared with the post |
| variety | one sentence repeated: bigrams do not repeat |
| originality | copying: 5-grams of the post do not make up the text |
| independence | one text as a copy of the other |
| rewording | copying with changes: the post's words do not follow each other as they do there |
| context | words of the post put into a template or another text: their neighbours are as in the post, or fit them |
| agreement | phrases of the post drawn for each text: both texts use the same parts of the post |
| grammar | random words: classes of words follow each other as they do in English |

Ramps and measures: `llm_dec_pomdp.envs.writing.quality`. Each is in the infos as `diagnostic/<name>`. Equations, and
what degenerate strategies earn: docs/degenerate_writing.md.

Source: "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652, for the levels; the properties
are this suite's own.

Version history: v1, the first hardened version. Its returns do not compare with those of v0, nor with figures from
before its release, when rewording, context and agreement were added and grammar was made stricter.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("tldr-v1", split="test")
    >>> _ = env.reset(options={"index": 0})
    >>> _, rewards, _, _, _ = env.step(dict.fromkeys(env.agents, "so but if as also " * 30))
    >>> rewards["agent_0"]
    0.0
"""

from __future__ import annotations

from .base import HardenedWritingTask
from .tldr import TLDR


class HardenedTLDR(HardenedWritingTask, TLDR):
    """Summarise a post in two lengths; the module is the manual."""

    metadata = {**TLDR.metadata, "name": "tldr-v1"}
