"""tldr-v2: Like tldr-v1, with a reward that a language model judges.

| fact | value |
|---|---|
| agents | agent_0 "summary", agent_1 "elaboration" |
| turns | 1; `max_turns` for more, which pay as in `envs.turn_rewards`; `feedback`: `envs.writing.feedback` |
| data | `trl-lib/tldr` (field `prompt`), train[:1000] / test[:1000] |
| offline | 120 posts written for this suite |
| judge | `judge=`, a frozen language model: a name that `agents.loading` takes, "base", or a `types.TextJudge` |
| return | 0 to 3.0, reachable 2.98; embedded reference pairs earn at least 90 % on average |

Observation, action: as in tldr-v0.

Reward: that of tldr-v1, every component times three numbers in [0, 1] that the judge gives. The lower of the two texts
counts. In nats per word:

| property | measured | 0 at | 1 at |
|---|---|---|---|
| plausibility | log p(text after the post) | -6.1 | -5.6 |
| fluency | log p(text) - log p(its words backwards) | 2.0 | 2.5 |
| | the same, of both texts together | 2.3 | 2.8 |
| information | log p(text after the post) - log p(text) | 0.2 | 0.7 |

Ramps are 1 from values on that nearly all references reach, so nothing is won by pleasing the judge further. Texts that
earn nothing in tldr-v1 are not judged. The ramps are those of SmolLM2-135M-Instruct; the result of a run names its
judge with a hash of its weights, since another judge pays differently. "base" is the model below the adapters of a team
(sharing=lora), which is in memory anyway.

What degenerate texts earn, and what remains: docs/rewards.md.

Source: as in tldr-v1; the judged part is this suite's own (pointwise mutual information as in arXiv:1510.03055).

Version history: v2, the first that is judged.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("tldr-v2", judge="builtin:tiny")  # a real one: the path of SmolLM2's GGUF file
    >>> env.role("agent_0")
    'summary'
"""

from __future__ import annotations

from dataclasses import replace

from ..tldr import TLDR
from . import judged
from .base import JudgedWritingTask


class JudgedTLDR(JudgedWritingTask, TLDR):
    """Summarise a post in two lengths; the module is the manual."""

    declared = replace(TLDR.declared, name="tldr-v2", default_model="")
    lowest = judged.TLDR
