# pyright: basic
"""MADPO: direct preference optimisation of a team, by pairs of joint texts (DPO: arXiv:2305.18290, equation 7).

Of a task's joint trajectories, w is preferred to l. With the log-ratio of agent i's texts to its reference,

    delta_i = log pi_i(w) / ref_i(w) - log pi_i(l) / ref_i(l)                                                 (delta)

the loss of a pair is that of DPO on the joint policy, which is the product of the agents' own:

    L = - log sigmoid(beta sum_i delta_i)                                                                      (loss)

Agent i descends its own part of the gradient, with the others' delta held as they are:

    dL / d theta_i = - beta sigmoid(- beta sum_j delta_j)  d delta_i / d theta_i                            (gradient)

So a text is worth plus or minus beta sigmoid(- beta sum delta), which all texts of its trajectory share: credit like
any other, that an updater turns into a step. With one agent this is DPO. A trajectory of several turns counts as the
sum over its texts. What an agent was told differs between the two where the other one spoke before; each text keeps the
prompt that it was said after.

Pairs come from what the team just said, by joint reward (iterated), or from a file, traces or a run (offline).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field

from ..agents.base import Sampling, Team
from ..config import Count, NotNegative
from ..rollout import Preferences, Rollout, Trajectories
from ..rollout.preferences import Choice, pairs_by_return
from ..seeding import derive
from ..types import Completion, Episode, Group
from .advantages import Array
from .base import Metrics, Prompting
from .batches import in_forward_passes
from .diagnostics import spent
from .options import UpdaterOptions
from .samples import Sample, refuse_bad_rewards
from .updater import Updater, step_all, updaters_of


class MADPOConfig(UpdaterOptions):
    """Options of MADPO: which pairs are learnt from, and those of `UpdaterOptions` that it has."""

    beta: Annotated[float, Field(gt=0)] = 0.1
    """How strongly a preference holds against the reference: beta of the loss. Small values move the policy far."""
    pairs: Choice = "extremes"
    """Of a task's episodes: the best against the worst, every better against every worse one, or one pair at random."""
    margin: NotNegative = 0.0
    """By how much the return of the preferred one has to be higher, in units of the return."""
    source: str = ""
    """Pairs to learn from, or recorded episodes to be paired by their return: a file of pairs or of traces, or the
    folder of a run, see `rollout.Preferences`. Left out: the team's own episodes."""
    replay: Count = 0
    """Updates whose pairs are learnt from again beside those of the present one."""
    ratio: Literal["sequence"] = "sequence"  # pyright: ignore[reportIncompatibleVariableOverride]
    """A text is one term."""
    importance: Literal["none"] = "none"  # pyright: ignore[reportIncompatibleVariableOverride]
    """A preference holds whoever drew the texts."""
    epochs: Literal[1] = 1  # pyright: ignore[reportIncompatibleVariableOverride]
    """What a text is worth changes with every step; learn from pairs again with `replay`."""
    minibatches: Literal[1] = 1  # pyright: ignore[reportIncompatibleVariableOverride]
    """The same."""

    @property
    def least_group_size(self) -> int:
        """Episodes per task: two make a pair."""
        return 2


class Text(NamedTuple):
    """What an agent said in a pair; `sign` is 1 in the preferred trajectory and -1 in the other one."""

    agent: str
    completion: Completion
    sign: int


class PairUpdater(Updater):
    """Moves weights by sum log pi of texts, each times what it is worth; knows the log-ratios to the reference."""

    def scores(self, samples: Sequence[Sample]) -> torch.Tensor:
        """log pi of every text [N], with gradient: what moves."""
        logprobs, mask = self.policy.token_logprobs([(s.agent, s.completion) for s in samples], self.temperature)
        return (logprobs * mask).sum(-1)

    def preferences(self, samples: Sequence[Sample]) -> torch.Tensor:
        """log pi / ref of every text [N]: what a pair is told apart by."""
        assert self.reference is not None  # beta is above 0
        texts = [(s.agent, s.completion) for s in samples]
        logprobs, mask = self.policy.token_logprobs(texts, self.temperature)
        fixed, _ = self.reference.token_logprobs(texts, self.temperature)
        return ((logprobs - fixed) * mask).sum(-1)

    def log_ratios(self, samples: Sequence[Sample]) -> dict[int, float]:
        """`preferences` for every text of this policy's agents, by the number of the sample."""
        ratios: dict[int, float] = {}
        own = [replace(s, number=place) for place, s in enumerate(samples) if s.agent in self.agents]

        def read(size: int) -> None:
            with torch.no_grad():
                for batch in in_forward_passes(own, size):
                    told = self.preferences(batch).tolist()
                    ratios.update(zip([s.number for s in batch], told, strict=True))

        self.micro_batch.run(read, ratios.clear)
        return ratios

    def loss(self, batch: list[Sample]) -> tuple[torch.Tensor, Metrics]:
        """Minus the sum of the score of each text, by what it is worth and its weight."""
        scores = self.scores(batch)
        worth = torch.tensor([s.advantage * s.weight for s in batch], device=scores.device)
        loss = -(worth * scores).sum()
        return loss, {"clipped": 0.0, "loss": loss.item()}


