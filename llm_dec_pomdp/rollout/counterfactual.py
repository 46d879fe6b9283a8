"""Counterfactual play: beside what was played, what would have come of another text of one agent.

Which other texts these are is said by `compare`: here those of the group's other trajectories, in `messages` texts that
are drawn for the purpose.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..agents.base import Policy, Sampling
from ..envs.base import TextDecPOMDP
from ..seeding import derive
from ..types import Branch, Completion, Cost, Decision, Group, Turn
from .base import (
    SILENT,
    Question,
    RunningEpisode,
    advance,
    agents_asked,
    ask,
    begin_groups,
    in_groups,
    per_action,
    question,
    refuse_unknown,
    step_all,
    unfinished,
)

Continuation = Literal["frozen", "resampled"]


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """Trajectories side by side, and for every text what each other text of that agent and turn would have earned.

    The other texts are those of the agent at the same turn of the group's other trajectories. The environment's chance
    is shared by the trajectories of a task and all their alternatives, always.

    Attributes:
        continuation: What is said after the replaced turn. "frozen": all texts of the trajectory as recorded, as long
            as there are any, so nobody is asked again; an agent that would have reacted does not. "resampled": an
            agent whose own history is as recorded says what is recorded, any other draws anew, from the seed it had.
    """

    continuation: Continuation = "frozen"

    def __post_init__(self) -> None:
        refuse_unknown("continuation", self.continuation, Continuation)

    def play(
        self,
        env: TextDecPOMDP,
        policy: Policy,
        item_ids: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        width: int = 1,
    ) -> list[Group]:
        """See `Rollout`. A group holds the trajectories, and a decision for each of their turns."""
        sampling = per_action(sampling, env)
        episodes = begin_groups(env, item_ids, seeds, width)
        while running := unfinished(episodes):
            for episode in running:
                episode.decision_points.append(episode.env.fork())
            advance(running, policy, sampling)
        comparisons = self.compare(episodes, policy, sampling)
        _play_to_the_end([one for c in comparisons for one in c.untried], policy, sampling, self.continuation)
        by_group: list[list[Comparison]] = [[] for _ in item_ids]
        for comparison in comparisons:
            by_group[comparison.group].append(comparison)
        groups = zip(in_groups(item_ids, episodes), by_group, strict=True)
        return [_with_alternatives(group, own) for group, own in groups]

    def compare(self, episodes: Sequence[RunningEpisode], policy: Policy, sampling: Sampling) -> list[Comparison]:
        """What is to be compared with what: every turn of every episode, with the texts of the group's other ones."""
        comparisons: list[Comparison] = []
        for episode in episodes:
            others = [other for other in episodes if other.group == episode.group and other is not episode]
            for t, turn in enumerate(episode.turns):
                texts = {agent: (own, *_texts(others, t, agent, own)) for agent, own in turn.actions.items()}
                comparisons.append(Comparison.of(episode, t, texts))
        return comparisons


