"""Counterfactual play: beside what was played, what would have come of another text of one agent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..agents.base import Policy, Sampling
from ..envs.base import TextDecPOMDP
from ..seeding import derive
from ..types import Branch, Completion, Decision, Group, Turn
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
        comparisons = _compare(episodes)
        _play_to_the_end([one for c in comparisons for one in c.untried], policy, sampling, self.continuation)
        decisions: list[list[Decision]] = [[] for _ in item_ids]
        for c in comparisons:
            branches = (*c.known, *(Branch(one.choice, one.rewards) for one in c.untried))
            decisions[c.group].append(Decision(c.turn, c.texts, 1, branches))
        groups = zip(in_groups(item_ids, episodes), decisions, strict=True)
        return [dataclasses.replace(group, decisions=tuple(mine)) for group, mine in groups]


@dataclass(slots=True)
class _Alternative:
    """A joint action in place of the one that an episode played at turn `replaced`.

    Attributes:
        episode: What was played.
        replaced: The turn from which on this is another episode.
        choice: Which of its texts each agent says there.
        env: A copy of the environment.
        said: What is said next.
        turns: Those before the replaced one, it, and what follows.
    """

    episode: RunningEpisode
    replaced: int
    choice: tuple[int, ...]
    env: TextDecPOMDP
    said: dict[str, Completion]
    turns: list[Turn]

    @property
    def rewards(self) -> tuple[float, ...]:
        """From the replaced turn on."""
        return tuple(turn.reward for turn in self.turns[self.replaced :])


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One turn of one episode: the texts to compare, joint actions whose rewards are known, and those to be played."""

    group: int
    turn: int
    texts: dict[str, tuple[Completion, ...]]
    known: list[Branch]
    untried: list[_Alternative]


def _compare(episodes: Sequence[RunningEpisode]) -> list[_Comparison]:
    """Every turn of every episode, with the joint actions in which a single text is another one."""
    comparisons: list[_Comparison] = []
    for episode in episodes:
        others = [other for other in episodes if other.group == episode.group and other is not episode]
        for t, turn in enumerate(episode.turns):
            texts = {agent: (own, *_texts(others, t, agent)) for agent, own in turn.actions.items()}
            comparisons.append(_Comparison(episode.group, t, texts, *_alternatives(episode, t, texts)))
    return comparisons


def _texts(others: Sequence[RunningEpisode], t: int, agent: str) -> list[Completion]:
    """What the agent said at that turn of the other episodes."""
    turns = [other.turns[t] for other in others if len(other.turns) > t]
    return [turn.actions[agent] for turn in turns if agent in turn.actions]


def _alternatives(
    episode: RunningEpisode, t: int, texts: Mapping[str, Sequence[Completion]]
) -> tuple[list[Branch], list[_Alternative]]:
    """The joint action as played and every one in which a single text is another; the same text earns the same."""
    played = tuple(turn.reward for turn in episode.turns[t:])
    known = [Branch((0,) * len(texts), played)]
    untried: list[_Alternative] = []
    for place, (agent, said) in enumerate(texts.items()):
        for k in range(1, len(said)):
            choice = tuple(k if i == place else 0 for i in range(len(texts)))
            if said[k].text == said[0].text:
                known.append(Branch(choice, played))
            else:
                borrowed = dataclasses.replace(said[k], prompt_ids=said[0].prompt_ids)  # said after what is shown here
                actions = {**episode.turns[t].actions, agent: borrowed}
                env, before = episode.decision_points[t].fork(), episode.turns[:t]
                untried.append(_Alternative(episode, t, choice, env, actions, before))
    return known, untried


def _play_to_the_end(
    alternatives: Sequence[_Alternative], policy: Policy, sampling: Sampling, continuation: Continuation
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


def _step(alternatives: Sequence[_Alternative]) -> None:
    """Step every environment; those in the same state with the same texts are judged once, and copied."""
    first: dict[tuple[int, str, tuple[str, ...]], _Alternative] = {}
    copies: list[tuple[_Alternative, _Alternative]] = []
    for one in alternatives:
        texts = tuple(one.said.get(agent, SILENT).text for agent in one.env.agents)
        original = first.setdefault((one.episode.group, one.env.state(), texts), one)
        if original is not one:
            copies.append((one, original))
    originals = list(first.values())
    for one, stepped in zip(originals, step_all([o.env for o in originals], [o.said for o in originals]), strict=True):
        one.turns.append(stepped.turn)
    for one, original in copies:
        one.env = original.env.fork()
        one.turns.append(dataclasses.replace(original.turns[-1], actions=one.said))


def _say_on(alternatives: Sequence[_Alternative], policy: Policy, sampling: Sampling) -> None:
    """What is said next where texts are drawn anew."""
    questions: list[tuple[_Alternative, Question]] = []
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
