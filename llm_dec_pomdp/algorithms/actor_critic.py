"""Actor-critic learners: a trained critic is the baseline, so that a prompt needs no group of samples.

At a decision x_k an agent acts. The agent or the team receives the reward r_k from there to the next decision, and g_k
is the discount between the two. V is a critic, with V(x_(K+1)) = 0 after the last decision. With GAE over decisions,

    delta_k = r_k + g_k V(x_(k+1)) - V(x_k),     A_k = delta_k + lambda g_k A_(k+1)                        (advantage)
    y_k = A_k + V(x_k)                                                                                       (target)

each policy ascends the clipped objective of `updater` with A_k, and in the same step the critic is trained on y_k
(`critics`).

| learner | x | input of the critic |
|---|---|---|
| iac | the turns in which agent i has to act | the agent's own history h_i; each agent has a critic |
| maac | all turns | the joint history: all observations and actions, by role, in agent order; the team has one critic |

With individual rewards, r_k is the agent's own, and the critic of `maac` has a value for each agent: it reads the joint
history and the name of the agent.

Execution is decentralised: policies never observe the input of the critic of `maac`. Sources: GAE arXiv:1506.02438; IAC
as in COMA arXiv:1705.08926, section 4; a central critic as in MADDPG arXiv:1706.02275; the old-value clip of PPO.

With estimates="q" the critic also reads the completion a_k and estimates Q(x_k, a_k). Targets are as above, with Q for
V. The advantage of a completion is its Q minus the mean Q of other completions that were sampled after the same
history:

    A_k = Q(x_k, a_k) - mean of Q(x_k, a') over the other completions a' at the same x_k                    (compared)

and Q itself if there are none. (The return minus Q would be 0 on average for every completion if Q were exact.)

With critic_level="token" each token of a completion is an action, as in PPO (arXiv:1707.06347) on language models
(arXiv:2203.02155). A completion a_k of L tokens has the prefixes x_(k,l) = (x_k, a_(k,<l)), after which its token l is
sampled, for l = 0, ..., L - 1. There is no reward and no discount inside a text:

    delta_(k,l) = V(x_(k,l+1)) - V(x_(k,l)) for l < L - 1,   r_k + g_k V(x_(k+1,0)) - V(x_(k,l)) for l = L - 1   (error)
    A_(k,l) = delta_(k,l) + lambda g A_next,   g = 1 for l < L - 1, else g_k;   y_(k,l) = A_(k,l) + V(x_(k,l))  (tokens)

Each token is weighted with its own A, and the critic is trained on every y. The critic of `maac` then reads the joint
history, the name of the agent whose completion comes next, and the agent's tokens. So x_k are the turns in which the
agent acts. For completions of one token, `iac` is the same at both levels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..agents.base import Reading, Request, Sampling, Team
from ..types import Completion, Episode, Group, Message, grouped
from .advantages import (
    Array,
    between_decisions,
    generalized_advantages,
    group_advantages,
    over_tokens,
    returns,
)
from .base import Metrics
from .checks import check_importance
from .controls import BaselineScope
from .critics import CentralCriticUpdater, CriticOptions, CriticUpdater, ValueTarget
from .learner import PolicyLearner
from .samples import Sample, check_rewards, usable
from .updater import Updater

_PROBE = "Two agents wrote 3,146 words; the reviewer's answer (naïve, or not?) was #7."  # tokenizers differ on it


@dataclass(slots=True)
class DecisionSequence:
    """The decisions of one agent, or of the team, in one episode.

    The critic estimates a value for each prefix. There is one prefix for each decision: the input of the critic there.
    With `by_token` there is one for each token of a completion: the input and the tokens before this one.

    Attributes:
        group: Index of its group among those of the update.
        episode: The episode.
        turns: The turns of the decisions.
        texts: The completions of each decision, by agent.
        histories: The history before each decision; decisions with equal histories are compared.
        inputs: Input of the critic at each decision: token ids, or a `Request` that is still to be encoded.
        readings: `inputs` as token ids; with `by_token`, followed by the completion without its last token.
        values: The critic's value of each prefix.
        targets: The value y that the critic is trained towards, for each prefix.
        advantages: The advantage A of the completion or token after each prefix.
        agent: The agent whose rewards count; "" for the team's.
        by_token: Whether each token of a completion has a prefix; all completions are of one agent then.
    """

    group: int
    episode: Episode
    turns: list[int]
    texts: list[Mapping[str, Completion]]
    histories: list[Hashable] = field(default_factory=list[Hashable])
    inputs: list[Reading | Request] = field(default_factory=list["Reading | Request"])
    readings: list[Reading] = field(default_factory=list[Reading])
    values: Array = field(default_factory=lambda: np.zeros(0))
    targets: Array = field(default_factory=lambda: np.zeros(0))
    advantages: Array = field(default_factory=lambda: np.zeros(0))
    agent: str = ""
    by_token: bool = False

    @property
    def inside(self) -> list[tuple[int, ...]]:
        """For each decision, the tokens that are followed by a further prefix."""
        return [next(iter(texts.values())).token_ids[:-1] if self.by_token else () for texts in self.texts]

    @property
    def lengths(self) -> list[int]:
        """Number of prefixes of each decision."""
        return [1 + len(tokens) for tokens in self.inside]

    def by_decision(self, numbers: Array) -> list[list[float]]:
        """Group one number per prefix into a list for each decision."""
        return [part.tolist() for part in np.split(numbers, np.cumsum(self.lengths)[:-1])]

    @property
    def rewards(self) -> tuple[float, ...]:
        """The reward of every turn of the episode, of the agent or of the team."""
        return self.episode.rewards_of(self.agent) if self.agent else self.episode.rewards


class ActorCritic(PolicyLearner, ABC):
    """Base of IAC and MAAC: computes values and advantages, and updates policies and critics."""

    Config = CriticOptions
    config: CriticOptions
    updater = CriticUpdater

    def __init__(self, team: Team, sampling: Sampling, config: CriticOptions | None = None) -> None:
        super().__init__(team, sampling, config)
        check_importance(team, self.config)
        self.critics = self.updaters[:1] if self.other_updater else self.updaters  # others have none

    @property
    def by_token(self) -> bool:
        """Whether each token has a value and an advantage."""
        return self.config.critic_level == "token"

    @property
    def baseline_scope(self) -> BaselineScope:
        """The scope "update" if advantages are normalised, else "nothing", since the baseline is a critic."""
        return "update" if self.config.normalise else "nothing"

    @abstractmethod
    def sequences(self, group: Group, place: int) -> list[DecisionSequence]:
        """Return the decisions of a group's episodes, with the critic's input at each."""

    # --- values -------------------------------------------------------------------------------------------------------

    def _value(self, sequences: Sequence[DecisionSequence]) -> None:
        """Compute the critics' value of every prefix."""
        given = [pair for sequence in sequences for pair in zip(sequence.inputs, sequence.inside, strict=True)]
        requests = [(read, len(tokens)) for read, tokens in given if isinstance(read, Request)]
        encoded = iter(self._ask("encode", requests, lambda request: request[0].agent))
        known = [(read.agent, next(encoded)) if isinstance(read, Request) else read for read, _ in given]
        readings = [(agent, ids + tokens) for (agent, ids), (_, tokens) in zip(known, given, strict=True)]
        if self.by_token:
            spans = [(reading, 1 + len(tokens)) for reading, (_, tokens) in zip(readings, given, strict=True)]
            values = iter(self._ask("token_values", spans, lambda span: span[0][0]))
        else:
            values = iter([[value] for value in self._ask("values", readings, lambda reading: reading[0])])
        read = iter(readings)
        for sequence in sequences:
            sequence.readings = [next(read) for _ in sequence.inputs]
            sequence.values = np.array([value for _ in sequence.inputs for value in next(values)])

    def _observe(self, sequences: Sequence[DecisionSequence]) -> None:
        """Update the return statistics of the critics; the values of this update stay the same."""
        returned: dict[str, list[float]] = {}
        for sequence in sequences:
            after = returns(sequence.rewards, self.config.gamma)
            for (agent, _), turn in zip(sequence.readings, sequence.turns, strict=True):
                returned.setdefault(agent, []).append(float(after[turn]))
        for updater in self.critics:
            updater.observe(
                [value for agent, values in returned.items() if agent in updater.agents for value in values]
            )

    def _ask(self, what: str, things: Sequence[Any], agent_of: Callable[[Any], str]) -> list[Any]:
        """Call a method of each critic's updater with the values that belong to its agents; return results in order."""
        answers: dict[int, Any] = {}
        for updater in self.critics:
            places = [place for place, thing in enumerate(things) if agent_of(thing) in updater.agents]
            if places:
                answers |= zip(places, getattr(updater, what)([things[place] for place in places]), strict=True)
        return [answers[place] for place in range(len(things))]

    # --- credit -------------------------------------------------------------------------------------------------------

    def _credit(self, sequences: Sequence[DecisionSequence]) -> None:
        """Compute the target and the advantage of every prefix."""
        c = self.config
        for sequence in sequences:
            of_decisions = between_decisions(sequence.rewards, sequence.turns, c.gamma)
            earned, discounts = over_tokens(*of_decisions, sequence.lengths)
            sequence.advantages = generalized_advantages(
                earned, discounts, sequence.values, c.gae_lambda
            )  # (advantage)
            sequence.targets = sequence.advantages + sequence.values  # (target)
        if c.estimates == "q":
            _compare(sequences)

    def samples(self, sequences: Sequence[DecisionSequence]) -> list[Sample]:
        """Return every completion to train on, with its advantages; completions without a score are left out."""
        samples = usable(
            _credited(Sample(agent, completion, 0.0, group=sequence.group, trajectory=number), advantages)
            for number, sequence in enumerate(sequences)
            for texts, advantages in zip(sequence.texts, sequence.by_decision(sequence.advantages), strict=True)
            for agent, completion in texts.items()
            if agent in self.learning
        )
        return _normalised(samples) if self.config.normalise else samples

    def value_targets(self, sequences: Sequence[DecisionSequence]) -> list[ValueTarget]:
        """Return the targets of the critics, one for every prefix that could be scored."""
        return [
            ValueTarget(agent, Completion("", ids), 0.0, group=sequence.group, target=target, value=value, after=after)
            for sequence in sequences
            for (agent, ids), targets, values in zip(
                sequence.readings,
                sequence.by_decision(sequence.targets),
                sequence.by_decision(sequence.values),
                strict=True,
            )
            for after, target, value in zip(reversed(range(len(targets))), targets, values, strict=True)
            if not np.isnan(target)
        ]

    # --- one update ---------------------------------------------------------------------------------------------------

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Compute values and advantages, and update policies and critics.

        Returns:
            The metrics of `MAGRPO.update`, with those of `CriticUpdater.step`; and `explained_variance`, the share of
            the targets' variance that the critics explained before the step (1 - var(y - V) / var y, the mean over
            critics).

        Raises:
            ValueError: A reward is infinite, a completion lacks log-probabilities, or the temperature is 0.
        """
        check_rewards(groups)
        sequences = [sequence for place, group in enumerate(groups) for sequence in self.sequences(group, place)]
        self._value(sequences)
        self._credit(sequences)
        self._observe(sequences)
        samples, targets = self.samples(sequences), self.value_targets(sequences)
        metrics = self.step([*samples, *targets], groups)
        return metrics | {"explained_variance": _explained(targets)} | self.report(samples, groups)


class IAC(ActorCritic):
    """Independent actor-critic: each agent has a critic of its own history."""

    def sequences(self, group: Group, place: int) -> list[DecisionSequence]:
        """Return a decision sequence for each trained agent and each episode in which it acted."""
        sequences: list[DecisionSequence] = []
        for episode in group.episodes:
            for agent in self.team.members:
                turns = [t for t, turn in enumerate(episode.turns) if agent in turn.actions]
                turns = [t for t in turns if episode.turns[t].actions[agent].token_ids]
                texts = [episode.turns[t].actions[agent] for t in turns]
                if texts and agent in self.learning:
                    sequence = DecisionSequence(place, episode, turns, [{agent: text} for text in texts], agent=agent)
                    sequence.by_token = self.by_token
                    sequence.histories = [text.prompt_ids for text in texts]
                    for text in texts:
                        action = () if self.config.estimates == "v" else text.token_ids
                        sequence.inputs.append((agent, text.prompt_ids + action))
                    sequences.append(sequence)
        return sequences


class MAAC(ActorCritic):
    """Multi-agent actor-critic: one critic of the joint history, used in training only."""

    updater = CentralCriticUpdater
    other_updater = Updater

    def __init__(self, team: Team, sampling: Sampling, config: CriticOptions | None = None) -> None:
        super().__init__(team, sampling, config)
        if self.by_token:
            _check_tokenizers(team)

    def sequences(self, group: Group, place: int) -> list[DecisionSequence]:
        """Return one decision sequence per episode; with individual rewards or token values, per episode and agent."""
        shared = {role for role, count in Counter(group.roles.values()).items() if count > 1}
        names = {agent: f"{role} {agent}" if role in shared else role for agent, role in group.roles.items()}
        sequences: list[DecisionSequence] = []
        for episode in group.episodes:
            if self.by_token:
                sequences += self._sequences_of_tokens(place, episode, names)
                continue
            if not episode.individual:
                sequences.append(self._sequence(place, episode, names))
                continue
            speaking = {agent for turn in episode.turns for agent in turn.actions} - {group.partner}
            sequences += [self._sequence(place, episode, names, a) for a in self.team.members if a in speaking]
        return sequences

    def _sequence(self, place: int, episode: Episode, names: Mapping[str, str], agent: str = "") -> DecisionSequence:
        """Return the decisions of an episode, with the rewards of the team or of one agent."""
        turns = [({**turn.observations, **turn.unasked_observations}, turn.actions) for turn in episode.turns]
        texts: list[Mapping[str, Completion]] = [
            {speaker: text for speaker, text in actions.items() if agent in ("", speaker)} for _, actions in turns
        ]
        sequence = DecisionSequence(place, episode, list(range(len(turns))), texts, agent=agent)
        question = [f"What will {names.get(agent, agent)} ({agent}) earn?"] if agent else []
        lines: list[str] = []
        for observations, actions in turns:
            lines += self._lines(names, "is told", observations)
            sequence.histories.append((*lines, *question))
            spoken = self._lines(names, "says", {speaker: text.text for speaker, text in actions.items()})
            read = [*lines, *spoken] if self.config.estimates == "q" else lines
            sequence.inputs.append(self._request([*read, *question]))
            lines += spoken
        return sequence

    def _sequences_of_tokens(self, place: int, episode: Episode, names: Mapping[str, str]) -> list[DecisionSequence]:
        """Return the completions of each trained agent, each after the joint history and the agent's name."""
        sequences = {a: DecisionSequence(place, episode, [], [], agent=a, by_token=True) for a in self.team.members}
        lines: list[str] = []
        for t, turn in enumerate(episode.turns):
            lines += self._lines(names, "is told", {**turn.observations, **turn.unasked_observations})
            for agent in self.learning:
                if agent in turn.actions and turn.actions[agent].token_ids:
                    sequences[agent].turns.append(t)
                    sequences[agent].texts.append({agent: turn.actions[agent]})
                    sequences[agent].inputs.append(self._request([*lines, *self._lines(names, "says", {agent: ""})]))
            lines += self._lines(names, "says", {agent: text.text for agent, text in turn.actions.items()})
        return [sequence for sequence in sequences.values() if sequence.turns]

    def _lines(self, names: Mapping[str, str], verb: str, texts: Mapping[str, str]) -> list[str]:
        """Return texts in agent order, each below its agent's role, with its name if several agents have that role."""
        return [f"{names.get(agent, agent)} {verb}:\n{texts[agent]}" for agent in self.team.members if agent in texts]

    def _request(self, lines: Sequence[str]) -> Request:
        """Return a joint history as a request, which the critic's policy encodes."""
        return Request(self.critics[0].groups[0].agents[0], (Message("observation", "\n\n".join(lines)),))