@dataclass(slots=True)
class Alternative:
    """A joint action in place of the one that an episode played at turn `replaced`.

    Attributes:
        episode: What was played.
        replaced: The turn from which on this is another episode.
        choice: Which of its texts each agent says there.
        env: A copy of the environment.
        said: What is said next.
        turns: Those before the replaced one, it, and what follows.
        cost: What was spent on it; what it shares with another alternative is counted there.
    """

    episode: RunningEpisode
    replaced: int
    choice: tuple[int, ...]
    env: TextDecPOMDP
    said: dict[str, Completion]
    turns: list[Turn]
    cost: Cost = field(default_factory=Cost)

    @property
    def rewards(self) -> tuple[float, ...]:
        """From the replaced turn on."""
        return tuple(turn.reward for turn in self.turns[self.replaced :])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Texts of one turn of one episode to compare: joint actions whose rewards are known, and those to be played.

    Attributes:
        group: Place of the task.
        turn: t, from 0.
        texts: By agent, what it said and what it might have said.
        drawn: How many of an agent's texts were drawn here; see `Decision`.
        known: What earns what the episode earned: the joint action as played, and the same texts again.
        untried: The others, in each of which a single text is another one.
    """

    group: int
    turn: int
    texts: Mapping[str, Sequence[Completion]]
    drawn: int
    known: list[Branch]
    untried: list[Alternative]

    @classmethod
    def of(
        cls, episode: RunningEpisode, turn: int, texts: Mapping[str, Sequence[Completion]], drawn: int = 1
    ) -> Comparison:
        """Of one turn; the first text of an agent is the one that it said in the episode."""
        known, untried = _alternatives(episode, turn, texts)
        return cls(episode.group, turn, texts, drawn, known, untried)

    @property
    def decision(self) -> Decision:
        """With the rewards of all."""
        branches = (*self.known, *(Branch(one.choice, one.rewards) for one in self.untried))
        texts = {agent: tuple(said) for agent, said in self.texts.items()}
        return Decision(self.turn, texts, self.drawn, branches)


def _with_alternatives(group: Group, comparisons: Sequence[Comparison]) -> Group:
    """A group with its decisions, and what they cost: of every text, all but the first of those drawn here."""
    costs = [one.cost for c in comparisons for one in c.untried]
    drawn = sum((c.drawn - 1) * len(c.texts) for c in comparisons)
    extra = Cost(drawn + sum(c.generations for c in costs), sum(c.joint_rewards for c in costs))
    return dataclasses.replace(group, decisions=tuple(c.decision for c in comparisons), extra=extra)


def _texts(others: Sequence[RunningEpisode], t: int, agent: str, own: Completion) -> list[Completion]:
    """What the agent said at that turn of the other episodes, as if it had been shown what it is shown here."""
    turns = [other.turns[t] for other in others if len(other.turns) > t]
    said = [turn.actions[agent] for turn in turns if agent in turn.actions]
    return [dataclasses.replace(text, prompt_ids=own.prompt_ids) for text in said]


def _alternatives(
    episode: RunningEpisode, t: int, texts: Mapping[str, Sequence[Completion]]
) -> tuple[list[Branch], list[Alternative]]:
    """The joint action as played and every one in which a single text is another; the same text earns the same."""
    played = tuple(turn.reward for turn in episode.turns[t:])
    known = [Branch((0,) * len(texts), played)]
    untried: list[Alternative] = []
    for place, (agent, said) in enumerate(texts.items()):
        for k in range(1, len(said)):
            choice = tuple(k if i == place else 0 for i in range(len(texts)))
            if said[k].text == said[0].text:
                known.append(Branch(choice, played))
            else:
                actions = {**episode.turns[t].actions, agent: said[k]}
                env, before = episode.decision_points[t].fork(), episode.turns[:t]
                untried.append(Alternative(episode, t, choice, env, actions, before))
    return known, untried


def _play_to_the_end(
    alternatives: Sequence[Alternative], policy: Policy, sampling: Sampling, continuation: Continuation
) -> None:
    """Play all alternatives in lockstep."""
    running = alternatives
    while running:
        _step(running)
        running = [one for one in running if one.env.agents]
        if continuation == "frozen":
            running = [one for one in running if one.env.turn < len(one.episode.turns)]
            for one in running:
                one.said = dict(one.episode.turns[one.env.turn].actions)
        else:
            _say_on(running, policy, sampling)


def _step(alternatives: Sequence[Alternative]) -> None:
    """Step every environment; those in the same state with the same texts are judged once, and copied."""
    first: dict[tuple[int, str, tuple[str, ...]], Alternative] = {}
    copies: list[tuple[Alternative, Alternative]] = []
    for one in alternatives:
        texts = tuple(one.said.get(agent, SILENT).text for agent in one.env.agents)
        original = first.setdefault((one.episode.group, one.env.state(), texts), one)
        if original is not one:
            copies.append((one, original))
    originals = list(first.values())
    for one, stepped in zip(originals, step_all([o.env for o in originals], [o.said for o in originals]), strict=True):
        one.turns.append(stepped.turn)
        one.cost = one.cost._replace(joint_rewards=one.cost.joint_rewards + (stepped.turn.score is not None))
    for one, original in copies:
        one.env = original.env.fork()
        one.turns.append(dataclasses.replace(original.turns[-1], actions=one.said))


def _say_on(alternatives: Sequence[Alternative], policy: Policy, sampling: Sampling) -> None:
    """What is said next where texts are drawn anew."""
    questions: list[tuple[Alternative, Question]] = []
    for one in alternatives:
        one.said = {}
        env, episode = one.env, one.episode
        for agent in agents_asked(env):
            recorded = episode.decision_points[env.turn : env.turn + 1]  # none where it has ended
            if any(there.history(agent) == env.history(agent) for there in recorded):
                one.said[agent] = episode.turns[env.turn].actions[agent]
            else:
                seed = derive(episode.seed, agent, env.turn)
                questions.append((one, question(env, episode.group, agent, one.turns, seed)))
    answers = ask(policy, sampling, [asked for _, asked in questions])
    for (one, asked), completion in zip(questions, answers, strict=True):
        one.said[asked.agent] = completion
    for one in {asked: one for one, asked in questions}.values():  # equal questions are drawn once
        one.cost = one.cost._replace(generations=one.cost.generations + 1)
