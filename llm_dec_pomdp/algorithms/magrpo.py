# pyright: basic
"""MAGRPO: Multi-Agent Group Relative Policy Optimization (arXiv:2508.04652), and GRPO as its one-agent case.

For a task, G joint trajectories are rolled out with the current policies: at turn t agent i samples a_{i,t}^(g) from
its own history h_{i,t}^(g), and the joint action earns the joint reward r_t^(g). With

    R_t^(g) = sum over tau >= t of gamma^(tau - t) r_tau^(g)                                                   (return)

all agents of a trajectory share the group-relative advantage

    A_t^(g) = (R_t^(g) - mean_g R_t) / std_g R_t                                                            (advantage)

and agent i ascends, over its own samples,

    J_i = mean over g, t of min(rho A, clip(rho, 1 - eps, 1 + eps) A),  rho = pi_i(a | h) / pi_i,old(a | h)  (objective)
          - beta KL(pi_i || pi_i,ref).                                                                             (KL)

These are the equations of the paper's section on MAGRPO; the code cites their names at the lines that implement them.

Departures from the paper, each an option:
* rho per token and a mean over all tokens of an agent (`ratio="token"`, common practice); "sequence" is as printed.
* beta is 0, as in the paper's experiments; KL is estimated by k3, per token.
* the mean runs over all trajectories of all groups of an update, and not group by group.
* G trajectories are continued side by side (`tree=False`); with `tree=True` every joint action branches again.
* an episode that ended earlier stays in the means of later turns with return 0, so that they are unbiased baselines.
* `pairing="cross"` and `credit="counterfactual"` are not in the paper: they tell apart what each agent contributed. At
  later turns counterfactual credit borrows texts that were said after other histories; as a baseline that is unbiased.
  What follows the replaced text is repeated as recorded (`continuation="frozen"`: no generation, biased where others
  would have reacted) or drawn anew where a history changed ("resampled").
* entropy bonus, minibatches, schedules: off by default, not in the paper.
What is exact: log-probabilities are those at the sampling temperature; every sampled token counts, the last one and the
end-of-turn token included, padding never does. Samples whose advantage is 0 take part in the mean and not in the
forward pass, since their gradient is 0.
What is not: rho compares the trainer with itself, so on the first pass it is 1 whatever the sampler did. A sampler that
computes differently (16 bits, another program) draws from a policy that is a little off; `importance` weighs its draws
by the trainer's likelihood over the recorded one, at most 2, and the metrics say how far the two are apart.

| option | what is compared with what | joint rewards per task, one turn |
|---|---|---|
| aligned | joint trajectories of a group, turn by turn (in a tree: siblings) | G |
| cross | an agent's texts, each by its mean over the others' texts | G^n |
| counterfactual | an agent's texts beside the same texts of the others | up to G + n G (G - 1) |
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import torch

from ..agents.base import AdaptedPolicy, EntropyPolicy, Sampling, Team, TrainablePolicy, side_by_side
from ..agents.memory import BatchSize
from ..seeding import derive
from ..types import Group, RolloutPlan
from .advantages import Array, returns_of_group
from .base import Metrics, Prompting
from .diagnostics import describe
from .losses import Clip, clipped_objective, count_clipped, importance_weights, kl_k3
from .options import MAGRPOConfig, MAREINFORCEConfig, MAREMAXConfig, MARLOOConfig
from .sampler import importance_level, recall, recorded
from .samples import (
    Sample,
    in_forward_passes,
    in_minibatches,
    of_decisions,
    of_trajectories,
    refuse_bad_rewards,
    refuse_missing_logprobs,
    returns_of_decision,
    weigh,
)
from .schedules import factor

__all__ = ["GRPO", "MAGRPO", "MAGRPOConfig", "MAREINFORCE", "MARLOO", "MAREMAX"]


class MAGRPO(Prompting):
    """Trains every trainable member of a team on its own samples with the joint, group-relative advantage.

    Args:
        team: Who acts; members that cannot be trained stay as they are. With beta > 0 it is also the reference.
        sampling: How the samples were drawn; its temperature is part of the policy that is trained.
        config: Options.
    """

    protocol = "parallel"
    Config: ClassVar[type[MAGRPOConfig]] = MAGRPOConfig

    def __init__(self, team: Team, sampling: Sampling, config: MAGRPOConfig | None = None) -> None:
        super().__init__(team, sampling)
        if not team.trainable:
            raise ValueError("no member of the team can be trained; give at least one agent a language model")
        self.config = config or self.Config()
        self.updates = 0
        self.micro_batch = BatchSize("micro_batch", self.config.micro_batch)
        _refuse_untrainable(team)
        self.parameters = [team.parameter_groups(policy, self.config.learning_rate) for policy in team.trainable]
        self.optimizers = [
            torch.optim.AdamW(
                [{"params": g.parameters, "lr": g.learning_rate, "full_lr": g.learning_rate} for g in groups],
                weight_decay=self.config.weight_decay,
                fused=True,
            )
            for groups in self.parameters
        ]
        self.references = [reference(policy) for policy in team.trainable] if self.config.beta else []
        self._refuse_unknown_entropy()

    @property
    def rollout(self) -> RolloutPlan:
        """What has to be played for these options."""
        c = self.config
        flat = c.credit == "counterfactual" and c.pairing == "aligned"
        return RolloutPlan(c.pairing, c.tree, c.continuation if flat else "none")

    # --- one update, from the groups to the weights ----------------------------------------------------------------

    def update(self, groups: Sequence[Group]) -> Metrics:
        """One update of all trainable members; see the module for the equations.

        A member whose loss, gradient or ratio is not finite does not step, and is done with this update; its earlier
        minibatches and epochs, and the other members, have stepped all the same.

        Returns:
            `loss`, `grad_norm`, `skipped` (1 when nothing was to be learnt or a gradient was not finite),
            `clipped` (share of the ratios outside the clip range) and `tokens`, means over members; with beta `kl`,
            with an entropy bonus `entropy`, each per token; and what `diagnostics.describe` says of the texts.

        Raises:
            ValueError: A reward is infinite, the groups were not played by this learner's plan, a text lacks
                log-probabilities, or the temperature is 0.
        """
        if self.sampling.temperature == 0:
            raise ValueError("the temperature is 0, so all texts of a group are alike; train with one above 0")
        self.updates += 1
        samples = self.samples(groups)
        refuse_missing_logprobs(samples)
        seed = derive(next((e.seed for g in groups for e in g.episodes), 0), "minibatches", self.updates)
        old: list[dict[int, torch.Tensor]] = [{} for _ in self.optimizers]  # log pi_old, by the number of the sample
        works = [partial(self._improve, number, samples, noted, seed) for number, noted in enumerate(old)]
        results = side_by_side(self.team.trainable, works)
        trainer = {number: logprobs.tolist() for noted in old for number, logprobs in noted.items()}
        metrics = {name: sum(result[name] for result in results) / len(results) for name in results[0]}
        learning = [s for s in samples if self.team.members[s.agent] in self.team.trainable]
        return metrics | describe(learning, len(groups), trainer)

    def samples(self, groups: Sequence[Group]) -> list[Sample]:
        """Every text of tokens with its advantage; what could not be scored is left out."""
        refuse_bad_rewards(groups, self.rollout)
        credited = of_trajectories if self.rollout == RolloutPlan() else of_decisions
        samples: list[Sample] = []
        for place, group in enumerate(groups):
            found = credited(group, self.returns(group), self.config)
            usable = (s for s in found if s.completion.token_ids and not math.isnan(s.advantage))
            samples += [replace(s, number=number, group=place) for number, s in enumerate(usable, len(samples))]
        return samples

    def returns(self, group: Group) -> list[Array]:
        """What is compared: trajectories turn by turn [G, T], or the joint actions [B] of each decision point."""
        if self.rollout == RolloutPlan():
            return [returns_of_group([episode.rewards for episode in group.episodes], self.config.gamma)]  # (return)
        return [returns_of_decision(decision, self.config.gamma) for decision in group.decisions]  # (return)

    def _improve(self, number: int, samples: Sequence[Sample], old: dict[int, torch.Tensor], seed: int) -> Metrics:
        """Optimizer steps of one policy on its samples among all; notes log pi_old of those that have a gradient."""
        c, policy, optimizer = self.config, self.team.trainable[number], self.optimizers[number]
        self._set_learning_rate(optimizer)
        samples = [s for s in samples if self.team.members[s.agent] is policy]
        if c.truncated == "mask":
            samples = [s for s in samples if not s.completion.truncated]
        metrics = {"loss": 0.0, "grad_norm": 0.0, "skipped": 1.0, "clipped": 0.0}
        metrics |= {name: 0.0 for name, used in (("kl", c.beta), ("entropy", c.entropy)) if used}
        metrics["tokens"] = float(sum(len(s.completion.token_ids) for s in samples))
        if c.minibatches > 1:  # the second one is not at the weights that sampled any more
            self._note(policy, samples, old)
        for epoch in range(c.epochs):
            steps: list[Metrics] = []
            for part in in_minibatches(samples, c.minibatches, derive(seed, epoch)):
                moving = self._moving(weigh(part, c))
                if not moving:
                    continue
                optimizer.zero_grad()
                step = self._within_memory(number, policy, optimizer, moving, old)
                step["grad_norm"] = self._clip_gradients(number, {s.agent for s in moving})
                if not all(map(math.isfinite, step.values())):
                    optimizer.zero_grad()
                    return {**metrics, **step}
                optimizer.step()
                steps.append(step)
            if steps:
                metrics |= {name: sum(step[name] for step in steps) / len(steps) for name in steps[0]}
                metrics["skipped"] = 0.0
        return metrics

    def _clip_gradients(self, number: int, agents: set[str]) -> float:
        """Scale down the gradient of each group of parameters on its own; returns the norm of all before.

        What none of these agents uses has no gradient, so that the momentum of earlier steps does not move it either.
        """
        norms: list[float] = []
        for group in self.parameters[number]:
            if agents.isdisjoint(group.agents):
                for parameter in group.parameters:
                    parameter.grad = None
            else:
                norms.append(float(torch.nn.utils.clip_grad_norm_(group.parameters, self.config.max_grad_norm)))
        return math.hypot(*norms)

    def _within_memory(
        self,
        number: int,
        policy: TrainablePolicy,
        optimizer: torch.optim.Optimizer,
        samples: list[Sample],
        old: dict[int, torch.Tensor],
    ) -> Metrics:
        """Gradient of the loss of one optimizer step, with the micro-batch that fits into memory."""
        known = len(old)

        def undo() -> None:
            optimizer.zero_grad()
            for sample_number in list(old)[known:]:  # noted by the pass that did not fit
                del old[sample_number]

        return self.micro_batch.run(
            lambda size: self._accumulate(number, policy, in_forward_passes(samples, size), old), undo
        )

    def _accumulate(
        self, number: int, policy: TrainablePolicy, batches: list[list[Sample]], old: dict[int, torch.Tensor]
    ) -> Metrics:
        """Gradient of the loss of one optimizer step, one forward and backward pass per batch."""
        c = self.config
        sums = {"loss": 0.0, "clipped": 0.0}
        sums |= {name: 0.0 for name, used in (("kl", c.beta), ("entropy", c.entropy)) if used}
        clip = Clip(c.ratio, c.clip_low, c.clip_high)
        tokens = sum(len(s.completion.token_ids) for batch in batches for s in batch)
        ratios = tokens if c.ratio == "token" else sum(map(len, batches))
        for batch in batches:
            pairs, temperature = [(s.agent, s.completion) for s in batch], self.sampling.temperature
            entropies = None
            if c.entropy:
                assert isinstance(policy, EntropyPolicy)
                logprobs, entropies, mask = policy.token_logprobs_and_entropies(pairs, temperature)
            else:
                logprobs, mask = policy.token_logprobs(pairs, temperature)
            before = recall(old, batch, logprobs, mask)
            advantages = torch.tensor([s.advantage for s in batch], device=logprobs.device)
            weights = torch.tensor([s.weight for s in batch], device=logprobs.device)
            importance = self._importance(policy, batch, before, mask)
            objective = clipped_objective(logprobs, before, mask, advantages, clip, importance)  # (objective)
            loss = -(objective * weights).sum()
            if c.beta:
                with torch.no_grad():
                    there, _ = self.references[number].token_logprobs(pairs, temperature)
                kl = kl_k3(logprobs, there, mask)  # (KL)
                loss = loss + c.beta * (kl * weights).sum()
                sums["kl"] += kl.sum().item() / tokens
            if entropies is not None:
                entropy = (entropies * mask).sum(-1)
                loss = loss - c.entropy * (entropy * weights).sum()
                sums["entropy"] += entropy.sum().item() / tokens
            loss.backward()
            sums["loss"] += loss.item()
            sums["clipped"] += count_clipped(logprobs, before, mask, clip) / ratios
        return sums

    def _importance(
        self, policy: TrainablePolicy, batch: list[Sample], before: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor | float:
        """What the draws of a batch weigh, for which the sampler may have computed differently."""
        level = importance_level(self.config, policy)
        return 1.0 if level == "none" else importance_weights(before, recorded(batch, mask), mask, level)

    def _moving(self, samples: list[Sample]) -> list[Sample]:
        """The samples that have a gradient: with a KL term or an entropy bonus all, else those with an advantage."""
        return samples if self.config.beta or self.config.entropy else [s for s in samples if s.advantage]

    def _note(self, policy: TrainablePolicy, samples: list[Sample], old: dict[int, torch.Tensor]) -> None:
        """Note log pi_old of all samples."""

        def note(size: int) -> None:
            with torch.no_grad():
                for batch in in_forward_passes(self._moving(samples), size):
                    pairs = [(s.agent, s.completion) for s in batch]
                    logprobs, mask = policy.token_logprobs(pairs, self.sampling.temperature)
                    recall(old, batch, logprobs, mask)

        self.micro_batch.run(note, old.clear)

    def _set_learning_rate(self, optimizer: torch.optim.Optimizer) -> None:
        c = self.config
        for group in optimizer.param_groups:
            group["lr"] = group["full_lr"] * factor(self.updates, c.schedule, c.warmup, c.horizon)

    def _refuse_unknown_entropy(self) -> None:
        for policy in self.team.trainable if self.config.entropy else ():
            if not isinstance(policy, EntropyPolicy):
                raise ValueError(
                    f"entropy is {self.config.entropy}, but {type(policy).__name__} does not tell its entropy; set it "
                    "to 0 or give the policy token_logprobs_and_entropies"
                )

    # --- restarts -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Optimizer states and copied references, one per trainable policy each; updates done; the micro-batch."""
        return {
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "updates": self.updates,
            "micro_batch": self.micro_batch.size,
            "references": [there.state_dict() for there in self._copied()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.updates = state["updates"]
        self.micro_batch.size = state["micro_batch"]
        for there, saved in zip(self._copied(), state["references"], strict=True):
            there.load_state_dict(saved)

    def _copied(self) -> list[TrainablePolicy]:
        """References that are copies; a base below adapters never changes."""
        return [there for there in self.references if next(iter(there.parameters()), None) is not None]


def _refuse_untrainable(team: Team) -> None:
    """Refuse parameters that cannot be trained as they are, and warn of those that hardly can."""
    agents = {id(policy): agent for agent, policy in reversed(team.members.items())}
    owners: dict[int, str] = {}
    types: set[torch.dtype] = set()
    for policy in team.trainable:
        agent = agents[id(policy)]
        for parameter in policy.parameters():
            types.add(parameter.dtype)
            if owners.setdefault(id(parameter), agent) != agent:
                raise ValueError(
                    f"{owners[id(parameter)]!r} and {agent!r} have policies of their own on the same network; let one "
                    "policy play both"
                )
    if torch.float16 in types:
        raise ValueError(
            "the parameters to be trained are float16, whose gradients vanish or overflow; load the model with dtype "
            "'float32', or train adapters on it (sharing 'lora')"
        )
    if torch.bfloat16 in types:
        warnings.warn(
            "the parameters to be trained are bfloat16, which rounds a change of less than about 1/256 of a weight "
            "away, so that small learning rates do next to nothing; load the model with dtype 'float32', or train "
            "adapters on it (sharing 'lora')",
            stacklevel=3,
        )


def reference(policy: TrainablePolicy) -> TrainablePolicy:
    """pi_ref: the base below the adapters, which is there already, or else a copy of the policy as it is now."""
    base = policy.base() if isinstance(policy, AdaptedPolicy) else None
    return copy.deepcopy(policy) if base is None else base


# --- relatives: the same objective, another baseline ------------------------------------------------------------------


class GRPO(MAGRPO):
    """MAGRPO with one agent, which writes all parts."""

    protocol = "centralized"


class MAREINFORCE(MAGRPO):
    """A = R: no baseline. Unbiased, and every return that is not 0 moves the weights, whatever its group earned."""

    Config = MAREINFORCEConfig


class MARLOO(MAGRPO):
    """A = R - mean of the others (arXiv:2402.14740): unbiased, in units of the reward."""

    Config = MARLOOConfig


class MAREMAX(MAGRPO):
    """A = R - max R: pushes down what is not the best of its group (ReMax, arXiv:2310.10505, takes the greedy text)."""

    Config = MAREMAXConfig
