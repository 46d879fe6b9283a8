"""Counterfactual rollouts: trajectories, and the rewards if one agent's completion at one turn is replaced."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..agents.base import Policy, Sampling
from ..envs.base import TextDecPOMDP
from ..seeding import derive
from ..types import Branch, Completion, Cost, Decision, Group, Turn, grouped
from .base import (
    SILENT,
    Batch,
    BatchRollout,
    Question,
    RunningEpisode,
    advance,
    agents_asked,
    ask,
    check_choice,
    in_groups,
    question,
    start_groups,
    step_envs,
    unfinished,
)

Continuation = Literal["frozen", "resampled"]


@dataclass(frozen=True, slots=True)
class Counterfactual(BatchRollout):
    """Trajectories in parallel, and for each completion the rewards of its alternatives.

    The alternatives (`compare`) are the agent's completions at the same turn of the group's other trajectories. The
    trajectories of a task and all their alternatives share the environment's chance.

    Attributes:
        continuation: The actions after the replaced turn. "frozen": the recorded actions of the trajectory, until they
            run out; agents do not react to the replacement. "resampled": an agent whose history is the recorded one
            repeats its recorded action; any other agent samples a new action, from the same seed.
    """

    continuation: Continuation = "frozen"

    def __post_init__(self) -> None:
        check_choice("continuation", self.continuation, Continuation)

    def groups(self, batch: Batch) -> list[Group]:
        """Return groups with the trajectories, and a decision for each of their turns."""
        policy, sampling = batch.policy, batch.sampling.for_parts(batch.env.facts.parts_per_action)
        episodes = start_groups(batch)
        while running := unfinished(episodes):
            for episode in running:
                episode.decision_points.append(episode.env.fork())
            advance(running, policy, sampling)
        comparisons = self.compare(episodes, policy, sampling)
        _play_to_the_end(
            [alternative for c in comparisons for alternative in c.untried], policy, sampling, self.continuation
        )
        of_group = grouped(comparisons, lambda comparison: comparison.group)
        groups = enumerate(in_groups(batch.item_ids, episodes))
        return [_with_alternatives(group, of_group.get(place, [])) for place, group in groups]

    def compare(self, episodes: Sequence[RunningEpisode], policy: Policy, sampling: Sampling) -> list[Comparison]:
        """Return the completions to compare at each turn of each episode.

        Args:
            episodes: Finished episodes of all groups.
            policy: The policy of all agents, for subclasses that sample alternatives.
            sampling: Sampling options.
        """
        comparisons: list[Comparison] = []
        for episode in episodes:
            others = [other for other in episodes if other.group == episode.group and other is not episode]
            for t, turn in enumerate(episode.turns):
                texts = {agent: (text, *_texts(others, t, agent, text)) for agent, text in turn.actions.items()}
                comparisons.append(Comparison.of(episode, t, texts))
        return comparisons


@dataclass(slots=True)
class Alternative:
    """A joint action with one agent's completion replaced at one turn of an episode, and the turns after it.

    Attributes:
        episode: The recorded episode.
        replaced: Index t of the turn whose joint action is replaced, from 0.
        choice: For each agent in order, the index of its completion in `Comparison.texts`; 0 is the recorded one.
        env: A copy of the environment, forked before turn t; it advances while the alternative is played.
        actions: The next joint action to play in `env`; the first one contains the replacement.
        turns: The recorded turns before t, then the turns played in `env`, of which the first is turn t.
        cost: The cost of playing it; a cost that several alternatives share is counted once.
    """

    episode: RunningEpisode
    replaced: int
    choice: tuple[int, ...]
    env: TextDecPOMDP
    actions: dict[str, Completion]
    turns: list[Turn]
    cost: Cost = field(default_factory=Cost)

    def branch(self, agents: Iterable[str]) -> Branch:
        """Return the joint action with its rewards from the replaced turn on."""
        return Branch.of(self.choice, self.turns[self.replaced :], agents)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The completions to compare at one turn of one episode.

    Attributes:
        group: The index of the task in the batch.
        turn: t, from 0.
        texts: By agent, its completion in the episode, then the alternatives.
        width: The number of an agent's completions that were sampled here; see `Decision`.
        known: Joint actions with known rewards: the one of the episode, and those with the same texts.
        untried: Joint actions to be played; in each, one completion is replaced.
        share: See `Decision`.
    """

    group: int
    turn: int
    texts: Mapping[str, Sequence[Completion]]
    width: int
    known: list[Branch]
    untried: list[Alternative]
    share: float = 1.0

    @classmethod
    def of(
        cls,
        episode: RunningEpisode,
        turn: int,
        texts: Mapping[str, Sequence[Completion]],
        width: int = 1,
        share: float = 1.0,
    ) -> Comparison:
        """Return the comparison of completions at a turn; the first one of each agent is its action in the episode."""
        played = Branch.of((0,) * len(texts), episode.turns[turn:], texts)
        known = [played]
        untried: list[Alternative] = []
        for place, (agent, tried) in enumerate(texts.items()):
            for k in range(1, len(tried)):
                choice = tuple(k if i == place else 0 for i in range(len(texts)))
                if tried[k].text == tried[0].text:
                    known.append(dataclasses.replace(played, choice=choice))
                else:
                    actions = {**episode.turns[turn].actions, agent: tried[k]}
                    env, before = episode.decision_points[turn].fork(), episode.turns[:turn]
                    untried.append(Alternative(episode, turn, choice, env, actions, before))
        return cls(episode.group, turn, texts, width, known, untried, share)

    @property
    def decision(self) -> Decision:
        """Return the known and the played joint actions with their rewards as a `Decision`.

        It is valid once every alternative in `untried` has been played.
        """
        branches = (*self.known, *(alternative.branch(self.texts) for alternative in self.untried))
        texts = {agent: tuple(tried) for agent, tried in self.texts.items()}
        return Decision(self.turn, texts, self.width, branches, self.share)


