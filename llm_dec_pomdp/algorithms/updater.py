# pyright: basic
"""Updates of the weights of one policy: from samples with advantages to optimizer steps.

The learner gives each completion a, after a history h, an advantage A. For each of its agents, the policy ascends

    J = mean of w min(rho A, clip(rho, 1 - eps, 1 + eps) A),  rho = pi(a | h) / pi_old(a | h)               (objective)
        - beta KL(pi || pi_ref) + entropy bonus.                                                                  (KL)

pi_old is the policy at the beginning of a step. Its log-probabilities are those of the first forward pass. Those of the
sampler may differ: in 16 bits, rounding depends on the shape of the batch, and another engine has other kernels. The
importance weight w corrects for this, see `Objective.importance`. All log-probabilities are at the sampling
temperature. Every sampled token counts, including the end-of-turn token; padding does not. Samples with advantage 0
count in the mean but skip the forward pass, since their gradient is 0.

Read `Updater.step`, `gradient` and `loss` in this order. Then `term_ratio` has rho and w, `losses` the equations, and
`batches` the tensors.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch

from ..agents.base import ParameterGroup, Policy, Sampling, Team, run_parallel
from ..agents.oom import BatchSize
from ..seeding import derive
from .base import Metrics
from .batches import advantages_of, in_minibatches, micro_batches, old_logprobs, set_weights, texts_of, unpad
from .checks import check_policy, check_samples, check_team
from .losses import Loss, count_clipped, kl_k3, log_ratio
from .options import UpdaterOptions, check_warmup
from .samples import Sample, usable
from .schedules import factor
from .term_ratio import TermRatio
from .trajectory_ratio import TrajectoryRatio

T = TypeVar("T")
KL_CHECK_UPDATES = 10  # first updates, after which the KL divergence to the old policy is estimated

# --- all policies of a team -------------------------------------------------------------------------------------------


def updaters_of(
    team: Team,
    temperature: float,
    options: UpdaterOptions,
    kind: type[Updater] | None = None,
    others: type[Updater] | None = None,
) -> list[Updater]:
    """Make one updater for each trainable policy of a team, in agent order, in the process of its policy.

    Args:
        team: The team.
        temperature, options: See `Updater`. The sampling options of single agents may set another temperature.
        kind: Class of the updaters; `Updater` when left out.
        others: Class of all updaters but the first; the same when left out.

    Raises:
        ValueError: No policy can be trained, two policies share a network, or agents of one policy have different
            temperatures; or see `Updater`.
    """
    check_team(team)
    run = Sampling(temperature=temperature)
    updaters: list[Updater] = []
    for policy in team.trainable:
        agents = [agent for agent, member in team.members.items() if member is policy]
        temperatures = {agent: team.sampling_of(agent, run).temperature for agent in agents}
        if len(set(temperatures.values())) > 1:
            raise ValueError(
                f"the temperatures {temperatures} differ between agents of one policy, which is trained at one "
                "temperature; give these agents one temperature, or a policy each ([[members]] of a team's file)"
            )
        build = (others if updaters else kind) or kind or Updater
        groups = parameter_groups(team, policy, options.learning_rate)
        updaters.append(policy.updater(build, groups, temperatures[agents[0]], options))
    return updaters


def step_updaters(updaters: Sequence[Updater], samples: Sequence[Sample], seed: int) -> Metrics:
    """Run a step of every updater on the samples of its agents, at the same time on different devices.

    Returns:
        Each metric of `Updater.step`, as the mean over the updaters that report it.
    """
    tasks = [partial(updater.step, samples, seed) for updater in updaters]
    results = run_parallel([updater.policy for updater in updaters], tasks)
    by_name = {name: [result[name] for result in results if name in result] for result in results for name in result}
    return {name: sum(values) / len(values) for name, values in by_name.items()}


def parameter_groups(team: Team, policy: Policy, learning_rate: float | None = None) -> list[ParameterGroup]:
    """Return the parameters of a policy by the agents that use them: a group for each adapter, else one for all.

    Parameters that no agent of the team uses are in no group.

    Args:
        team: The team.
        policy: One of its policies.
        learning_rate: For agents without one in `Team.learning_rates`; left out, the policy's default.

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
                f"the learning rates {rates} differ between agents that share weights; give these agents one learning "
                "rate, or an adapter each"
            )
        parameters = [parameter for parameter in everything if users[id(parameter)] == agents]
        groups.append(ParameterGroup(agents, parameters, rates[agents[0]]))
    return groups


