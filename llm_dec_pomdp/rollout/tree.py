"""Tree rollouts: at every turn, several joint actions are tried, and each leads to its own next turn."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..agents.base import Policy, Sampling
from ..envs.base import TextDecPOMDP
from ..seeding import derive
from ..types import Branch, Completion, Decision, Episode, Group, Turn
from .base import (
    Batch,
    BatchRollout,
    Question,
    RunningEpisode,
    StepResult,
    agents_asked,
    ask,
    check_choice,
    question,
    start_episode,
    step_envs,
)

MAX_JOINT_ACTIONS = 4096  # limit for one task at one turn
Pairing = Literal["aligned", "cross"]


@dataclass(frozen=True, slots=True)
class Tree(BatchRollout):
    """G completions per agent at every decision point; each of their joint actions leads to another decision point.

    All branches of a task share the environment's chance. An agent samples the same completions at decision points
    where its own history is the same. At the first turn the completions are the same as in `Trajectories`.

    Attributes:
        pairing: "aligned": the g-th completions of all agents form a joint action, G joint actions. "cross": all
            combinations, G^n joint actions of n agents.
    """

    pairing: Pairing = "aligned"

    def __post_init__(self) -> None:
        check_choice("pairing", self.pairing, Pairing)

    def groups(self, batch: Batch) -> list[Group]:
        """Return groups with every decision point, turn by turn, and an episode for every leaf.

        Raises:
            ValueError: There are too many joint actions.
        """
        sampling = batch.sampling.for_parts(batch.env.facts.parts_per_action)
        tasks = enumerate(zip(batch.item_ids, batch.seeds, strict=True))
        starts = [start_episode(batch.env, i, item_id, seed, seed) for i, (item_id, seed) in tasks]
        roots = [_Node(start, start.env, (), 1.0) for start in starts]
        levels: list[list[_Node]] = []
        level = roots
        while level:
            levels.append(level)
            _draw_texts(level, batch.policy, sampling, batch.width)
            level = _play_turn(level, self.pairing)
        groups: list[Group] = []
        for root in roots:
            mine = [(t, node) for t, nodes in enumerate(levels) for node in nodes if node.start is root.start]
            decisions = tuple(_decision(node, t, batch.width) for t, node in mine)
            groups.append(Group(root.start.item_id, tuple(_episodes(root)), decisions))
        return groups


@dataclass(slots=True)
class _Node:
    """A decision point: its task, the turns before it, the completions sampled there, and their joint actions."""

    start: RunningEpisode
    env: TextDecPOMDP
    turns: tuple[Turn, ...]
    share: float
    texts: dict[str, list[Completion]] = field(default_factory=dict[str, list[Completion]])
    joint_actions: list[_JointAction] = field(default_factory=list["_JointAction"])


@dataclass(slots=True)
class _JointAction:
    """The index of each agent's completion, the step that followed, and the next decision point, if any."""

    choice: tuple[int, ...]
    stepped: StepResult
    next: _Node | None


def _draw_texts(level: Sequence[_Node], policy: Policy, sampling: Sampling, width: int) -> None:
    """Sample G completions of each agent that has to act, at every decision point of a turn."""
    questions: list[tuple[_Node, Question]] = []
    for node in level:
        env, start = node.env, node.start
        for agent in agents_asked(env):
            heard = [message.text for message in env.history(agent)] if env.turn else []
            seeds = [derive(derive(start.seed, g), agent, env.turn, *heard) for g in range(width)]
            questions += [(node, question(env, start.group, agent, node.turns, seed)) for seed in seeds]
    answers = ask(policy, sampling, [asked for _, asked in questions])
    for (node, asked), completion in zip(questions, answers, strict=True):
        node.texts.setdefault(asked.agent, []).append(completion)


