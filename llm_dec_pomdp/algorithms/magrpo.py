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
from .memory import MicroBatch


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
    """Sequences per forward pass; changes memory and speed, not the result. Halved when the device has too little."""
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
        self.micro_batch = MicroBatch(self.config.micro_batch)
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
        old: dict[int, torch.Tensor] = {}  # log pi_old of every sample: what the first pass computes
        for _ in range(self.config.epochs if moving else 0):
            known = len(old)

            def undo() -> None:
                optimizer.zero_grad()
                for position in list(old)[known:]:  # noqa: B023  # called in this pass of the loop alone
                    del old[position]

            optimizer.zero_grad()
            step = self.micro_batch.run(lambda size: self._accumulate(policy, moving, size, old), undo)
            norm = torch.nn.utils.clip_grad_norm_(list(policy.parameters()), self.config.max_grad_norm)
            step["grad_norm"] = float(norm)
            if not all(map(math.isfinite, step.values())):
                optimizer.zero_grad()
                return {**metrics, **step}
            optimizer.step()
            metrics |= {**step, "skipped": 0.0}
        return metrics

    def _accumulate(
        self, policy: TrainablePolicy, samples: list[Sample], size: int, old: dict[int, torch.Tensor]
    ) -> Metrics:
        """Gradient of the loss of one optimizer step, `size` samples per forward and backward pass."""
        starts = range(0, len(samples), size)
        sums = {"loss": 0.0, "clipped": 0.0}
        for start in starts:
            batch = samples[start : start + size]
            logprobs, mask = policy.token_logprobs([(s.agent, s.completion) for s in batch], self.sampling.temperature)
            before = logprobs.detach().clone()
            for row, sample in enumerate(batch):
                length = len(sample.completion.token_ids)
                before[row, :length] = old.setdefault(start + row, before[row, :length].clone())
            advantages = torch.tensor([s.advantage for s in batch], device=logprobs.device)
            weights = torch.tensor([s.weight for s in batch], device=logprobs.device)
            objective = clipped_objective(  # (objective)
                logprobs,
                before,
                mask,
                advantages,
                ratio=self.config.ratio,
                clip_low=self.config.clip_low,
                clip_high=self.config.clip_high,
            )
            loss = -(objective * weights).sum()
            loss.backward()
            sums["loss"] += loss.item()
            sums["clipped"] += self._clipped(logprobs.detach() - before, mask)
        return {**sums, "clipped": sums["clipped"] / len(starts)}

    def _clipped(self, difference: torch.Tensor, mask: torch.Tensor) -> float:
        """Share of the ratios outside the clip range; NaN when one is not finite, so that the step is skipped."""
        if self.config.ratio == "sequence":
            difference, mask = (difference * mask).sum(-1), mask.amax(-1)
        rho = difference.exp()
        if not rho[mask.bool()].isfinite().all():
            return math.nan
        outside = (rho < 1 - self.config.clip_low) | (rho > 1 + self.config.clip_high)
        return float((outside * mask).sum() / mask.sum())

    def state_dict(self) -> dict[str, Any]:
        """Optimizer states, one per trainable policy, and the micro-batch that fits into memory."""
        return {
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "micro_batch": self.micro_batch.size,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        self.micro_batch.size = state["micro_batch"]
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