def _with_alternatives(group: Group, comparisons: Sequence[Comparison]) -> Group:
    """Return a group with its decisions and their cost in addition to the cost of its trajectories."""
    costs = [alternative.cost for c in comparisons for alternative in c.untried]
    generations = sum((c.width - 1) * len(c.texts) for c in comparisons) + sum(cost.generations for cost in costs)
    extra = Cost(generations, sum(cost.joint_rewards for cost in costs))
    return dataclasses.replace(group, decisions=tuple(c.decision for c in comparisons), extra=extra)


def _texts(others: Sequence[RunningEpisode], t: int, agent: str, spoken: Completion) -> list[Completion]:
    """Return the agent's completions at turn t of other episodes, each with the prompt ids of `spoken`."""
    turns = [other.turns[t] for other in others if len(other.turns) > t]
    texts = [turn.actions[agent] for turn in turns if agent in turn.actions]
    return [dataclasses.replace(text, prompt_ids=spoken.prompt_ids) for text in texts]


def _play_to_the_end(
    alternatives: Sequence[Alternative], policy: Policy, sampling: Sampling, continuation: Continuation
) -> None:
    """Play all alternatives to their end, in lockstep."""
    running = alternatives
    while running:
        _step(running)
        running = [alternative for alternative in running if alternative.env.agents]
        if continuation == "frozen":
            running = [alternative for alternative in running if alternative.env.turn < len(alternative.episode.turns)]
            for alternative in running:
                alternative.actions = dict(alternative.episode.turns[alternative.env.turn].actions)
        else:
            _say_on(running, policy, sampling)


def _step(alternatives: Sequence[Alternative]) -> None:
    """Step every environment; equal actions in equal states are stepped once, and the result is copied."""
    first: dict[tuple[int, str, tuple[str, ...]], Alternative] = {}
    copies: list[tuple[Alternative, Alternative]] = []
    for alternative in alternatives:
        texts = tuple(alternative.actions.get(agent, SILENT).text for agent in alternative.env.agents)
        original = first.setdefault((alternative.episode.group, alternative.env.state(), texts), alternative)
        if original is not alternative:
            copies.append((alternative, original))
    originals = list(first.values())
    for alternative, stepped in zip(
        originals, step_envs([o.env for o in originals], [o.actions for o in originals]), strict=True
    ):
        alternative.turns.append(stepped.turn)
        alternative.cost = alternative.cost._replace(
            joint_rewards=alternative.cost.joint_rewards + (stepped.turn.score is not None)
        )
    for alternative, original in copies:
        alternative.env = original.env.fork()
        alternative.turns.append(dataclasses.replace(original.turns[-1], actions=alternative.actions))


def _say_on(alternatives: Sequence[Alternative], policy: Policy, sampling: Sampling) -> None:
    """Set the next joint actions; an agent whose history is the recorded one repeats its recorded action."""
    questions: list[tuple[Alternative, Question]] = []
    for alternative in alternatives:
        alternative.actions = {}
        env, episode = alternative.env, alternative.episode
        for agent in agents_asked(env):
            recorded = episode.decision_points[env.turn : env.turn + 1]  # empty after the end of the episode
            if any(there.history(agent) == env.history(agent) for there in recorded):
                alternative.actions[agent] = episode.turns[env.turn].actions[agent]
            else:
                seed = derive(episode.seed, agent, env.turn)
                questions.append((alternative, question(env, episode.group, agent, alternative.turns, seed)))
    answers = ask(policy, sampling, [asked for _, asked in questions])
    for (alternative, asked), completion in zip(questions, answers, strict=True):
        alternative.actions[asked.agent] = completion
    askers = {asked: alternative for alternative, asked in questions}  # equal questions are sampled once
    for alternative in askers.values():
        alternative.cost = alternative.cost._replace(generations=alternative.cost.generations + 1)
