# pyright: basic
"""MADPO: direct preference optimisation of a team on pairs of joint trajectories (DPO: arXiv:2305.18290, equation 7).

In a pair of joint trajectories of a task, w is preferred to l. With the log-ratios of agent i to its reference,

    delta_i = log pi_i(w) / ref_i(w) - log pi_i(l) / ref_i(l)                                                 (delta)

the loss of a pair is the DPO loss of the joint policy, which is the product of the agents' policies:

    L = - log sigmoid(beta sum_i delta_i)                                                                      (loss)

Agent i descends its own part of the gradient, with the delta of its teammates held fixed:

    dL / d theta_i = - beta sigmoid(- beta sum_j delta_j)  d delta_i / d theta_i                            (gradient)

So the advantage of every text is plus or minus beta sigmoid(- beta sum delta), and an updater uses it like any other
advantage. With one agent this is DPO. A trajectory of several turns counts as the sum over its texts. The two
trajectories may have different observations; each text keeps its own prompt.

Pairs come from the team's own episodes, by return (iterated), or from a file, traces or a run (offline). With
individual rewards, each agent has pairs of its own texts, by its own return; recorded pairs are refused.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field

from ..agents.base import Sampling, Team
from ..config import Count, Kinds, NotNegative, Single
from ..rollout import Preferences, Rollout, Trajectories
from ..rollout.preferences import Choice, pairs_by_return
from ..seeding import derive
from ..types import Completion, Episode, Group
from .advantages import Array
from .base import Metrics
from .controls import shuffle_labels, shuffle_rewards
from .diagnostics import spent
from .learner import PolicyLearner, first_seed
from .losses import Loss
from .objectives import Objective, OfPairs
from .options import UpdaterOptions
from .samples import Sample, check_rewards
from .updater import Updater, step_updaters

if TYPE_CHECKING:
    from ..envs.base import TextDecPOMDP


class MADPOConfig(UpdaterOptions):
    """Options of MADPO: the source of pairs, and the options of `UpdaterOptions` that apply."""

    beta: Annotated[float, Field(gt=0)] = 0.1
    """Strength of the pull towards the reference (beta of the loss). Small values change the policy more."""
    pairs: Choice = "extremes"
    """Pairs of a task's episodes: the best and the worst (extremes), every better with every worse one (all), or one
    pair at random (random)."""
    margin: NotNegative = 0.0
    """Smallest difference of the returns of a pair."""
    source: str = ""
    """Recorded pairs, or recorded episodes that are paired by return: a file of pairs or traces, or the folder of a run
    (`rollout.Preferences`); by default the team's own episodes."""
    loss: Literal["dpo", "ipo"] = "dpo"
    """Loss of a pair with gap g: - log sigmoid(beta g) (dpo), or (g - 1 / (2 beta))^2, which is minimal at a finite gap
    (ipo; arXiv:2310.12036, equation 17)."""
    likelihood: NotNegative = 0.0
    """Weight of a term that keeps preferred texts likely: the mean of - log pi over the tokens of each (RPO,
    arXiv:2404.19733)."""
    refresh: Count = 0
    """Interval, in updates, at which the current team replaces the reference; 0 means never."""
    replay: Count = 0
    """Number of earlier updates whose pairs are used again in each update."""
    objective: Objective = OfPairs()
    kinds: ClassVar[Kinds] = {"objective": {"clipped": OfPairs}}
    epochs: Single = 1
    """Fixed: the advantage of a text changes with every step; use pairs again with `replay`."""
    minibatches: Single = 1
    """Fixed, as `epochs`."""
    truncated: Literal["learn", "mask"] = "learn"
    """Treatment of pairs with a completion that the token limit ended: learn trains on them; mask leaves them out."""
    least_group_size: ClassVar[int] = 2


class Text(NamedTuple):
    """A text of a pair; `sign` is 1 in the preferred trajectory and -1 in the rejected one."""

    agent: str
    completion: Completion
    sign: int


