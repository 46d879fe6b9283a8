# pyright: basic
"""How the weights of one policy move: samples with advantages in, optimizer steps out.

The learner says what advantage A a text a has after a history h. For each of its agents, the policy ascends

    J = mean of w min(rho A, clip(rho, 1 - eps, 1 + eps) A),  rho = pi(a | h) / pi_old(a | h)               (objective)
        - beta KL(pi || pi_ref) + entropy bonus.                                                                  (KL)

pi_old is the policy at the beginning of a step; its log-probabilities are those of the first forward pass. The sampler
may have computed differently: in 16 bits, rounding depends on the shape of the batch, and another program has other
kernels. The importance w corrects for that, see `Objective.importance`. All log-probabilities are at the sampling
temperature. Every sampled token counts, the end-of-turn token too; padding never does. Samples with advantage 0 count
in the mean but skip the forward pass, since their gradient is 0.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch

from ..agents.base import ParameterGroup, Policy, Sampling, Team, side_by_side
from ..agents.oom import BatchSize
from ..seeding import derive
from .base import Metrics
from .batches import (
    advantages_of,
    by_text,
    in_forward_passes,
    in_minibatches,
    old_logprobs,
    recorded_logprobs,
    texts_of,
    weigh,
)
from .losses import Loss, count_clipped, importance_weights, kl_k3, log_ratio
from .options import UpdaterOptions, refuse_endless_warmup
from .refusals import refuse_unlearnable, refuse_untrainable, refuse_untrainable_team
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
        temperature, options: See `Updater`; agents with a sampling of their own may have another temperature.
        kind: Class of the updaters; `Updater` when left out.
        others: Class of all updaters but the first; the same when left out.

    Raises:
        ValueError: No member can be trained, two policies share a network, or agents of one policy have different
            temperatures; or see `Updater`.
    """
    refuse_untrainable_team(team)
    updaters: list[Updater] = []
    for policy in team.trainable:
        build = (others if updaters else kind) or kind or Updater
        groups = parameter_groups(team, policy, options.learning_rate)
        updaters.append(policy.updater(build, groups, _temperature_of(team, policy, temperature), options))
    return updaters


def _temperature_of(team: Team, policy: Policy, temperature: float) -> float:
    """The temperature at which the agents of a policy draw, where the run's is `temperature`."""
    agents = [agent for agent, member in team.members.items() if member is policy]
    run = Sampling(temperature=temperature)
    temperatures = {agent: team.sampling_of(agent, run).temperature for agent in agents}
    if len(set(temperatures.values())) > 1:
        raise ValueError(
            f"the temperatures {temperatures} are for agents of one policy, which is trained at one temperature; give "
            "them one, or a member each in a team's file"
        )
    return temperatures[agents[0]]


def step_all(updaters: Sequence[Updater], samples: Sequence[Sample], seed: int) -> Metrics:
    """Let every updater step on the samples of its agents; those on different devices step at the same time.

    Returns:
        Each number of `Updater.step`, as the mean over the updaters that report it.
    """
    tasks = [partial(updater.step, samples, seed) for updater in updaters]
    results = side_by_side([updater.policy for updater in updaters], tasks)
    by_name = {name: [result[name] for result in results if name in result] for result in results for name in result}
    return {name: sum(values) / len(values) for name, values in by_name.items()}


def parameter_groups(team: Team, policy: Policy, learning_rate: float | None = None) -> list[ParameterGroup]:
    """Return the parameters of a policy by the agents that use them: a group for each adapter, else one for all.

    Parameters that no agent of the team uses are in no group.

    Args:
        team: The team.
        policy: One of its policies.
        learning_rate: Of agents for which the team has none (`Team.learning_rates`); the policy's own when left out.

    Raises:
        ValueError: Agents that share weights have different learning rates.
    """
    everything = list(policy.parameters())
    users: dict[int, tuple[str, ...]] = {id(parameter): () for parameter in everything}
    for agent in [agent for agent, member in team.members.items() if member is policy]:
        for parameter in policy.parameters_of(agent):
            users[id(parameter)] += (agent,)
    groups: list[ParameterGroup] = []
    default = policy.default_learning_rate if learning_rate is None else learning_rate
    for agents in filter(None, dict.fromkeys(users.values())):
        rates = {agent: team.learning_rates.get(agent, default) for agent in agents}
        if len(set(rates.values())) > 1:
            raise ValueError(
                f"the learning rates {rates} are for agents that share weights; give them one, or adapters"
            )
        parameters = [parameter for parameter in everything if users[id(parameter)] == agents]
        groups.append(ParameterGroup(agents, parameters, rates[agents[0]]))
    return groups


# --- one policy -------------------------------------------------------------------------------------------------------


