"""Actor-critic learners: a learnt critic is the baseline, so that a prompt needs no group of samples.

At a decision x_k an agent is asked. It, or the team, earns r_k from there to the next decision, and g_k is the discount
between the two. V is a critic, with V(x_(K+1)) = 0, since nothing follows the end of an episode. With GAE over
decisions,

    delta_k = r_k + g_k V(x_(k+1)) - V(x_k),     A_k = delta_k + lambda g_k A_(k+1)                        (advantage)
    y_k = A_k + V(x_k)                                                                                       (target)

each policy ascends the clipped objective of `updater` with A_k, and in the same step the critic learns y_k (`critics`).

| learner | x | what the critic reads |
|---|---|---|
| iac | the turns in which agent i is asked | the agent's own history h_i; each agent has a critic |
| maac | all turns | the joint history: what all were told and said, by role, in agent order; the team has one critic |

Where agents are paid individually, r_k is the agent's own, and the critic of `maac` is asked for each agent by itself:
it reads the joint history and whose return it is.

Acting stays decentralised: policies never see what the critic of `maac` reads. Sources: GAE arXiv:1506.02438; IAC as in
COMA arXiv:1705.08926, section 4; a central critic as in MADDPG arXiv:1706.02275; the old-value clip of PPO.

With estimates="q" the critic also reads the text a_k and estimates Q(x_k, a_k). Targets are as above, with Q for V. The
advantage of a text is its Q less the mean Q of other texts that were drawn after the same history:

    A_k = Q(x_k, a_k) - mean of Q(x_k, a') over the other texts a' at the same x_k                           (compared)

and Q alone where there are none. (The return less Q would be 0 on average for every text, once Q is right.)
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
from .advantages import Array, between_decisions, generalized_advantages, group_advantages, returns
from .base import Metrics
from .critics import CentralCriticUpdater, CriticOptions, CriticUpdater, Lesson
from .exchange import Compared
from .learner import PolicyLearner
from .refusals import refuse_uncorrected
from .samples import Sample, refuse_bad_rewards, usable
from .updater import Updater


@dataclass(slots=True)
class Track:
    """The decisions of one agent, or of the team, in one episode.

    Attributes:
        group: Place of its group among those of the update.
        episode: The episode.
        turns: The turns of the decisions.
        texts: What was said at each decision, by agent.
        histories: The history before each decision; decisions with equal histories are the same.
        asked: What the critic reads at each decision; a request where it still has to be encoded.
        readings: `asked`, encoded.
        values: The critic's value of each decision.
        targets, advantages: y_k and A_k.
        paid: The agent whose rewards count; "" for the team's.
    """

    group: int
    episode: Episode
    turns: list[int]
    texts: list[Mapping[str, Completion]]
    histories: list[Hashable] = field(default_factory=list[Hashable])
    asked: list[Reading | Request] = field(default_factory=list["Reading | Request"])
    readings: list[Reading] = field(default_factory=list[Reading])
    values: Array = field(default_factory=lambda: np.zeros(0))
    targets: Array = field(default_factory=lambda: np.zeros(0))
    advantages: Array = field(default_factory=lambda: np.zeros(0))
    paid: str = ""

    @property
    def rewards(self) -> tuple[float, ...]:
        """What was paid at every turn of the episode."""
        return self.episode.rewards_of(self.paid) if self.paid else self.episode.rewards


class ActorCritic(PolicyLearner, ABC):
    """What IAC and MAAC share: values, advantages, and one update of policies and critics."""

    Config = CriticOptions
    config: CriticOptions
    updater = CriticUpdater

    def __init__(self, team: Team, sampling: Sampling, config: CriticOptions | None = None) -> None:
        super().__init__(team, sampling, config)
        refuse_uncorrected(team, self.config)
        self.critics = self.updaters[:1] if self.other_updater else self.updaters  # others have none

    @property
    def compared(self) -> Compared:
        """With what a return is compared; for its control, see `exchange`. (What a critic says is no other return.)"""
        return "update" if self.config.normalise else "nothing"

    @abstractmethod
    def tracks(self, group: Group, place: int) -> list[Track]:
        """The decisions of a group's episodes, with what the critic reads at each."""

    # --- values -------------------------------------------------------------------------------------------------------

    def _value(self, tracks: Sequence[Track]) -> None:
        """Let the critics value every decision."""
        plain = [asked for track in tracks for asked in track.asked]
        requests = [reading for reading in plain if isinstance(reading, Request)]
        encoded = iter(self._ask("encode", requests, lambda request: request.agent))
        readings = [(r.agent, next(encoded)) if isinstance(r, Request) else r for r in plain]
        values = iter(self._ask("values", readings, lambda reading: reading[0]))
        known = iter(readings)
        for track in tracks:
            track.readings = [next(known) for _ in track.asked]
            track.values = np.array([next(values) for _ in track.readings])

    def _observe(self, tracks: Sequence[Track]) -> None:
        """Tell the critics what was returned, which is the unit in which they learn (of no value that is used here)."""
        returned: dict[str, list[float]] = {}
        for track in tracks:
            after = returns(track.rewards, self.config.gamma)
            for (agent, _), turn in zip(track.readings, track.turns, strict=True):
                returned.setdefault(agent, []).append(float(after[turn]))
        for updater in self.critics:
            updater.observe(
                [value for agent, values in returned.items() if agent in updater.agents for value in values]
            )

    def _ask(self, what: str, things: Sequence[Any], agent_of: Callable[[Any], str]) -> list[Any]:
        """Call a method of the critics' updaters, with each thing at the updater of its agent; answers in order."""
        answers: dict[int, Any] = {}
        for updater in self.critics:
            places = [place for place, thing in enumerate(things) if agent_of(thing) in updater.agents]
            if places:
                answers |= zip(places, getattr(updater, what)([things[place] for place in places]), strict=True)
        return [answers[place] for place in range(len(things))]

    # --- credit -------------------------------------------------------------------------------------------------------

    def _credit(self, tracks: Sequence[Track]) -> None:
        """Targets and advantages of every decision."""
        c = self.config
        for track in tracks:
            earned, discounts = between_decisions(track.rewards, track.turns, c.gamma)
            track.advantages = generalized_advantages(earned, discounts, track.values, c.gae_lambda)  # (advantage)
            track.targets = track.advantages + track.values  # (target)
        if c.estimates == "q":
            _compare(tracks)

    def samples(self, tracks: Sequence[Track]) -> list[Sample]:
        """Every text to learn from, with its advantage; texts without a score are left out."""
        samples = usable(
            Sample(agent, completion, advantage, group=track.group, trajectory=number)
            for number, track in enumerate(tracks)
            for texts, advantage in zip(track.texts, track.advantages.tolist(), strict=True)
            for agent, completion in texts.items()
            if agent in self.learning
        )
        return _normalised(samples) if self.config.normalise else samples

    def lessons(self, tracks: Sequence[Track]) -> list[Lesson]:
        """What the critics learn: every decision that could be scored, with its target."""
        return [
            Lesson(agent, Completion("", ids), 0.0, group=track.group, target=target, value=value)
            for track in tracks
            for (agent, ids), target, value in zip(
                track.readings, track.targets.tolist(), track.values.tolist(), strict=True
            )
            if not np.isnan(target)
        ]

    # --- one update ---------------------------------------------------------------------------------------------------

    def update(self, groups: Sequence[Group]) -> Metrics:
        """Compute values and advantages, and let policies and critics step.

        Returns:
            As `MAGRPO.update`, with what `CriticUpdater.step` returns; and `explained_variance`, the share of the
            targets' variance that the critics explained before the step (1 - var(y - V) / var y, the mean over
            critics).

        Raises:
            ValueError: A reward is infinite, a text lacks log-probabilities, or the temperature is 0.
        """
        refuse_bad_rewards(groups)
        tracks = [track for place, group in enumerate(groups) for track in self.tracks(group, place)]
        self._value(tracks)
        self._credit(tracks)
        self._observe(tracks)
        samples, lessons = self.samples(tracks), self.lessons(tracks)
        metrics = self.step([*samples, *lessons], groups)
        return metrics | {"explained_variance": _explained(lessons)} | self.report(samples, groups)