# --- numbers ----------------------------------------------------------------------------------------------------------


def _compare(sequences: Sequence[DecisionSequence]) -> None:
    """Set the advantages of estimates="q": a completion's value minus the mean value of others at its decision."""
    decisions = [(sequence, k) for sequence in sequences for k in range(len(sequence.turns))]
    same = grouped(decisions, lambda d: (d[0].group, d[0].readings[d[1]][0], d[0].histories[d[1]]))
    for equal in same.values():
        values = np.array([sequence.values[k] for sequence, k in equal])
        others = (values.sum() - values) / max(len(equal) - 1, 1)  # 0 if there is no other
        for (sequence, k), value, other in zip(equal, values, others, strict=True):
            sequence.advantages[k] = np.where(np.isnan(sequence.targets[k]), np.nan, value - other)  # (compared)


def _credited(sample: Sample, advantages: Sequence[float]) -> Sample:
    """Return a sample with one advantage, or with one for each token (`tokens`, in units of 1 or 0)."""
    if len(advantages) == 1:
        return replace(sample, advantage=advantages[0])
    return replace(sample, advantage=float(np.sign(np.abs(advantages).max())), tokens=tuple(advantages))


def _normalised(samples: Sequence[Sample]) -> list[Sample]:
    """Scale the advantages of each agent to mean 0 and standard deviation 1.

    Equal advantages become 0, and a single one is not changed.
    """
    normalised = list(samples)
    for places in grouped(range(len(samples)), lambda place: samples[place].agent).values():
        of_texts = [samples[place].tokens or (samples[place].advantage,) for place in places]
        values = group_advantages([advantage for of_text in of_texts for advantage in of_text])
        if len(values) > 1:
            ends = np.cumsum([len(of_text) for of_text in of_texts])[:-1]
            for place, part in zip(places, np.split(values, ends), strict=True):
                normalised[place] = _credited(samples[place], part.tolist())
    return normalised


def _check_tokenizers(team: Team) -> None:
    """Raise ValueError if a policy has another tokenizer than the first policy, whose critic reads all completions."""
    written: dict[str, tuple[int, ...]] = {}
    for policy in team.trainable:
        agent = next(agent for agent, member in team.members.items() if member is policy)
        written[agent] = policy.to_completion(Request(agent, (Message("observation", "?"),)), _PROBE, 32).token_ids
    first, *others = written
    for agent in others:
        if written[agent] != written[first]:
            raise ValueError(
                f"critic_level is 'token', but {agent!r} and {first!r} have different tokenizers, and one critic reads "
                "both; give the team one tokenizer, or choose iac or critic_level='turn'"
            )


def _explained(targets: Sequence[ValueTarget]) -> float:
    """Return 1 - var(y - V) / var y, the mean over critics; 0 where all targets of a critic are equal."""
    shares: list[float] = []
    for of_critic in grouped(targets, lambda target: target.agent).values():
        y = np.array([target.target for target in of_critic])
        variance = y.var()
        errors = y - np.array([target.value for target in of_critic])
        shares.append(float(1 - errors.var() / variance) if variance > 0 else 0.0)
    return float(np.mean(shares)) if shares else 0.0
