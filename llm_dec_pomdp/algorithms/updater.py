# pyright: basic
"""How the weights of one policy move: samples with advantages in, optimizer steps out.

The learner says what advantage A a text a has after a history h. For each of its agents, the policy ascends

    J = mean of w min(rho A, clip(rho, 1 - eps, 1 + eps) A),  rho = pi(a | h) / pi_old(a | h)               (objective)
        - beta KL(pi || pi_ref) + entropy bonus.                                                                  (KL)

pi_old is the policy at the beginning of a step; its log-probabilities are noted in the first forward pass. The sampler
may have computed differently: in 16 bits, rounding depends on the shape of the batch, and another program has other
kernels. The importance w corrects for that, see `UpdaterOptions.importance`. All log-probabilities are at the sampling
temperature. Every sampled token counts, the end-of-turn token too; padding never does. Samples with advantage 0 count
in the mean but skip the forward pass, since their gradient is 0.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

import torch

from ..agents.base import (
    EntropyPolicy,
    MismatchedPolicy,
    ParameterGroup,
    PlacedPolicy,
    Team,
    TrainablePolicy,
    side_by_side,
)
from ..agents.memory import BatchSize
from ..seeding import derive
from ..types import Completion
from .base import Metrics
from .batches import advantages_of, in_forward_passes, in_minibatches, weigh
from .losses import Clip, RatioLevel, clipped_objective, count_clipped, importance_weights, kl_k3
from .options import UpdaterOptions, refuse_endless_warmup
from .refusals import refuse_unlearnable, refuse_untrainable
from .samples import Sample, usable
from .schedules import factor

T = TypeVar("T")
WATCHED = 10  # the first updates, after which the texts are read once more, see `Updater.step`

# --- all policies of a team -------------------------------------------------------------------------------------------


def updaters_of(
    team: Team,
    temperature: float,
    options: UpdaterOptions,
    kind: type[Updater] | None = None,
    others: type[Updater] | None = None,
) -> list[Updater]:
    """One updater for each trainable policy of a team, in agent order; it lives in the process of its policy.

    Args:
        team: The team.
        temperature, options: See `Updater`.
        kind: Class of the updaters; `Updater` when left out.
        others: Class of all updaters but the first; the same when left out.

    Raises:
        ValueError: No member can be trained, or two policies share a network; or see `Updater`.
    """
    if not team.trainable:
        raise ValueError("no member of the team can be trained; give at least one agent a language model")
    owners: dict[int, str] = {}
    for policy in team.trainable:
        agent = next(agent for agent, member in team.members.items() if member is policy)
        for parameter in policy.parameters():
            owner = owners.setdefault(id(parameter), agent)
            if owner != agent:
                raise ValueError(
                    f"{owner!r} and {agent!r} have two policies on the same network; let one policy play both"
                )
    updaters: list[Updater] = []
    for policy in team.trainable:
        build = (others if updaters else kind) or kind or Updater
        how = team.parameter_groups(policy, options.learning_rate), temperature, options
        updaters.append(policy.updater(build, *how) if isinstance(policy, PlacedPolicy) else build(policy, *how))
    return updaters


def step_all(updaters: Sequence[Updater], samples: Sequence[Sample], seed: int) -> Metrics:
    """Let every updater step on the samples of its agents; those on different devices step at the same time.

    Returns:
        Each number of `Updater.step`, as the mean over the updaters that report it.
    """
    tasks = [partial(updater.step, samples, seed) for updater in updaters]
    results = side_by_side([updater.policy for updater in updaters], tasks)
    by_name = {name: [result[name] for result in results if name in result] for result in results for name in result}
    return {name: sum(values) / len(values) for name, values in by_name.items()}


# --- one policy -------------------------------------------------------------------------------------------------------


class Updater:
    """Moves the weights of one policy.

    Args:
        policy: The policy. Where beta is above 0, the policy as it is now is also the reference, see `begin`.
        groups: Its parameters by the agents that use them, with their learning rates (`Team.parameter_groups`).
        temperature: Sampling temperature of its texts; it is part of the policy that is trained.
        options: Objective and optimizer.

    Attributes:
        agents: The agents that this policy plays; it learns from their samples.
        updates: Steps so far.
        horizon: Steps after which a falling learning rate is 0; 0 while that is not known.

    Raises:
        ValueError: The weights are float16, or there is an entropy bonus and the policy cannot compute its entropy.
    """

    def __init__(
        self, policy: TrainablePolicy, groups: Sequence[ParameterGroup], temperature: float, options: UpdaterOptions
    ) -> None:
        refuse_untrainable(policy, options)
        self.policy, self.groups, self.temperature, self.options = policy, groups, temperature, options
        self.agents = {agent for group in groups for agent in group.agents}
        self.updates = 0
        self.horizon = options.horizon
        self.micro_batch = BatchSize("micro_batch", options.micro_batch)
        self.reference: Any = None
        self.begin()
        self._old: dict[int, torch.Tensor] = {}  # log pi_old, by the number of the sample
        self._elsewhere: dict[int, float] = {}  # log rho of the trajectory's other texts, by the number of the sample
        self._drawn_elsewhere: dict[int, float] = {}  # log pi_old / pi_sampler of these texts

    @property
    def logprobs(self) -> dict[int, list[float]]:
        """log pi_old of every text that the last step computed, by its place among the samples."""
        return {number: logprobs.tolist() for number, logprobs in self._old.items()}

    def begin(self) -> None:
        """Start from the policy as it is now: a new optimizer, and with beta above 0 a copy of it as pi_ref.

        Called when the updater is made, and again where its learner takes over a team that others have trained
        (`algorithms.staged`). Before the first step there is nothing else to begin anew.
        """
        self.optimizer = torch.optim.AdamW(
            [{"params": g.parameters, "lr": g.learning_rate, "full_lr": g.learning_rate} for g in self.groups],
            weight_decay=self.options.weight_decay,
            fused=True,
        )
        self.reference = copy.deepcopy(self.policy) if self.options.beta else None

    def learning_rates(self) -> dict[str, float]:
        """The learning rate of each agent's policy, before the schedule; after a restart that of the checkpoint."""
        rates: dict[str, float] = {}
        for group, settings in zip(self.groups, self.optimizer.param_groups, strict=True):
            for agent in group.agents:
                rates.setdefault(agent, settings["full_lr"])  # parameters of a critic come after the policy's
        return rates

    # --- steps --------------------------------------------------------------------------------------------------------

    def expect(self, updates: int) -> None:
        """Say how many steps there will be in all: a falling learning rate reaches 0 there, unless horizon is set.

        Raises:
            ValueError: The warmup takes all of them.
        """
        self.horizon = self.options.horizon or updates
        refuse_endless_warmup(self.options, updates)

    def step(self, samples: Sequence[Sample], seed: int = 0) -> Metrics:
        """Run all epochs and minibatches over the samples of this policy's agents.

        Where a loss, gradient or ratio is not finite, the optimizer does not step and the remaining minibatches and
        epochs are left out; the steps before it stay.

        Args:
            samples: Those of other agents, without tokens, or with advantage NaN (not scored) are ignored.
            seed: The order of the minibatches follows from it and from the number of the step.

        Returns:
            `loss`, `grad_norm`, `skipped` (1 when there was nothing to learn or a gradient was not finite), `clipped`
            (share of the ratios outside the clip range) and `tokens`; per token, `kl` where beta is above 0 and
            `entropy` where there is an entropy bonus; of the first updates `rise`, by how much the surprisal of these
            texts has risen, in nats a token, which estimates KL(pi_old || pi).

        Raises:
            ValueError: A text lacks log-probabilities, or the temperature is 0.
        """
        c = self.options
        own = usable([replace(s, number=place) for place, s in enumerate(samples) if s.agent in self.agents])
        refuse_unlearnable(own, self.temperature)
        if c.schedule != "constant" and not self.horizon:
            raise ValueError(
                f"schedule is {c.schedule!r}, and the number of updates is not known; train with training.train, "
                "call expect(updates), or set horizon"
            )
        if c.truncated == "mask":
            own = [s for s in own if not s.completion.truncated]
        self.updates += 1
        self._old, self._elsewhere, self._drawn_elsewhere = {}, {}, {}
        for group in self.optimizer.param_groups:
            group["lr"] = group["full_lr"] * factor(self.updates, c.schedule, c.warmup, self.horizon)
        metrics: Metrics = {"loss": 0.0, "grad_norm": 0.0, "skipped": 1.0, "clipped": 0.0}
        metrics |= {name: 0.0 for name, used in (("kl", c.beta), ("entropy", c.entropy)) if used}
        metrics["tokens"] = float(sum(len(s.completion.token_ids) for s in own))
        whole = self._importance_level == "trajectory"  # its weight needs all of its texts
        if c.minibatches > 1 or whole:  # from the second minibatch on, the weights are no longer those that sampled
            self._old = self.read(self._with_gradient(own), self._own_logprobs)
        if whole:
            self._note_drawn_elsewhere(self._with_gradient(own))
        order = derive(seed, "minibatches", self.updates)
        for epoch in range(c.epochs):
            results: list[Metrics] = []
            for part in self._parts(own, derive(order, epoch)):
                learning = self._with_gradient(weigh(part, c))
                if not self._worth_a_step(learning):
                    continue
                if c.ratio == "trajectory" and self._old:
                    self._note_elsewhere(self._with_gradient(own))
                result = self._gradient(learning)
                if not all(map(math.isfinite, result.values())):
                    self.optimizer.zero_grad()
                    return metrics | result
                self.optimizer.step()
                results.append(result)
            if results:
                metrics |= {name: sum(result[name] for result in results) / len(results) for name in results[0]}
                metrics["skipped"] = 0.0
        if self.updates <= WATCHED and self._old and not metrics["skipped"]:
            metrics["rise"] = self._rise(own)
        return metrics

    def _parts(self, samples: list[Sample], seed: int) -> Iterator[list[Sample]]:
        """What each optimizer step of an epoch learns from."""
        yield from in_minibatches(samples, self.options.minibatches, seed)

    def _with_gradient(self, samples: list[Sample]) -> list[Sample]:
        """The samples with a gradient: all with a KL term or an entropy bonus, else those with an advantage."""
        return samples if self.options.beta or self.options.entropy else [s for s in samples if s.advantage]

    def _worth_a_step(self, learning: list[Sample]) -> bool:
        """Whether the optimizer steps: without anything to learn, momentum alone would move the weights."""
        return bool(learning)

    # --- the gradient of one optimizer step ---------------------------------------------------------------------------

    def _gradient(self, samples: list[Sample]) -> Metrics:
        """Compute the clipped gradient, in micro-batches that fit into memory; the parts of the loss, and the norm."""
        known = set(self._old)

        def undo() -> None:
            self.optimizer.zero_grad()
            self._old = {number: self._old[number] for number in known}  # drop those of the pass that did not fit

        self.optimizer.zero_grad()
        terms = self.micro_batch.run(lambda size: self._accumulate(in_forward_passes(samples, size)), undo)
        terms["grad_norm"] = self._clip_gradients({s.agent for s in samples})
        return terms

    def _clip_gradients(self, agents: set[str]) -> float:
        """Clip the gradient of each group of parameters on its own; returns the norm of all of them before.

        Parameters that none of these agents uses get no gradient, so that momentum does not move them either.
        """
        norms: list[float] = []
        for group in self.groups:
            if agents.isdisjoint(group.agents):
                for parameter in group.parameters:
                    parameter.grad = None
            else:
                norm: Any = torch.nn.utils.clip_grad_norm_(group.parameters, self.options.max_grad_norm)
                norms.append(float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm))  # a DTensor
        return math.hypot(*norms)

    def _accumulate(self, batches: list[list[Sample]]) -> Metrics:
        """Run one forward and backward pass per batch; the parts of the loss over all batches."""
        tokens = sum(len(s.completion.token_ids) for batch in batches for s in batch)
        ratios = tokens if self.options.ratio == "token" else sum(map(len, batches))
        counts = {"loss": 1, "clipped": ratios, "kl": tokens, "entropy": tokens}
        sums: Metrics = {}
        for batch in batches:
            loss, terms = self.loss(batch)
            loss.backward()
            for name, value in terms.items():
                sums[name] = sums.get(name, 0.0) + value / counts[name]
        return sums

    def loss(self, batch: list[Sample]) -> tuple[torch.Tensor, Metrics]:
        """The loss of a batch, each sample by its `weight`; and its parts, as sums over texts, ratios or tokens."""
        c = self.options
        entropies = None
        if c.entropy:
            assert isinstance(self.policy, EntropyPolicy)
            logprobs, entropies, mask = self.policy.token_logprobs_and_entropies(_texts(batch), self.temperature)
        else:
            logprobs, mask = self.policy.token_logprobs(_texts(batch), self.temperature)
        old = self.old_logprobs(batch, logprobs, mask)
        advantages = advantages_of(batch, mask, c)
        weights = torch.tensor([s.weight for s in batch], device=logprobs.device)
        clip = Clip(c.ratio, c.clip_low, c.clip_high)
        importance = self._importance(batch, old, mask)
        elsewhere = logprobs.new_tensor([self._elsewhere.get(s.number, 0.0) for s in batch])[:, None]
        objective = clipped_objective(logprobs, old, mask, advantages, clip, importance, elsewhere)  # (objective)
        loss = -(objective * weights).sum()
        terms = {"clipped": count_clipped(logprobs, old, mask, clip, elsewhere)}
        if self.reference is not None:
            with torch.no_grad():
                reference, _ = self.reference.token_logprobs(_texts(batch), self.temperature)
            kl = kl_k3(logprobs, reference, mask)  # (KL)
            loss = loss + c.beta * (kl * weights).sum()
            terms["kl"] = kl.sum().item()
        if entropies is not None:
            entropy = (entropies * mask).sum(-1)
            loss = loss - c.entropy * (entropy * weights).sum()
            terms["entropy"] = entropy.sum().item()
        return loss, terms | {"loss": loss.item()}

    def old_logprobs(self, batch: list[Sample], logprobs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """log pi_old of a batch [N, L]; where a text is read for the first time, its present log-probabilities."""
        for sample, own in zip(batch, _by_text(logprobs, mask), strict=True):
            self._old.setdefault(sample.number, own)
        old = logprobs.detach().clone()
        old[mask.bool()] = torch.cat([self._old[sample.number] for sample in batch])
        return old

    def read(self, samples: Sequence[Sample], compute: Callable[[list[Sample]], Sequence[T]]) -> dict[int, T]:
        """What `compute` makes of each sample, by its number; without gradient, in batches that fit into memory."""
        values: dict[int, T] = {}

        def read_all(size: int) -> None:
            with torch.no_grad():
                for batch in in_forward_passes(samples, size):
                    values.update(zip([s.number for s in batch], compute(batch), strict=True))

        self.micro_batch.run(read_all, values.clear)
        return values

    def _own_logprobs(self, batch: list[Sample]) -> Sequence[torch.Tensor]:
        """Log-probabilities of the tokens of each text."""
        return _by_text(*self.policy.token_logprobs(_texts(batch), self.temperature))

    def _rise(self, samples: list[Sample]) -> float:
        """Mean of log pi_old / pi over the tokens of the texts that the step read."""
        now = self.read([s for s in samples if s.number in self._old], self._own_logprobs)
        before, after = (torch.cat([logprobs[number] for number in now]) for logprobs in (self._old, now))
        return (before - after).mean().item()

    def _log_ratios(self, batch: list[Sample]) -> list[float]:
        """log rho of each text as a whole."""
        logprobs, mask = self.policy.token_logprobs(_texts(batch), self.temperature)
        return ((logprobs - self.old_logprobs(batch, logprobs, mask)) * mask).sum(-1).tolist()

    def _note_elsewhere(self, samples: list[Sample]) -> None:
        """Note log rho of the other texts of every trajectory, at the present weights."""
        self._elsewhere = _of_others(samples, self.read(samples, self._log_ratios))

    def _note_drawn_elsewhere(self, samples: list[Sample]) -> None:
        """Note log pi_old / pi_sampler of the other texts of every trajectory."""
        gaps = {s.number: float(self._old[s.number].double().sum()) - sum(s.completion.logprobs) for s in samples}
        self._drawn_elsewhere = _of_others(samples, gaps)

    @property
    def _importance_level(self) -> RatioLevel | Literal["none"]:
        """The level of importance weights; "none" where the sampler computed what the trainer computes."""
        if self.options.importance != "auto":
            return self.options.importance
        differs = isinstance(self.policy, MismatchedPolicy) and self.policy.sampler_differs
        return self.options.ratio if differs else "none"

    def _importance(self, batch: list[Sample], old: torch.Tensor, mask: torch.Tensor) -> torch.Tensor | float:
        """Importance weights of a batch."""
        level = self._importance_level
        if level == "none":
            return 1.0
        recorded = torch.zeros_like(mask)
        recorded[mask.bool()] = mask.new_tensor([p for s in batch for p in s.completion.logprobs])
        elsewhere = old.new_tensor([self._drawn_elsewhere.get(s.number, 0.0) for s in batch])[:, None]
        return importance_weights(old, recorded, mask, level, elsewhere)

    # --- restarts -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State of the optimizer, steps so far, micro-batch, and the reference."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "updates": self.updates,
            "micro_batch": self.micro_batch.size,
            "reference": {} if self.reference is None else self.reference.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates = state["updates"]
        self.micro_batch.size = state["micro_batch"]
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])


def _of_others(samples: Sequence[Sample], of_texts: Mapping[int, float]) -> dict[int, float]:
    """By sample, the sum of these values over the other texts of its trajectory."""
    whole: dict[int, float] = {}
    for s in samples:
        whole[s.trajectory] = whole.get(s.trajectory, 0.0) + of_texts[s.number]
    return {s.number: whole[s.trajectory] - of_texts[s.number] for s in samples}


def _texts(samples: Sequence[Sample]) -> list[tuple[str, Completion]]:
    """The texts of samples, as policies take them."""
    return [(s.agent, s.completion) for s in samples]


def _by_text(logprobs: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Rows of log-probabilities [N, L] without their padding, and without gradient."""
    return logprobs.detach()[mask.bool()].split(mask.sum(-1).int().tolist())
