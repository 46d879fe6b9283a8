"""A learner of one's own, in one file and from outside the package: imitate the best episode of every group.

    llm-dec-pomdp bench quick --algorithm examples.best_of_group:BestOfGroup

An installed package announces its learner instead, with the entry point
`[project.entry-points."llm_dec_pomdp.algorithms"]  best-of-group = "my_package:BestOfGroup"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from llm_dec_pomdp.agents import Sampling, Team
from llm_dec_pomdp.algorithms.base import Metrics, Prompting
from llm_dec_pomdp.config import Config
from llm_dec_pomdp.types import Group


class Options(Config):
    """Options of BestOfGroup."""

    learning_rate: float = 3e-4


class BestOfGroup(Prompting):
    """Raises the likelihood of each group's best texts (rejection sampling fine-tuning, one step per update)."""

    protocol = "parallel"
    Config = Options

    def __init__(self, team: Team, sampling: Sampling, config: Options) -> None:
        super().__init__(team, sampling)
        self.optimizers = [torch.optim.AdamW(list(p.parameters()), lr=config.learning_rate) for p in team.trainable]

    def update(self, groups: Sequence[Group]) -> Metrics:
        """One step of maximum likelihood on the best episodes."""
        best = [max(group.episodes, key=lambda e: e.total) for group in groups]
        texts = [pair for episode in best for turn in episode.turns for pair in turn.actions.items()]
        total = 0.0
        for policy, optimizer in zip(self.team.trainable, self.optimizers, strict=True):
            mine = [(agent, c) for agent, c in texts if self.team.members[agent] is policy and c.token_ids]
            logprobs, mask = policy.token_logprobs(mine, self.sampling.temperature)
            loss = -(logprobs * mask).sum() / mask.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        return {"loss": total / len(self.optimizers)}

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs."""
        return {"optimizers": [optimizer.state_dict() for optimizer in self.optimizers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it."""
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
