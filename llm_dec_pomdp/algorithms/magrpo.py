# pyright: basic
"""MAGRPO: Multi-Agent Group Relative Policy Optimization (arXiv:2508.04652), and GRPO as its one-agent case.

For a task, G joint trajectories are rolled out with the current policies. With R_t^(g) the return of trajectory g from
turn t on, all agents of that trajectory share the group-relative advantage

    A_t^(g) = (R_t^(g) - mean_g R_t) / std_g R_t                                                            (advantage)

and agent i ascends, over its own samples a_{i,t}^(g) given its own history h_{i,t}^(g),

    J_i = mean over g, t of min(rho A, clip(rho, 1 - eps, 1 + eps) A),  rho = pi_i(a | h) / pi_i,old(a | h)  (objective)

Departures from the paper, each an option:
* rho per token and a mean over all tokens of an agent (`ratio="token"`, common practice); "sequence" is as printed.
* no KL term (the paper's beta is 0).
* the mean runs over all trajectories of all groups of an update; samples whose advantage is 0 take part in it but not
  in the forward pass, since their gradient is 0.
What is exact: the first pass has rho = 1, because it is its own reference; log-probabilities are those at the sampling
temperature; every sampled token counts, the last one and the end-of-turn token included, padding never does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from ..agents.base import Sampling, Team, TrainablePolicy
from ..config import Config
from ..types import Completion, Group
from .advantages import Kind, group_advantages, returns
from .base import Metrics, Prompting
from .losses import RatioLevel, clipped_objective


class MAGRPOConfig(Config):
    """Options of MAGRPO and GRPO."""

    learning_rate: float = 5e-4
    """AdamW; fits LoRA adapters and builtin:tiny. The paper trains all weights of 1.7B-3B models with 5e-6 to 2e-5."""
    gamma: float = 1.0
    """Discount between turns."""
    advantage: Kind = "std"
    """Baseline and scale of the advantage: std, mean, leave_one_out, max or raw."""
    ratio: RatioLevel = "token"
    """Level of the likelihood ratio: token or sequence."""
    average: Literal["tokens", "sequences"] = "tokens"
    """With ratio="token": mean over all tokens of an agent, or mean over sequences of the mean over their tokens."""
    clip_low: float = 0.2
    """The ratio is clipped below 1 - clip_low ..."""
    clip_high: float = 0.2
    """... and above 1 + clip_high."""
    epochs: int = 1
    """Optimizer steps per update, all on the same samples."""
    micro_batch: int = 16
    """Sequences per forward pass; changes memory and speed, not the result."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm."""
    weight_decay: float = 0.0
    """AdamW's decoupled weight decay."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One agent's text, its advantage, and its weight in the mean of that agent's objective."""

    agent: str
    completion: Completion
    advantage: float
    weight: float


