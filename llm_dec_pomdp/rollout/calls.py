"""Call rollouts: trajectories, and the rewards if an agent makes no tool call at one turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..agents.base import Policy, Sampling
from ..types import NO_CALL, Completion
from .base import RunningEpisode
from .counterfactual import Comparison, Continuation, Counterfactual


@dataclass(frozen=True, slots=True)
class Calls(Counterfactual):
    """Trajectories in parallel, and the rewards of each without the calls of one completion.

    The environment is forked before each completion of an agent that can call tools. In the fork, the agent's text is
    `types.NO_CALL`: no tool runs, and the agent observes "no result". The fork does not depend on the completion that
    it replaces, so completions without a call have a fork too. Earlier turns, and the teammates' actions at the same
    turn, are unchanged. Completions without tokens, which belong to agents that are not trained, have no fork.

    Attributes:
        continuation: The actions after the turn without a call, see `Counterfactual`.
    """

    continuation: Continuation = "resampled"

    def compare(self, episodes: Sequence[RunningEpisode], policy: Policy, sampling: Sampling) -> list[Comparison]:
        """Return a comparison of each completion of an agent that can call tools with `types.NO_CALL`."""
        return [
            Comparison.of(episode, t, {agent: (completion, Completion(NO_CALL))})
            for episode in episodes
            for t, turn in enumerate(episode.turns)
            for agent, completion in turn.actions.items()
            if completion.token_ids and episode.decision_points[t].can_call(agent)
        ]