class IAC(ActorCritic):
    """Independent actor-critic: each agent has a critic of its own history."""

    def tracks(self, group: Group, place: int) -> list[Track]:
        """One for each agent that learns and each episode in which it spoke."""
        tracks: list[Track] = []
        for episode in group.episodes:
            for agent in self.team.members:
                turns = [t for t, turn in enumerate(episode.turns) if agent in turn.actions]
                turns = [t for t in turns if episode.turns[t].actions[agent].token_ids]
                texts = [episode.turns[t].actions[agent] for t in turns]
                if texts and agent in self.learning:
                    track = Track(place, episode, turns, [{agent: text} for text in texts], paid=agent)
                    track.histories = [text.prompt_ids for text in texts]
                    track.asked = [(agent, self._read(text)) for text in texts]
                    tracks.append(track)
        return tracks

    def _read(self, text: Completion) -> tuple[int, ...]:
        """The token ids of h_i; with estimates="q" those of h_i and a_i."""
        return text.prompt_ids if self.config.estimates == "v" else text.prompt_ids + text.token_ids


class MAAC(ActorCritic):
    """Multi-agent actor-critic: one critic of the joint history, used in training only."""

    updater = CentralCriticUpdater
    other_updater = Updater

    def tracks(self, group: Group, place: int) -> list[Track]:
        """One for each episode; or, where agents are paid individually, for each agent of each episode."""
        shared = {role for role, count in Counter(group.roles.values()).items() if count > 1}
        names = {agent: f"{role} {agent}" if role in shared else role for agent, role in group.roles.items()}
        tracks: list[Track] = []
        for episode in group.episodes:
            if not episode.individual:
                tracks.append(self._track(place, episode, names))
                continue
            speaking = {agent for turn in episode.turns for agent in turn.actions}
            tracks += [self._track(place, episode, names, a) for a in self.team.members if a in speaking]
        return tracks

    def _track(self, place: int, episode: Episode, names: Mapping[str, str], paid: str = "") -> Track:
        """The decisions of an episode, of the team or of the agent that is paid."""
        turns = [({**turn.observations, **turn.told}, turn.actions) for turn in episode.turns]
        texts: list[Mapping[str, Completion]] = [
            {agent: text for agent, text in actions.items() if paid in ("", agent)} for _, actions in turns
        ]
        track = Track(place, episode, list(range(len(turns))), texts, paid=paid)
        question = [f"What will {names.get(paid, paid)} ({paid}) earn?"] if paid else []
        lines: list[str] = []
        for observations, actions in turns:
            lines += self._lines(names, "is told", observations)
            track.histories.append((*lines, *question))
            spoken = self._lines(names, "says", {agent: text.text for agent, text in actions.items()})
            read = [*lines, *spoken] if self.config.estimates == "q" else lines
            track.asked.append(self._request([*read, *question]))
            lines += spoken
        return track

    def _lines(self, names: Mapping[str, str], verb: str, texts: Mapping[str, str]) -> list[str]:
        """Texts in agent order, each below its agent's role, and its name where several agents have that role."""
        return [f"{names.get(agent, agent)} {verb}:\n{texts[agent]}" for agent in self.team.members if agent in texts]

    def _request(self, lines: Sequence[str]) -> Request:
        """A joint history as the critic reads it."""
        return Request(self.critics[0].groups[0].agents[0], (Message("told", "\n\n".join(lines)),))