class MAGRPO(Prompting):
    """Trains every trainable member of a team on its own samples with the joint, group-relative advantage.

    Args:
        team: Who acts; members that cannot be trained stay as they are.
        sampling: How the samples were drawn; its temperature is part of the policy that is trained.
        config: Options.
    """

    protocol = "parallel"
    Config: ClassVar[type[Config]] = MAGRPOConfig

    def __init__(self, team: Team, sampling: Sampling, config: MAGRPOConfig | None = None) -> None:
        super().__init__(team, sampling)
        if not team.trainable:
            raise ValueError("no member of the team can be trained; give at least one agent a language model")
        self.config = config or MAGRPOConfig()
        self.optimizers = [
            torch.optim.AdamW(
                list(policy.parameters()), lr=self.config.learning_rate, weight_decay=self.config.weight_decay
            )
            for policy in team.trainable
        ]

    def update(self, groups: Sequence[Group]) -> Metrics:
        """One update of all trainable members; see the module for the equations.

        Returns:
            `loss`, `grad_norm`, `skipped` (1 when nothing was to be learnt or a gradient was not finite),
            `clipped` (share of the ratios outside the clip range) and `tokens`, means over members.
        """
        samples = weigh(self.samples(groups), self.config)
        results: list[Metrics] = []
        for policy, optimizer in zip(self.team.trainable, self.optimizers, strict=True):
            mine = [s for s in samples if self.team.members[s.agent] is policy]
            results.append(self._improve(policy, optimizer, mine))
        return {name: sum(result[name] for result in results) / len(results) for name in results[0]}

    def samples(self, groups: Sequence[Group]) -> list[Sample]:
        """Every trainable text with its advantage; what could not be scored is left out."""
        found: list[Sample] = []
        for group in groups:
            values = [returns(episode.rewards, self.config.gamma) for episode in group.episodes]  # R_t^(g)
            for t in range(max(len(v) for v in values)):
                present = [g for g, v in enumerate(values) if t < len(v)]
                advantages = group_advantages([values[g][t] for g in present], self.config.advantage)  # (advantage)
                for g, advantage in zip(present, advantages.tolist(), strict=True):
                    turn = group.episodes[g].turns[t]
                    if not math.isnan(advantage):
                        found += [Sample(a, c, advantage, 0.0) for a, c in turn.actions.items() if c.token_ids]
        return found

    def _improve(self, policy: TrainablePolicy, optimizer: torch.optim.Optimizer, samples: list[Sample]) -> Metrics:
        """Optimizer steps of one policy on its samples."""
        metrics = {"loss": 0.0, "grad_norm": 0.0, "skipped": 1.0, "clipped": 0.0}
        metrics["tokens"] = float(sum(len(s.completion.token_ids) for s in samples))
        moving = [s for s in samples if s.advantage]
        moving.sort(key=lambda s: (len(s.completion.prompt_ids), s.completion.prompt_ids))  # same prompts together
        parameters = list(policy.parameters())
        size = self.config.micro_batch
        batches = [moving[i : i + size] for i in range(0, len(moving), size)]
        old: list[torch.Tensor] = []  # log pi_old of every batch: what the first pass computes
        for epoch in range(self.config.epochs if batches else 0):
            optimizer.zero_grad()
            loss = clipped = 0.0
            for number, batch in enumerate(batches):
                logprobs, mask = policy.token_logprobs(
                    [(s.agent, s.completion) for s in batch], self.sampling.temperature
                )
                if epoch == 0:
                    old.append(logprobs.detach())
                advantages = torch.tensor([s.advantage for s in batch], device=logprobs.device)
                weights = torch.tensor([s.weight for s in batch], device=logprobs.device)
                objective = clipped_objective(  # (objective)
                    logprobs,
                    old[number],
                    mask,
                    advantages,
                    ratio=self.config.ratio,
                    clip_low=self.config.clip_low,
                    clip_high=self.config.clip_high,
                )
                batch_loss = -(objective * weights).sum()
                batch_loss.backward()
                loss += batch_loss.item()
                clipped += self._clipped(logprobs.detach() - old[number], mask)
            norm = float(torch.nn.utils.clip_grad_norm_(parameters, self.config.max_grad_norm))
            if not (math.isfinite(loss) and math.isfinite(norm)):
                optimizer.zero_grad()
                return {**metrics, "loss": loss, "grad_norm": norm}
            optimizer.step()
            metrics |= {"loss": loss, "grad_norm": norm, "skipped": 0.0, "clipped": clipped / len(batches)}
        return metrics

    def _clipped(self, difference: torch.Tensor, mask: torch.Tensor) -> float:
        """Share of the ratios outside the clip range."""
        if self.config.ratio == "sequence":
            difference, mask = (difference * mask).sum(-1), mask.amax(-1)
        rho = difference.exp()
        outside = (rho < 1 - self.config.clip_low) | (rho > 1 + self.config.clip_high)
        return float((outside * mask).sum() / mask.sum())

    def state_dict(self) -> dict[str, Any]:
        """Optimizer states, one per trainable policy."""
        return {"optimizers": [optimizer.state_dict() for optimizer in self.optimizers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the optimizers."""
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)


def weigh(samples: Sequence[Sample], config: MAGRPOConfig) -> list[Sample]:
    """Give every sample its weight in the mean of its agent's objective."""
    weighed: list[Sample] = []
    for agent in dict.fromkeys(s.agent for s in samples):
        mine = [s for s in samples if s.agent == agent]
        tokens = sum(len(s.completion.token_ids) for s in mine)
        for s in mine:
            if config.ratio == "token" and config.average == "tokens":
                weight = 1 / tokens
            else:
                weight = 1 / (len(mine) * (len(s.completion.token_ids) if config.ratio == "token" else 1))
            weighed.append(Sample(s.agent, s.completion, s.advantage, weight))
    return weighed


class GRPO(MAGRPO):
    """MAGRPO with one agent, which writes all parts."""

    protocol = "centralized"
