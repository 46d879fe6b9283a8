"""Soft overlong punishment (DAPO, arXiv:2503.14476, equation 13): a penalty near the token limit.

With the limit L of the agent's completion, a buffer of B tokens before it and a completion of n tokens, the agent's
reward is

    r - p min(1, max(0, n - (L - B)) / B)                                                                   (overlong)

The rewards of teammates do not change. So rewards differ by agent, and each agent has advantages of its own returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..types import Branch, Decision, Episode, Group, Turn


def punished(group: Group, limits: Mapping[str, int], buffer: int, penalty: float) -> Group:
    """Return a group in which completions near the limit lower the reward of their agent.

    Args:
        group: The sampled group.
        limits: L of every agent, in tokens.
        buffer: B, at least 1.
        penalty: p, in units of the reward.
    """

    def loss(agent: str, tokens: int) -> float:
        return penalty * min(1.0, max(0, tokens - (limits[agent] - buffer)) / buffer)  # (overlong)

    def turn_of(turn: Turn, agents: Sequence[str]) -> Turn:
        losses = {agent: loss(agent, len(text.token_ids)) for agent, text in turn.actions.items()}
        return replace(turn, rewards={agent: turn.reward_of(agent) - losses.get(agent, 0.0) for agent in agents})

    def episode_of(episode: Episode) -> Episode:
        agents = list(dict.fromkeys(agent for turn in episode.turns for agent in (*turn.actions, *turn.rewards)))
        return replace(episode, turns=tuple(turn_of(turn, agents) for turn in episode.turns))

    def branch_of(branch: Branch, decision: Decision) -> Branch:
        """Lower the rewards of this turn only, since a branch does not contain the completions of later turns."""
        individual: dict[str, tuple[float, ...]] = {}
        for (agent, texts), number in zip(decision.actions.items(), branch.choice, strict=True):
            first, *later = branch.rewards_of(agent)
            individual[agent] = (first - loss(agent, len(texts[number].token_ids)), *later)
        return replace(branch, individual=individual)

    def decision_of(decision: Decision) -> Decision:
        return replace(decision, branches=tuple(branch_of(branch, decision) for branch in decision.branches))

    return replace(
        group,
        episodes=tuple(map(episode_of, group.episodes)),
        decisions=tuple(map(decision_of, group.decisions)),
    )