# --- numbers ----------------------------------------------------------------------------------------------------------


def _compare(tracks: Sequence[Track]) -> None:
    """Advantages from a critic that reads texts: its value of each text less the mean of the others at the decision."""
    decisions = [(track, k) for track in tracks for k in range(len(track.turns))]
    same = grouped(decisions, lambda d: (d[0].group, d[0].readings[d[1]][0], d[0].histories[d[1]]))
    for equal in same.values():
        values = np.array([track.values[k] for track, k in equal])
        others = (values.sum() - values) / max(len(equal) - 1, 1)  # 0 where there is none
        for (track, k), value, other in zip(equal, values, others, strict=True):
            track.advantages[k] = np.where(np.isnan(track.targets[k]), np.nan, value - other)  # (compared)


def _normalised(samples: Sequence[Sample]) -> list[Sample]:
    """Advantages with mean 0 and standard deviation 1 for each agent; 0 where equal, unchanged where there is one."""
    normalised = list(samples)
    for places in grouped(range(len(samples)), lambda place: samples[place].agent).values():
        if len(places) > 1:
            values = group_advantages([samples[place].advantage for place in places]).tolist()
            for place, value in zip(places, values, strict=True):
                normalised[place] = replace(samples[place], advantage=value)
    return normalised


def _explained(lessons: Sequence[Lesson]) -> float:
    """1 - var(y - V) / var y, the mean over critics; 0 where all targets of a critic are equal."""
    shares: list[float] = []
    for of_critic in grouped(lessons, lambda lesson: lesson.agent).values():
        targets = np.array([lesson.target for lesson in of_critic])
        variance = targets.var()
        errors = targets - np.array([lesson.value for lesson in of_critic])
        shares.append(float(1 - errors.var() / variance) if variance > 0 else 0.0)
    return float(np.mean(shares)) if shares else 0.0
