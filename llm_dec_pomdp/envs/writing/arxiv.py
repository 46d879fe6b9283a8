"""arxiv-v0: Expand an abstract into two paragraphs of an introduction.

| fact | value |
|---|---|
| agents | agent_0 "background", agent_1 "method" |
| turns | 1; `max_turns` sets more (rewards: `envs.turn_rewards`, messages: `envs.writing.feedback`) |
| data | `OpenMLRL/arXiv_abstract` (field `abstract_text`), train[:1000] / val[:1000], with `tasks="hub"` |
| offline | 72 abstracts written for this suite (the default) |
| options | `length_ratio`: "released" (default), or "paper" for the length ratio of the first release |
| return | 0 to 3.0, reachable 2.98 |

Observation. Both agents observe the abstract and a request for one part of an introduction: agent_0 for background and
motivation, agent_1 for methodology and implications. The request states that another writer covers the rest.

Action. Any text.

Reward. Both agents receive the same reward, the sum of five components. c1 and c2 are the texts of agent_0 and agent_1.
The components are checked from top to bottom. If one fails, all components below it are 0:

| component | range | rule |
|---|---|---|
| structure | 0.5 | both texts have 128 to 256 words; otherwise the reward is 0 |
| coordination | 0..1 | r = chars(c2)/chars(c1): 1 in [1.3, 1.6], linear to 0 at 0.8 and at 2.0; fails outside |
| vocabulary | 0..0.5 | u = unique(c2)/unique(c1): 0.5 in [0.7, 1.3], linear to 0 at 0.5 and 1.7; fails outside |
| coherence | 0..0.38 | 0.4 T; T grows with the number of connective categories in c1 and c2, up to 0.95 |
| consistency | 0..0.6 | 0.6 min(J, 0.23)/0.23, J = Jaccard similarity of the words without stop words |

With `length_ratio="paper"`, coordination is 1 in [1.0, 1.3] and linear to 0 at 0.8 and at 1.5.

Source: "LLM Collaboration With Multi-Agent Reinforcement Learning", arXiv:2508.04652, and its released experiments.

Version history: v0, the task as published.

Example:
    >>> import llm_dec_pomdp
    >>> env = llm_dec_pomdp.make("arxiv-v0", split="test", length_ratio="paper")
    >>> env.role("agent_1")
    'method'
"""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from ...registries import nearest
from ..tasks import Tasks, TaskSource
from . import reward
from .base import WritingOptions, WritingTask

_FORMULAS = {
    "released": reward.ARXIV,
    "paper": replace(reward.ARXIV, length_ratio=reward.ARXIV_PAPER_LENGTH_RATIO),
}
_COMMON = "Write one paragraph of 128 to 256 words. Another writer covers the rest, so do not repeat it."


class ArXiv(WritingTask):
    """Expand an abstract into two paragraphs; the module docstring describes the environment.

    Args:
        length_ratio: "released" (default), or "paper" for the length ratio of the first release.
        tasks, common: See `WritingTask`.
    """

    declared = replace(WritingTask.declared, name="arxiv-v0", roles=("background", "method"))
    source = TaskSource(
        "arxiv",
        "OpenMLRL/arXiv_abstract",
        {"train": "train[:1000]", "test": "val[:1000]"},
        fields={"prompt": "abstract_text"},
    )
    requests = (
        f"Expand this abstract into the background and motivation part of an introduction. {_COMMON}",
        f"Expand this abstract into the methodology and implications part of an introduction. {_COMMON}",
    )

    def __init__(
        self, tasks: Tasks = "sample", *, length_ratio: str = "released", **common: Unpack[WritingOptions]
    ) -> None:
        if length_ratio not in _FORMULAS:
            raise ValueError(f"length_ratio {length_ratio!r} does not exist; {nearest(length_ratio, _FORMULAS)}")
        self.formula = _FORMULAS[length_ratio]
        super().__init__(tasks, **common)
