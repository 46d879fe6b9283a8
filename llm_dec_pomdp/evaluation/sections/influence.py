"""What each agent moves: how the score changes with another of its texts, and how many of its texts are empty.

Where one agent dominates, the others may fall silent, or go on speaking without any effect: returns alone do not show
it. So an evaluation plays its own episodes again, in each of which one agent says what it said in another one.
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

MOST = 32  # episodes that are played again for an agent
LEAST = 8  # below this number nothing is said of an agent
FEW = 0.05  # of what the agent moves that moves most; less is an alarm
SILENT = 50.0  # % of an agent's texts; as many empty ones are an alarm
_MOVES, _EMPTY = " moves", " empty %"


class Influence(Section):
    """What `influence` measured; nothing is measured for teams that do not learn."""

    title = "What each agent moves"
    note = (
        "Moves: how many points the score changes, up or down, where the agent says what it said in another episode of "
        "the task (where there is none, of the next task); means over different texts. Who is told something else then "
        "answers anew, all others say what they said. Empty: share of its texts without a word."
    )


def influence(policy: Policy, env: TextDecPOMDP, sampling: Sampling, groups: Sequence[Group]) -> dict[str, Interval]:
    """Play episodes again, at most as many as were played; texts are drawn only for who is told something else then.

    Args:
        policy: Who played.
        env: What was played, under the protocol of the policy.
        sampling: How texts are drawn.
        groups: Independent episodes, a group for every task.

    Returns:
        By agent, points of the maximum and the share of empty texts, in %; {} for one agent, for hierarchies, and where
        agents are paid individually.
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
    """Which agents have no part in what their team earns, in words; "" where all have.

    Args:
        numbers: What `Influence` measured, by its names.
    """
    moves = {name.removesuffix(_MOVES): value for name, value in numbers.items() if name.endswith(_MOVES)}
    empty = {name.removesuffix(_EMPTY): value for name, value in numbers.items() if name.endswith(_EMPTY)}
    most = max(moves, key=lambda agent: moves[agent], default="")
    found = [
        f"{agent} moves {value:.1f} points of the return, {most} {moves[most]:.1f}"
        for agent, value in moves.items()
        if value < FEW * moves[most]
    ]
    if min(empty.values(), default=SILENT) < SILENT:
        found += [f"{v:.0f} % of the texts of {agent} are empty" for agent, v in empty.items() if v >= SILENT]
    return "; ".join(found)


class _Swap(NamedTuple):
    """An episode in which an agent is to say what it said in another one."""

    agent: str
    episode: Episode
    other: Episode

    def recorded(self, agent: str, t: int) -> Completion | None:
        """What an agent is to say at turn t; None where nothing is recorded."""
        turns = (self.other if agent == self.agent else self.episode).turns
        return turns[t].actions.get(agent) if t < len(turns) else None


def _texts(episode: Episode, agent: str) -> list[tuple[int, str]]:
    """What an agent said, and when."""
    return [(t, turn.actions[agent].text) for t, turn in enumerate(episode.turns) if agent in turn.actions]


def _swaps(groups: Sequence[Group], agent: str) -> Iterator[_Swap]:
    """Every episode with one in which the agent said something else, where there is one; first one of each task."""
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
    """The last score of every swap, by the chance of its episode; played in lockstep."""
    sampling = sampling.for_parts(env.facts.parts_per_action)
    played = [start_episode(env, n, s.episode.item_id, s.episode.seed, s.episode.seed) for n, s in enumerate(swaps)]
    changed: list[set[str]] = [set() for _ in swaps]  # who was told something else than in the episode
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
                    turns = [] if agent == swap.agent else e.turns  # tokens of what it did not say here
                    questions.append(question(e.env, e.group, agent, turns, derive(e.seed, agent, t)))
        places = {e.group: place for place, e in enumerate(running)}
        for asked, text in zip(questions, ask(policy, sampling, questions), strict=True):
            actions[places[asked.group]][asked.agent] = text
        for e, stepped in zip(running, step_envs([e.env for e in running], actions), strict=True):
            e.turns.append(stepped.turn)
    return [Episode(e.item_id, e.seed, tuple(e.turns), terminated=False).final for e in played]