class Updater:
    """Moves the weights of one policy.

    Args:
        policy: The policy. Where beta is above 0, the policy as it is now is also the reference, see `begin`.
        groups: Its parameters by the agents that use them, with their learning rates (`parameter_groups`).
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
        self, policy: Policy, groups: Sequence[ParameterGroup], temperature: float, options: UpdaterOptions
    ) -> None:
        refuse_untrainable(policy, options)
        self.policy, self.groups, self.temperature, self.options = policy, groups, temperature, options
        self.agents = {agent for group in groups for agent in group.agents}
        self.updates = 0
        self.horizon = options.horizon
        self.stale = False  # texts may be drawn with older weights
        self.micro_batch = BatchSize("micro_batch", options.micro_batch)
        self.reference: Any = None
        self.begin()
        self._old: dict[int, torch.Tensor] = {}  # log pi_old of what a step read, by the number of the sample

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

    def expect(self, updates: int, stale: bool = False) -> None:
        """Say how many steps there will be in all, and whether texts are drawn with older weights than the present.

        A falling learning rate reaches 0 with the last step, unless horizon is set.

        Raises:
            ValueError: The warmup takes all of them, or older texts would not be corrected.
        """
        if stale and self.options.objective.importance == "none":
            raise ValueError(
                "importance is 'none', and with staleness above 0 texts are drawn with other weights than those that "
                "are updated; leave it at 'auto' where the learner has it, or set staleness to 0"
            )
        self.stale = stale
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
        self.policy.offload()
        samples = self._learnt_from(samples)
        self._schedule()
        tokens = float(sum(len(s.completion.token_ids) for s in samples))
        metrics = {"loss": 0.0, "grad_norm": 0.0, "skipped": 1.0, "clipped": 0.0, "tokens": tokens}
        metrics |= {name: 0.0 for name, used in (("kl", self.options.beta), ("entropy", self.options.entropy)) if used}
        self._old = self._read_first(self._with_gradient(samples))
        order = derive(seed, "minibatches", self.updates)
        for epoch in range(self.options.epochs):
            results: list[Metrics] = []
            for part in self._parts(samples, derive(order, epoch)):
                learning = self._with_gradient(self._weigh(part))
                if not self._worth_a_step(learning):
                    continue
                result, read = self.micro_batch.run(partial(self._gradient, learning))
                self._old = {**read, **self._old}
                if not self._descend(result, {s.agent for s in learning}):
                    return metrics | result
                results.append(result)
            if results:
                metrics |= {name: sum(result[name] for result in results) / len(results) for name in results[0]}
                metrics["skipped"] = 0.0
        if self.updates <= WATCHED and self._old and not metrics["skipped"]:
            metrics["rise"] = self._rise(samples)
        return metrics

    def _gradient(self, samples: list[Sample], size: int) -> tuple[Metrics, dict[int, torch.Tensor]]:
        """Compute the gradient of an optimizer step, `size` texts at a time.

        Returns:
            The parts of the loss over all texts; and the log-probabilities of each text, by the number of its sample.
        """
        tokens = sum(len(s.completion.token_ids) for s in samples)
        counts = {"loss": 1, "clipped": tokens if self.options.objective.ratio == "token" else len(samples)}
        self.optimizer.zero_grad()
        sums: Metrics = {}
        read: dict[int, torch.Tensor] = {}
        for batch in in_forward_passes(samples, size):
            loss = self.loss(batch, self._old)
            loss.value.backward()
            read.update(zip([s.number for s in batch], loss.logprobs, strict=False))
            for name, value in loss.terms.items():
                sums[name] = sums.get(name, 0.0) + value / counts.get(name, tokens)
        return sums, read

    def loss(self, batch: list[Sample], old: Mapping[int, torch.Tensor]) -> Loss:
        """The loss of a batch.

        Args:
            batch: N texts, each with its `weight`.
            old: log pi_old of the tokens of each text, by its number; those of texts that are not there are the
                present ones.
        """
        c = self.options
        logprobs, entropies, mask = self._forward(batch)
        before = old_logprobs(batch, logprobs, mask, old)
        log_rho, counted = self._log_ratio(batch, logprobs, before, mask)
        importance = self._importance(batch, before, mask)
        weights = torch.tensor([s.weight for s in batch], device=logprobs.device)
        advantages = advantages_of(batch, mask, c)
        objective = c.objective.of(log_rho, counted, advantages, importance, logprobs * mask)  # (objective)
        loss = -(objective * weights).sum()
        terms = {"clipped": count_clipped(log_rho, counted, c.objective.clip)}
        if self.reference is not None:
            with torch.no_grad():
                reference, _ = self.reference.token_logprobs(texts_of(batch), self.temperature)
            log_rho = log_ratio(logprobs, before, mask, "token")[0] if c.weigh_kl else None
            kl = kl_k3(logprobs, reference, mask, log_rho)  # (KL)
            loss = loss + c.beta * (kl * weights).sum()
            terms["kl"] = kl.sum().item()
        if entropies is not None:
            entropy = (entropies * mask).sum(-1)
            loss = loss - c.entropy * (entropy * weights).sum()
            terms["entropy"] = entropy.sum().item()
        return Loss(loss, terms | {"loss": loss.item()}, by_text(logprobs, mask))

    # --- parts of a step ----------------------------------------------------------------------------------------------

    def _learnt_from(self, samples: Sequence[Sample]) -> list[Sample]:
        """The samples of this policy's agents, each with its number; refuses what nothing can be learnt from."""
        c = self.options
        numbered = usable([replace(s, number=place) for place, s in enumerate(samples) if s.agent in self.agents])
        refuse_unlearnable(numbered, self.temperature)
        return [s for s in numbered if not (c.truncated == "mask" and s.completion.truncated)]

    def _schedule(self) -> None:
        """Count the step, and set its learning rate."""
        c = self.options
        if c.schedule != "constant" and not self.horizon:
            raise ValueError(
                f"schedule is {c.schedule!r}, and the number of updates is not known; train with training.train, "
                "call expect(updates), or set horizon"
            )
        self.updates += 1
        for group in self.optimizer.param_groups:
            group["lr"] = group["full_lr"] * factor(self.updates, c.schedule, c.warmup, self.horizon)

    def _read_first(self, samples: list[Sample]) -> dict[int, torch.Tensor]:
        """log pi_old of what is read before the first optimizer step: all, where parts of it are learnt from later."""
        return self.read(samples, self._logprobs_of) if self.options.minibatches > 1 else {}

    def _parts(self, samples: list[Sample], seed: int) -> Iterator[list[Sample]]:
        """What each optimizer step of an epoch learns from."""
        yield from in_minibatches(samples, self.options.minibatches, seed)

    def _weigh(self, samples: list[Sample]) -> list[Sample]:
        """Give every sample its weight in the mean of its agent's objective."""
        return weigh(samples, self.options)

    def _with_gradient(self, samples: list[Sample]) -> list[Sample]:
        """The samples with a gradient: all with a KL term or an entropy bonus, else those with an advantage."""
        return samples if self.options.beta or self.options.entropy else [s for s in samples if s.advantage]

    def _worth_a_step(self, learning: list[Sample]) -> bool:
        """Whether the optimizer steps: without anything to learn, momentum alone would move the weights."""
        return bool(learning)

    def _descend(self, result: Metrics, agents: set[str]) -> bool:
        """Step along the gradient, whose norm joins the result; False, and no step, where something is not finite."""
        result["grad_norm"] = self._clip_gradients(agents)
        finite = all(map(math.isfinite, result.values()))
        if finite:
            self.optimizer.step()
        else:
            self.optimizer.zero_grad()
        return finite

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

    # --- log-probabilities --------------------------------------------------------------------------------------------

    def _forward(self, batch: list[Sample]) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
        """log pi of the tokens [N, L]; their entropies, where there is a bonus; and the mask."""
        if self.options.entropy:
            return self.policy.token_logprobs_and_entropies(texts_of(batch), self.temperature)
        logprobs, mask = self.policy.token_logprobs(texts_of(batch), self.temperature)
        return logprobs, None, mask

    def _log_ratio(
        self, batch: list[Sample], logprobs: torch.Tensor, others: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """log pi / pi_other at the level of rho, and its mask; see `losses.log_ratio`."""
        return log_ratio(logprobs, others, mask, self.options.objective.ratio)

    def _importance(self, batch: list[Sample], old: torch.Tensor, mask: torch.Tensor) -> torch.Tensor | float:
        """Importance weights of a batch."""
        level, c = self._importance_level, self.options.objective
        if level == "none":
            return 1.0
        gaps, _ = log_ratio(old, recorded_logprobs(batch, mask), mask, level)
        return importance_weights(gaps, c.importance_bound, c.importance_beyond)

    @property
    def _importance_level(self) -> Any:
        """Level of the importance weights: a token, a text, a trajectory, or "none"."""
        c = self.options.objective
        if c.importance != "auto":
            return c.importance
        if not (self.stale or self.policy.rollout_copy_differs):  # the sampler computed what the trainer computes
            return "none"
        return "sequence" if c.ratio == "sequence_mean" else c.ratio  # a geometric mean is no importance ratio

    def read(self, samples: Sequence[Sample], compute: Callable[[list[Sample]], Sequence[T]]) -> dict[int, T]:
        """What `compute` makes of each sample, by its number; without gradient, in batches that fit into memory."""
        values: dict[int, T] = {}

        def read_all(size: int) -> None:
            with torch.no_grad():
                for batch in in_forward_passes(samples, size):
                    values.update(zip([s.number for s in batch], compute(batch), strict=True))

        self.micro_batch.run(read_all, values.clear)
        return values

    def _logprobs_of(self, batch: list[Sample]) -> Sequence[torch.Tensor]:
        """Log-probabilities of the tokens of each text."""
        logprobs, mask = self.policy.token_logprobs(texts_of(batch), self.temperature)
        return by_text(logprobs, mask)

    def _rise(self, samples: list[Sample]) -> float:
        """Mean of log pi_old / pi over the tokens of the texts that the step read."""
        now = self.read([s for s in samples if s.number in self._old], self._logprobs_of)
        before, after = (torch.cat([logprobs[number] for number in now]) for logprobs in (self._old, now))
        return (before - after).mean().item()

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