# --- one policy -------------------------------------------------------------------------------------------------------


class Updater:
    """Updates the weights of one policy.

    It has three extension points. `term_ratio` computes rho and w. `extra_loss` is minimised in the same optimizer
    steps, such as the loss of a critic. `loss` is the policy loss; a learner without rho, such as MADPO, overrides it.

    Args:
        policy: The policy. With beta above 0 its current weights are also the reference, see `reset_optimizer`.
        groups: Its parameters by the agents that use them, with their learning rates (`parameter_groups`).
        temperature: Sampling temperature of its completions; it is part of the policy that is trained.
        options: Objective and optimizer.

    Attributes:
        agents: The agents that this policy plays; it is trained on their samples.
        updates: Steps so far.
        horizon: Steps after which a falling learning rate is 0; 0 until that is known.
        term_ratio: Ratio and importance weight of a term.
        extra_targets: Targets of `extra_loss` in the current step, in minibatches; empty by default.

    Raises:
        ValueError: The weights are float16, or there is an entropy bonus and the policy cannot compute its entropy.
    """

    def __init__(
        self, policy: Policy, groups: Sequence[ParameterGroup], temperature: float, options: UpdaterOptions
    ) -> None:
        check_policy(policy, options)
        self.policy, self.groups, self.temperature, self.options = policy, groups, temperature, options
        self.agents = {agent for group in groups for agent in group.agents}
        self.updates = 0
        self.horizon = options.horizon
        self.stale = False  # samples may come from older weights
        self.rate_factor = 1.0  # see scale_learning_rate
        self.micro_batch = BatchSize("micro_batch", options.micro_batch)
        self.reference: Any = None
        self.term_ratio = (TrajectoryRatio if str(options.objective.ratio) == "trajectory" else TermRatio)(self)
        self.extra_targets: Sequence[Sequence[Sample]] = ()
        self.reset_optimizer()
        self._old: dict[int, torch.Tensor] = {}  # log pi_old of the completions that a step has read, by `Sample.index`

    @property
    def logprobs(self) -> dict[int, list[float]]:
        """log pi_old of every completion that the last step has read, by its index among the samples."""
        return {index: logprobs.tolist() for index, logprobs in self._old.items()}

    def reset_optimizer(self) -> None:
        """Make a new optimizer for the current policy; with beta above 0, copy the policy as pi_ref.

        Called when the updater is made, and again when its learner takes over a team that another learner has trained
        (`algorithms.staged`).
        """
        self.optimizer = torch.optim.AdamW(
            [{"params": g.parameters, "lr": g.learning_rate, "full_lr": g.learning_rate} for g in self.groups],
            weight_decay=self.options.weight_decay,
            fused=True,
        )
        self.reference = copy.deepcopy(self.policy) if self.options.beta else None

    def learning_rates(self) -> dict[str, float]:
        """Return the learning rate of each agent's policy, before the schedule; after a restart, the saved one."""
        rates: dict[str, float] = {}
        for group, settings in zip(self.groups, self.optimizer.param_groups, strict=True):
            for agent in group.agents:  # parameters of a critic come after the policy's
                rates.setdefault(agent, settings["full_lr"] * self.rate_factor)
        return rates

    def scale_learning_rate(self, factor: float) -> None:
        """Multiply the learning rates, as they were configured, by a factor; see `Algorithm.scale_learning_rates`."""
        self.rate_factor = factor

    def expect(self, updates: int, stale: bool = False) -> None:
        """Set the number of steps of the run, and whether samples come from older weights than the current ones.

        A falling learning rate reaches 0 with the last step, unless horizon is set.

        Raises:
            ValueError: The warmup takes all steps, or samples from older weights would not be corrected.
        """
        if stale and self.options.objective.importance == "none":
            raise ValueError(
                "importance is 'none', but with staleness above 0 completions are sampled with older weights; set "
                "importance to 'auto' if the learner has it, or set staleness to 0"
            )
        self.stale = stale
        self.horizon = self.options.horizon or updates
        check_warmup(self.options, updates)

    # --- one step, in order: step, gradient, loss, optimizer_step -----------------------------------------------------

    def step(self, samples: Sequence[Sample], seed: int = 0) -> Metrics:
        """Run all epochs and minibatches over the samples of this policy's agents.

        If a loss, gradient or ratio is not finite, the optimizer does not step, and the remaining minibatches and
        epochs are skipped. Earlier optimizer steps are kept.

        Args:
            samples: Samples of other agents, without tokens, or with advantage NaN (not scored) are ignored.
            seed: Determines the order of the minibatches, together with the number of the step.

        Returns:
            `loss`, `grad_norm`, `skipped` (1 when nothing contributed a gradient or a gradient was not finite),
            `clipped` (share of the ratios outside the clip range) and `tokens`; per token, `kl` where beta is above 0
            and `entropy` where there is an entropy bonus; in the first updates `kl_estimate`, KL(pi_old || pi) after
            the step in nats per token, estimated from these completions.

        Raises:
            ValueError: A completion lacks log-probabilities, or the temperature is 0.
        """
        c = self.options
        texts = usable([replace(s, index=place) for place, s in enumerate(samples) if s.agent in self.agents])
        check_samples(texts, self.temperature)
        texts = [s for s in texts if not (c.truncated == "mask" and s.completion.truncated)]
        if c.schedule != "constant" and not self.horizon:
            raise ValueError(
                f"schedule is {c.schedule!r}, but the number of updates is not known; train with training.train, "
                "call expect(updates), or set horizon"
            )
        self.policy.offload()
        self.updates += 1
        for group in self.optimizer.param_groups:
            group["lr"] = group["full_lr"] * self.rate_factor * factor(self.updates, c.schedule, c.warmup, self.horizon)

        tokens = float(sum(len(s.completion.token_ids) for s in texts))
        metrics = {"loss": 0.0, "grad_norm": 0.0, "skipped": 1.0, "clipped": 0.0, "tokens": tokens}
        metrics |= {name: 0.0 for name, used in (("kl", c.beta), ("entropy", c.entropy)) if used}
        contributing = self.contributing(texts)
        self._old = self.read(contributing, self._logprobs_of) if self.term_ratio.precompute_old_logprobs else {}
        order = derive(seed, "minibatches", self.updates)
        for epoch in range(c.epochs):
            results: list[Metrics] = []
            minibatches = in_minibatches(texts, c.minibatches, derive(order, epoch))
            for part, targets in itertools.zip_longest(minibatches, self.extra_targets, fillvalue=()):
                batch = self.contributing(set_weights(part, c))
                if not (batch or targets):  # momentum would still change the weights
                    continue
                self.term_ratio.prepare(contributing, self._old)
                result, read = self.micro_batch.run(partial(self.gradient, batch, targets))
                self._old = {**read, **self._old}
                if not self.optimizer_step(result, {s.agent for s in (*batch, *targets)}):
                    return metrics | result
                results.append(result)
            if results:
                names = results[0]  # a later minibatch without completions has no KL and entropy
                metrics |= {name: sum(result.get(name, 0.0) for result in results) / len(results) for name in names}
                metrics["skipped"] = 0.0
        if self.updates <= KL_CHECK_UPDATES and self._old and not metrics["skipped"]:
            after = self.read([s for s in texts if s.index in self._old], self._logprobs_of)
            rise = torch.cat([self._old[index] for index in after]) - torch.cat(list(after.values()))
            metrics["kl_estimate"] = rise.mean().item()
        return metrics

    def contributing(self, samples: list[Sample]) -> list[Sample]:
        """Return the samples with a gradient: all with a KL term or an entropy bonus, else those with an advantage."""
        return samples if self.options.beta or self.options.entropy else [s for s in samples if s.advantage]

    def gradient(
        self, samples: Sequence[Sample], targets: Sequence[Sample], size: int
    ) -> tuple[Metrics, dict[int, torch.Tensor]]:
        """Compute the gradient of an optimizer step, `size` completions at a time.

        Returns:
            The terms of the loss over all completions and targets; and log pi of the tokens of each completion, by
            `Sample.index`.
        """
        tokens = sum(len(s.completion.token_ids) for s in samples)
        counts = {"loss": 1, "clipped": tokens if self.options.objective.ratio == "token" else len(samples)}
        terms: Metrics = {"loss": 0.0, "clipped": 0.0}
        read: dict[int, torch.Tensor] = {}
        self.optimizer.zero_grad()
        for batch in micro_batches(samples, size):
            loss = self.loss(batch, self._old)
            loss.value.backward()
            read.update(zip([s.index for s in batch], loss.logprobs, strict=False))
            for name, value in loss.terms.items():
                terms[name] = terms.get(name, 0.0) + value / counts.get(name, tokens)
        return terms | self.extra_loss(targets, size), read

    def loss(self, batch: list[Sample], old: Mapping[int, torch.Tensor]) -> Loss:
        """Compute the loss of a batch.

        Args:
            batch: N completions, each with its `loss_weight`.
            old: log pi_old of the tokens of completions, by `Sample.index`; for other completions pi_old is the current
                policy.
        """
        c, entropies = self.options, None
        if c.entropy:
            logprobs, entropies, mask = self.policy.token_logprobs_and_entropies(texts_of(batch), self.temperature)
        else:
            logprobs, mask = self.policy.token_logprobs(texts_of(batch), self.temperature)
        before = old_logprobs(batch, logprobs, mask, old)
        log_rho, counted, importance = self.term_ratio(batch, logprobs, before, mask)
        weights = torch.tensor([s.loss_weight for s in batch], device=logprobs.device)
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
        return Loss(loss, terms | {"loss": loss.item()}, unpad(logprobs, mask))

    def extra_loss(self, targets: Sequence[Sample], size: int) -> Metrics:
        """Backpropagate an additional loss, such as a critic's, in chunks of `size`; the default does nothing.

        Args:
            targets: A minibatch of `extra_targets`.
            size: Targets per backward pass. If memory runs out, the caller halves it and tries again.

        Returns:
            Metrics of this loss.
        """
        return {}

    def optimizer_step(self, result: Metrics, agents: set[str]) -> bool:
        """Clip the gradient of each parameter group, and step unless a number is not finite.

        Args:
            result: Terms of the loss, to which the norm of the gradient before clipping is added as `grad_norm`.
            agents: Agents with samples. The parameters of other agents have no gradient, so that momentum does not
                change them.

        Returns:
            Whether the optimizer stepped.
        """
        norms: list[float] = []
        for group in self.groups:
            if agents.isdisjoint(group.agents):
                for parameter in group.parameters:
                    parameter.grad = None
            else:
                norm: Any = torch.nn.utils.clip_grad_norm_(group.parameters, self.options.max_grad_norm)
                norms.append(float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm))  # a DTensor
        result["grad_norm"] = math.hypot(*norms)
        finite = all(map(math.isfinite, result.values()))
        if finite:
            self.optimizer.step()
        else:
            self.optimizer.zero_grad()
        return finite

    # --- log-probabilities --------------------------------------------------------------------------------------------

    def read(self, samples: Sequence[Sample], compute: Callable[[list[Sample]], Sequence[T]]) -> dict[int, T]:
        """Apply `compute` to batches of samples without gradient; return its results by `Sample.index`."""
        values: dict[int, T] = {}

        def read_all(size: int) -> None:
            with torch.no_grad():
                for batch in micro_batches(samples, size):
                    values.update(zip([s.index for s in batch], compute(batch), strict=True))

        self.micro_batch.run(read_all, values.clear)
        return values

    def _logprobs_of(self, batch: list[Sample]) -> Sequence[torch.Tensor]:
        logprobs, mask = self.policy.token_logprobs(texts_of(batch), self.temperature)
        return unpad(logprobs, mask)

    # --- restarts -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer, the number of steps, the micro-batch size, and the reference."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "updates": self.updates,
            "micro_batch": self.micro_batch.size,
            "reference": {} if self.reference is None else self.reference.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates = state["updates"]
        self.micro_batch.size = state["micro_batch"]
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])
