"""Influence of each agent: the change of the score if its actions are replaced, and its share of empty texts.

If one agent dominates, its teammates may write empty texts, or texts without an effect. Returns do not show this. So an
evaluation replays its episodes; in each replay, the actions of one agent are replaced by its actions in another
episode.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from ...agents.base import Policy, Sampling
from ...envs.base import TextDecPOMDP
from ...rollout.base import Question, agents_asked, ask, question, start_episode, step_envs, unfinished
from ...seeding import derive
from ...types import Completion, Episode, Group, Score
from ..intervals import Interval
from . import Section

MOST = 32  # maximum number of episodes replayed for an agent
LEAST = 8  # minimum number of replayed episodes for a result
FEW = 0.05  # share of the largest influence; an agent below it is named in a warning
SILENT = 50.0  # % of empty texts of an agent for a warning
_MOVES, _EMPTY = " moves", " empty %"


class Influence(Section):
    """The table of `influence`; teams that are not trained are not measured."""

    title = "Influence of each agent"
    note = (
        "Moves: mean absolute change of the score, in points, if the actions of the agent are replaced by its actions "
        "in another episode of the task (if there is none, of the next task). Agents that then observe something else "
        "act again; all others repeat their actions. Empty: share of the agent's texts that are empty."
    )


def influence(policy: Policy, env: TextDecPOMDP, sampling: Sampling, groups: Sequence[Group]) -> dict[str, Interval]:
    """Replay episodes with the actions of one agent replaced; other agents sample again if their observations change.

    Args:
        policy: The policy of the episodes.
        env: The environment, under the protocol of the policy.
        sampling: Sampling options of the completions.
        groups: Independent episodes, one group per task.

    Returns:
        For each agent the mean absolute change of the score, in points of the maximum, and the share of empty texts in
        %. {} for a single agent, for hierarchies, and for individual rewards.
    """
    known, agents = env.facts, env.possible_agents
    episodes = [episode for group in groups for episode in group.episodes]
    if len(agents) < 2 or known.hierarchical or not known.joint_reward or not episodes:
        return {}
    roles = [env.role(agent) for agent in agents]
    shown = {a: role if roles.count(role) == 1 else a for a, role in zip(agents, roles, strict=True)}
    each = min(MOST, len(episodes) // len(agents))
    swaps = [swap for agent in agents for swap in itertools.islice(_swaps(groups, agent), each)]
    moved: dict[str, list[float]] = {agent: [] for agent in agents}
    for swap, after in zip(swaps, _played(swaps, policy, env, sampling), strict=True):
        before = swap.episode.final
        if before and before.scorable and after and after.scorable:
            was, now = map(known.score_scale.percent, (before.total, after.total))
            moved[swap.agent].append(abs(now - was))
    numbers = {f"{shown[a]}{_MOVES}": fmean(points) for a, points in moved.items() if len(points) >= LEAST}
    texts = {agent: [text for episode in episodes for _, text in _texts(episode, agent)] for agent in agents}
    empty = {f"{shown[a]}{_EMPTY}": 100 * fmean(not t.strip() for t in texts[a]) for a in agents if texts[a]}
    numbers |= empty if any(empty.values()) else {}
    return {name: Interval.read(value) for name, value in numbers.items()}


def alarm(numbers: Mapping[str, float]) -> str:
    """Return a warning that names agents without influence on the return; "" if there are none.

    Args:
        numbers: Means of the numbers of `influence`, by name.
    """
    moves = {name.removesuffix(_MOVES): value for name, value in numbers.items() if name.endswith(_MOVES)}
    empty = {name.removesuffix(_EMPTY): value for name, value in numbers.items() if name.endswith(_EMPTY)}
    most = max(moves, key=lambda agent: moves[agent], default="")
    found = [
        f"{agent} changes the return by {value:.1f} points, {most} by {moves[most]:.1f}"
        for agent, value in moves.items()
        if value < FEW * moves[most]
    ]
    if min(empty.values(), default=SILENT) < SILENT:
        found += [f"{v:.0f} % of the texts of {agent} are empty" for agent, v in empty.items() if v >= SILENT]
    return "; ".join(found)


class _Swap(NamedTuple):
    """An episode in which an agent repeats its actions of another episode."""

    agent: str
    episode: Episode
    other: Episode

    def recorded(self, agent: str, t: int) -> Completion | None:
        """Return the recorded action of an agent at turn t; None if there is none."""
        turns = (self.other if agent == self.agent else self.episode).turns
        return turns[t].actions.get(agent) if t < len(turns) else None


def _texts(episode: Episode, agent: str) -> list[tuple[int, str]]:
    """Return the turns and texts of an agent's actions."""
    return [(t, turn.actions[agent].text) for t, turn in enumerate(episode.turns) if agent in turn.actions]


def _swaps(groups: Sequence[Group], agent: str) -> Iterator[_Swap]:
    """Yield pairs of an episode and another one in which the agent acted differently, cycling through the tasks."""
    for number in range(max(len(group.episodes) for group in groups)):
        for place, group in enumerate(groups):
            if number >= len(group.episodes):
                continue
            episode, *others = (*group.episodes[number:], *group.episodes[:number])
            spoken = _texts(episode, agent)
            for other in others or groups[(place + 1) % len(groups)].episodes:
                if _texts(other, agent) != spoken:
                    yield _Swap(agent, episode, other)
                    break


def _played(swaps: Sequence[_Swap], policy: Policy, env: TextDecPOMDP, sampling: Sampling) -> list[Score | None]:
    """Play all swaps in lockstep, with the seeds of their episodes, and return the last score of each."""
    sampling = sampling.for_parts(env.facts.parts_per_action)
    played = [start_episode(env, n, s.episode.item_id, s.episode.seed, s.episode.seed) for n, s in enumerate(swaps)]
    changed: list[set[str]] = [set() for _ in swaps]  # agents whose observation differs from the episode
    while running := unfinished(played):
        actions: list[dict[str, Completion]] = []
        questions: list[Question] = []
        for e in running:
            swap, t = swaps[e.group], len(e.turns)
            actions.append({})
            for agent in agents_asked(e.env):
                observed = swap.episode.turns[t].observations.get(agent) if t < len(swap.episode.turns) else None
                if observed != e.env.history(agent)[-1].text:
                    changed[e.group].add(agent)
                text = swap.recorded(agent, t)
                if text is not None and (agent == swap.agent or agent not in changed[e.group]):
                    actions[-1][agent] = text
                else:
                    turns = [] if agent == swap.agent else e.turns  # its token ids do not match its new texts
                    questions.append(question(e.env, e.group, agent, turns, derive(e.seed, agent, t)))
        places = {e.group: place for place, e in enumerate(running)}
        for asked, text in zip(questions, ask(policy, sampling, questions), strict=True):
            actions[places[asked.group]][asked.agent] = text
        for e, stepped in zip(running, step_envs([e.env for e in running], actions), strict=True):
            e.turns.append(stepped.turn)
    return [Episode(e.item_id, e.seed, tuple(e.turns), terminated=False).final for e in played]