def _play_turn(level: Sequence[_Node], pairing: Pairing) -> list[_Node]:
    """Step every joint action of a turn; return the decision points of the next turn."""
    _refuse_too_many(level, pairing)
    chosen = [(node, choice) for node in level for choice in _choices(node, pairing)]
    envs = [node.env.fork() for node, _ in chosen]
    joint_actions = [
        {agent: texts[k] for (agent, texts), k in zip(node.texts.items(), choice, strict=True)}
        for node, choice in chosen
    ]
    following: list[_Node] = []
    for (node, choice), env, stepped in zip(chosen, envs, step_envs(envs, joint_actions), strict=True):
        child = None
        if env.agents:
            child = _Node(node.start, env, (*node.turns, stepped.turn), node.share / _count(node, pairing))
            following.append(child)
        node.joint_actions.append(_JointAction(choice, stepped, child))
    return following


def _choices(node: _Node, pairing: Pairing) -> list[tuple[int, ...]]:
    """Return the joint actions as indices of completions: the g-th of every agent, or all combinations."""
    width = _width(node)
    if pairing == "cross":
        return list(itertools.product(range(width), repeat=len(node.texts)))
    return [(g,) * len(node.texts) for g in range(width)]


def _count(node: _Node, pairing: Pairing) -> int:
    """Return the number of joint actions of a decision point."""
    return _width(node) ** len(node.texts) if pairing == "cross" else _width(node)


def _width(node: _Node) -> int:
    """Return the number of completions per agent; 1 if no agent has to act, for one joint action without texts."""
    return max((len(texts) for texts in node.texts.values()), default=1)


def _refuse_too_many(level: Sequence[_Node], pairing: Pairing) -> None:
    counts: Counter[int] = Counter()
    for node in level:
        counts[node.start.group] += _count(node, pairing)
        if counts[node.start.group] > MAX_JOINT_ACTIONS:
            raise ValueError(
                f"task {node.start.item_id!r} would play more than {MAX_JOINT_ACTIONS} joint actions in one turn; "
                "lower the group size or the number of turns, or leave out tree or 'cross'"
            )


# --- results ----------------------------------------------------------------------------------------------------------


def _decision(node: _Node, turn: int, width: int) -> Decision:
    texts = {agent: tuple(tried) for agent, tried in node.texts.items()}
    branches = tuple(_branch(joint_action, texts) for joint_action in node.joint_actions)
    return Decision(turn, texts, width, branches, node.share)


def _branch(joint_action: _JointAction, agents: Iterable[str]) -> Branch:
    individual = agents if joint_action.stepped.turn.rewards else ()
    by_agent = {agent: _rewards(joint_action, lambda turn, agent=agent: turn.reward_of(agent)) for agent in individual}
    return Branch(joint_action.choice, _rewards(joint_action, lambda turn: turn.reward), by_agent)


def _rewards(joint_action: _JointAction, paid: Callable[[Turn], float]) -> tuple[float, ...]:
    """Return the reward of a joint action, then the mean reward of each later turn."""
    after = joint_action.next
    following = [] if after is None else [_rewards(child, paid) for child in after.joint_actions]
    return (paid(joint_action.stepped.turn), *_mean_rewards(following))


def _mean_rewards(rewards: Sequence[Sequence[float]]) -> list[float]:
    """Return mean rewards by turn; ended episodes count as 0, and episodes that could not be scored are left out."""
    means: list[float] = []
    for t in range(max(map(len, rewards), default=0)):
        now = [r[t] if t < len(r) else 0.0 * r[-1] for r in rewards]  # 0 * NaN: ended without a score
        scored = [r for r in now if not math.isnan(r)]
        means.append(math.fsum(scored) / len(scored) if scored else math.nan)
    return means


def _episodes(node: _Node) -> list[Episode]:
    """Return all trajectories through a decision point."""
    episodes: list[Episode] = []
    start, share = node.start, node.share / len(node.joint_actions)
    for joint_action in node.joint_actions:
        if joint_action.next is not None:
            episodes += _episodes(joint_action.next)
        else:
            turns = (*node.turns, joint_action.stepped.turn)
            episodes.append(Episode(start.item_id, start.seed, turns, joint_action.stepped.terminated, share))
    return episodes