class PairUpdater(Updater):
    """Updater that maximises the sum of log pi times advantage, and computes the log-ratios to the reference."""

    options: MADPOConfig

    def step(self, samples: Sequence[Sample], seed: int = 0) -> Metrics:
        """See `Updater`; every `refresh` updates the policy becomes the reference."""
        metrics = super().step(samples, seed)
        if self.options.refresh and self.updates % self.options.refresh == 0:
            self.reference = copy.deepcopy(self.policy)
        return metrics

    def scores(self, samples: Sequence[Sample]) -> torch.Tensor:
        """Return the summed log pi of every text [N], differentiable; `loss` multiplies it by the advantage."""
        logprobs, mask = self.policy.token_logprobs([(s.agent, s.completion) for s in samples], self.temperature)
        return (logprobs * mask).sum(-1)

    def preferences(self, samples: Sequence[Sample]) -> torch.Tensor:
        """Return log (pi / ref) of every text [N]; the gap of a pair is a sum of these."""
        assert self.reference is not None  # beta is above 0
        texts = [(s.agent, s.completion) for s in samples]
        logprobs, mask = self.policy.token_logprobs(texts, self.temperature)
        fixed, _ = self.reference.token_logprobs(texts, self.temperature)
        return ((logprobs - fixed) * mask).sum(-1)

    def log_ratios(self, samples: Sequence[Sample]) -> dict[int, float]:
        """Return `preferences` of every text of this policy's agents, by its index among the samples."""
        numbered = [replace(s, index=place) for place, s in enumerate(samples) if s.agent in self.agents]
        return self.read(numbered, lambda batch: self.preferences(batch).tolist())

    def loss(self, batch: list[Sample], old: Mapping[int, torch.Tensor]) -> Loss:
        """Compute minus the sum of the scores, each times its advantage and its weight."""
        scores = self.scores(batch)
        worth = torch.tensor([s.advantage * s.loss_weight for s in batch], device=scores.device)
        loss = -(worth * scores).sum()
        return Loss(loss, {"clipped": 0.0, "loss": loss.item()})