class MADPO(Prompting):
    """Trains every trainable member of a team on pairs of joint texts, one preferred to the other.

    Args:
        team: Who learns; as it is now it is also the reference, or the base below its adapters.
        sampling: How the team speaks; its temperature is part of the policy that is trained.
        config: Options.
    """

    protocol = "parallel"
    Config: ClassVar[type[MADPOConfig]] = MADPOConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    updater: ClassVar[type[PairUpdater]] = PairUpdater

    def __init__(self, team: Team, sampling: Sampling, config: MADPOConfig | None = None) -> None:
        super().__init__(team, sampling)
        self.config = config or self.Config()
        self.updaters = updaters_of(team, sampling.temperature, self.config, self.updater)
        c = self.config
        self.rollout: Rollout = Preferences(c.source, c.pairs, c.margin) if c.source else Trajectories()
        self._rounds: list[list[list[Text]]] = []  # pairs of the last updates, the oldest first

    # --- pairs --------------------------------------------------------------------------------------------------------

    def pairs(self, groups: Sequence[Group]) -> list[list[Text]]:
        """The texts of every pair that can be learnt from."""
        refuse_bad_rewards(groups, decisions=False)
        learning = {agent for updater in self.updaters for agent in updater.agents}
        return [
            [text for text in _texts(chosen, rejected) if text.agent in learning and text.completion.token_ids]
            for group in groups
            for chosen, rejected in self.preferred(group)
        ]

    def preferred(self, group: Group) -> list[tuple[Episode, Episode]]:
        """The pairs of a task: each the preferred episode and the rejected one."""
        episodes = group.episodes
        if self.config.source:
            return list(zip(episodes[::2], episodes[1::2], strict=True))
        totals = [episode.total for episode in episodes]
        places = pairs_by_return(totals, self.config.pairs, self.config.margin, episodes[0].seed)
        return [(episodes[a], episodes[b]) for a, b in places]

    def objective(self, gaps: Array) -> tuple[Array, Array]:
        """What is descended: for the gaps of all pairs their losses, and minus the derivatives by the gap."""
        scaled = self.config.beta * gaps
        return np.logaddexp(0, -scaled), self.config.beta / (1 + np.exp(scaled))  # (loss), (gradient)

    # --- one update ---------------------------------------------------------------------------------------------------

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Give credit to the texts of all pairs, and let every policy step on its own.

        Returns:
            What `Updater.step` returns; `preference_loss`, the mean of (loss); `preferred`, the share of the pairs
            that the team prefers as told more than its reference does; `gap`, the mean of sum_i delta_i in nats;
            `pairs`, their number; and `generations` and `joint_rewards`.
        """
        self._rounds = [*self._rounds, self.pairs(groups)][-1 - self.config.replay :]
        pairs = [pair for own in self._rounds for pair in own]
        samples, gaps = _samples(pairs), self.gaps(pairs)
        losses, worth = self.objective(gaps)
        terms = {agent: sum(s.agent == agent for s in samples) for agent in {s.agent for s in samples}}
        credited = [  # a mean over pairs, where an updater takes one over texts
            replace(s, advantage=s.advantage * float(worth[s.trajectory]) * terms[s.agent] / len(pairs))
            for s in samples
        ]
        seed = derive(next((e.seed for group in groups for e in group.episodes), 0), "pairs")
        metrics = step_all(self.updaters, credited, seed)
        del metrics["kl"]  # beta is no weight of such a term here
        return {
            **metrics,
            **spent(groups),
            "preference_loss": float(losses.mean()) if pairs else 0.0,
            "preferred": float((gaps > 0).mean()) if pairs else 0.0,
            "gap": float(gaps.mean()) if pairs else 0.0,
            "pairs": float(len(pairs)),
        }

    def gaps(self, pairs: Sequence[Sequence[Text]]) -> Array:
        """sum_i delta_i of every pair, in nats: above 0 where the preferred one is told right."""
        samples, gaps = _samples(pairs), np.zeros(len(pairs))
        for updater in self.updaters:  # of pairs, or speaking for such in a worker
            for place, ratio in updater.log_ratios(samples).items():
                gaps[samples[place].trajectory] += samples[place].advantage * ratio  # (delta)
        return gaps

    # --- restarts -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The states of the updaters, and the pairs that are learnt from again."""
        rounds = [[[_plain(text) for text in pair] for pair in own] for own in self._rounds[-self.config.replay :]]
        return {**super().state_dict(), "rounds": rounds if self.config.replay else []}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        super().load_state_dict(state)
        self._rounds = [[[_text(*plain) for plain in pair] for pair in own] for own in state["rounds"]]


def _texts(chosen: Episode, rejected: Episode) -> Iterator[Text]:
    for episode, sign in ((chosen, 1), (rejected, -1)):
        for turn in episode.turns:
            for agent, completion in turn.actions.items():
                yield Text(agent, replace(completion, logprobs=(0.0,) * len(completion.token_ids)), sign)


def _samples(pairs: Sequence[Sequence[Text]]) -> list[Sample]:
    """Every text with its sign as advantage, and the number of its pair."""
    return [
        Sample(text.agent, text.completion, float(text.sign), trajectory=number)
        for number, pair in enumerate(pairs)
        for text in pair
    ]


def _plain(text: Text) -> list[Any]:
    done = text.completion
    return [text.agent, text.sign, done.text, list(done.prompt_ids), list(done.token_ids), done.truncated]


def _text(agent: str, sign: int, said: str, prompt: Sequence[int], ids: Sequence[int], truncated: bool) -> Text:
    logprobs = (0.0,) * len(ids)
    return Text(agent, Completion(said, tuple(prompt), tuple(ids), logprobs, truncated=truncated), sign)
