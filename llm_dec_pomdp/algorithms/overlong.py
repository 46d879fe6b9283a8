"""Texts near the token limit lose a part of what they earn: soft overlong punishment (DAPO, arXiv:2503.14476, eq. 13).

With the limit L, a buffer of B tokens before it and a text of n tokens, its agent is paid

    r - p min(1, max(0, n - (L - B)) / B)                                                                   (overlong)

and the others what they were paid. So rewards differ by agent, and each is compared by its own returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..types import Branch, Completion, Decision, Episode, Group, Turn


def punished(groups: Sequence[Group], limit: int, buffer: int, penalty: float) -> list[Group]:
    """Groups in which agents are paid less for texts near the limit.

    Args:
        groups: As they were played.
        limit: L, tokens that a text may have.
        buffer: B, at least 1.
        penalty: p, in units of the reward.
    """

    def loss(completion: Completion | None) -> float:
        length = len(completion.token_ids) if completion else 0
        return penalty * min(1.0, max(0, length - (limit - buffer)) / buffer)  # (overlong)

    def turn_of(turn: Turn, agents: Sequence[str]) -> Turn:
        return replace(turn, rewards={a: turn.paid(a) - loss(turn.actions.get(a)) for a in agents})

    def episode_of(episode: Episode) -> Episode:
        agents = list(dict.fromkeys(agent for turn in episode.turns for agent in (*turn.actions, *turn.rewards)))
        return replace(episode, turns=tuple(turn_of(turn, agents) for turn in episode.turns))

    def branch_of(branch: Branch, decision: Decision) -> Branch:
        """Of a joint action: the penalty of its own texts; those of later turns are not known one by one."""
        individual: dict[str, tuple[float, ...]] = {}
        for (agent, texts), number in zip(decision.actions.items(), branch.choice, strict=True):
            first, *later = branch.rewards_of(agent)
            individual[agent] = (first - loss(texts[number]), *later)
        return replace(branch, individual=individual)

    def decision_of(decision: Decision) -> Decision:
        return replace(decision, branches=tuple(branch_of(branch, decision) for branch in decision.branches))

    return [
        replace(
            group,
            episodes=tuple(map(episode_of, group.episodes)),
            decisions=tuple(map(decision_of, group.decisions)),
        )
        for group in groups
    ]