class MADPO(PolicyLearner):
    """Direct preference optimisation: trains each policy of a team on pairs of joint actions, one preferred."""

    Config = MADPOConfig
    config: MADPOConfig
    updater = PairUpdater

    def __init__(self, team: Team, sampling: Sampling, config: MADPOConfig | None = None) -> None:
        super().__init__(team, sampling, config)
        c = self.config
        self._played = Preferences(c.source, c.pairs, c.margin) if c.source else Trajectories()
        self._rounds: list[list[list[Text]]] = []  # pairs of the last updates, the oldest first

    @property
    def rollout(self) -> Rollout:
        """The rollout: recorded pairs, or the team's own episodes."""
        return self._played

    # --- pairs --------------------------------------------------------------------------------------------------------

    def pairs(self, groups: Sequence[Group]) -> list[list[Text]]:
        """Return the texts of every pair to train on; with truncated="mask", of pairs without a truncated text."""
        check_rewards(groups)
        pairs = [
            [text for text in _texts(chosen, rejected) if text.agent in agents and text.completion.token_ids]
            for group in groups
            for chosen, rejected, agents in self.preferred(group)
        ]
        if self.config.source and pairs and not any(pairs):
            raise ValueError(
                f"no policy of the team can be trained on the texts in {self.config.source}, such as those outside of "
                "the menu of a table; give at least one agent a language model"
            )
        masked = self.config.truncated == "mask"
        return [pair for pair in pairs if not (masked and any(text.completion.truncated for text in pair))]

    def shuffle_rewards(self, groups: Sequence[Group]) -> list[Group]:
        """Return groups with shuffled rewards, or recorded pairs with the preferred one chosen at random."""
        return shuffle_labels(groups) if self.config.source else shuffle_rewards(groups, "group")

    @classmethod
    def incompatibility(cls, config: MADPOConfig, env: TextDecPOMDP) -> str:
        """See `Algorithm`; recorded pairs need a joint reward."""
        known = super().incompatibility(config, env)
        if known or not config.source or env.facts.joint_reward:
            return known
        return (
            f"source is {config.source!r}, whose pairs are ordered by the team's return, but {env.metadata['name']} "
            "has individual rewards; leave source out, so that each agent has pairs by its own return"
        )

    def preferred(self, group: Group) -> Iterator[tuple[Episode, Episode, Collection[str]]]:
        """Yield the pairs of a task: preferred episode, rejected episode, and the agents to train on them."""
        episodes = group.episodes
        if self.config.source:
            yield from ((a, b, self.learning) for a, b in zip(episodes[::2], episodes[1::2], strict=True))
            return
        learning = sorted(self.learning - {group.partner})
        by_agent = {(agent,): [sum(e.rewards_of(agent)) for e in episodes] for agent in learning}
        individual = any(episode.individual for episode in episodes)
        totals = by_agent if individual else {tuple(self.learning): [episode.total for episode in episodes]}
        for agents, earned in totals.items():
            for a, b in pairs_by_return(earned, self.config.pairs, self.config.margin, episodes[0].seed):
                yield episodes[a], episodes[b], agents

    def objective(self, gaps: Array) -> tuple[Array, Array]:
        """Return the losses of pairs with these gaps [N], and minus their derivatives by the gap [N]."""
        scaled = self.config.beta * gaps
        if self.config.loss == "ipo":
            short = 1 / (2 * self.config.beta) - gaps
            return short**2, 2 * short
        return np.logaddexp(0, -scaled), self.config.beta / (1 + np.exp(scaled))  # (loss), (gradient)

    # --- one update ---------------------------------------------------------------------------------------------------

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Compute the advantages of the texts of all pairs, and run a step of every policy on its own texts.

        Returns:
            The metrics of `Updater.step`; `preference_loss`, the mean of (loss); `preferred`, the share of the pairs
            whose gap is above 0; `gap`, the mean of sum_i delta_i in nats; `pairs`, their number; and `generations`
            and `joint_rewards`.
        """
        self._rounds = [*self._rounds, self.pairs(groups)][-1 - self.config.replay :]
        pairs = [pair for earlier in self._rounds for pair in earlier]
        samples, gaps = _samples(pairs), self.gaps(pairs)
        losses, worth = self.objective(gaps)
        terms = {agent: sum(s.agent == agent for s in samples) for agent in {s.agent for s in samples}}
        credited: list[Sample] = []
        for s in samples:  # minus the derivative of the pair's loss by log pi of the text; its advantage is its sign
            kept = self.config.likelihood / len(s.completion.token_ids) if s.advantage > 0 else 0.0
            slope = s.advantage * float(worth[s.trajectory]) + kept
            credited.append(replace(s, advantage=slope * terms[s.agent] / len(pairs)))  # a mean over pairs, not texts
        metrics = step_updaters(self.updaters, credited, derive(first_seed(groups), "pairs"))
        del metrics["kl"]  # 0: beta is not the weight of a KL term here
        return {
            **metrics,
            **spent(groups),
            **({"generations": 0.0} if self.config.source else {}),  # recorded texts are not generated
            "preference_loss": float(losses.mean()) if pairs else 0.0,
            "preferred": float((gaps > 0).mean()) if pairs else 0.0,
            "gap": float(gaps.mean()) if pairs else 0.0,
            "pairs": float(len(pairs)),
        }

    def gaps(self, pairs: Sequence[Sequence[Text]]) -> Array:
        """Return the gap sum_i delta_i of every pair, in nats.

        It is above 0 if the preferred trajectory has become more likely relative to the rejected one.
        """
        samples, gaps = _samples(pairs), np.zeros(len(pairs))
        for updater in self.updaters:
            for place, ratio in updater.log_ratios(samples).items():
                gaps[samples[place].trajectory] += samples[place].advantage * ratio  # (delta)
        return gaps

    # --- restarts -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the updaters, and the pairs that `replay` needs."""
        rounds = [[[_plain(text) for text in pair] for pair in pairs] for pairs in self._rounds[-self.config.replay :]]
        return {**super().state_dict(), "rounds": rounds if self.config.replay else []}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        super().load_state_dict(state)
        self._rounds = [[[_text(plain) for plain in pair] for pair in pairs] for pairs in state["rounds"]]


def _texts(chosen: Episode, rejected: Episode) -> Iterator[Text]:
    for episode, sign in ((chosen, 1), (rejected, -1)):
        for turn in episode.turns:
            for agent, completion in turn.actions.items():
                yield Text(agent, replace(completion, logprobs=(0.0,) * len(completion.token_ids)), sign)


def _samples(pairs: Sequence[Sequence[Text]]) -> list[Sample]:
    """Return every text with its sign as advantage, and the number of its pair."""
    return [
        Sample(text.agent, text.completion, float(text.sign), trajectory=number)
        for number, pair in enumerate(pairs)
        for text in pair
    ]


def _plain(text: Text) -> list[Any]:
    c = text.completion
    return [text.agent, text.sign, c.text, list(c.prompt_ids), list(c.token_ids), c.truncated]


def _text(plain: Sequence[Any]) -> Text:
    agent, sign, text, prompt, ids, truncated = plain
    return Text(agent, Completion(text, tuple(prompt), tuple(ids), (0.0,) * len(ids), truncated=truncated), sign)
