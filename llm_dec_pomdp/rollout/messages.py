"""Message rollouts: the rewards if one completion is replaced by others sampled from the same history."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..agents.base import Policy, Sampling
from ..seeding import derive, generator
from .base import SILENT, RunningEpisode, ask, question
from .counterfactual import Comparison, Continuation, Counterfactual


class Utterance(NamedTuple):
    """The position of a completion; `share` is the inverse of the probability that it gets alternatives."""

    episode: RunningEpisode
    turn: int
    agent: str
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Messages(Counterfactual):
    """Trajectories in parallel, and for each completion the rewards of alternatives from the same history.

    Earlier turns, and the teammates' actions at the same turn, are unchanged. Completions without tokens, which belong
    to agents that are not trained, have no alternatives.

    Attributes:
        continuation: The actions after the replaced turn, see `Counterfactual`. "frozen" gives no credit to a message
            whose value lies in the reactions of teammates, such as a draft.
        alternatives: Number of completions that are sampled from the same history, for each completion.
        silence: Whether to compare with the empty text too. It is not a sample of the policy, so it is not trained on.
        budget: Maximum number of generations per task for alternatives and their continuations; None: no limit. The
            completions that get alternatives are chosen uniformly among those of the task, as many as the budget allows
            in the worst case. The other completions are left out of the update. `Decision.share` is the inverse of the
            chosen fraction, so that tasks with longer episodes keep their weight.

    Raises:
        ValueError: `alternatives` is 0 and `silence` is False; or, in `play`, the budget is too small for one
            completion.
    """

    continuation: Continuation = "resampled"
    alternatives: int = 1
    silence: bool = False
    budget: int | None = None

    def __post_init__(self) -> None:
        Counterfactual.__post_init__(self)
        if self.alternatives < (0 if self.silence else 1):
            raise ValueError(
                f"alternatives is {self.alternatives} and silence is {self.silence}, so a completion is compared with "
                "nothing; set alternatives to at least 1, or silence to true"
            )

    def compare(self, episodes: Sequence[RunningEpisode], policy: Policy, sampling: Sampling) -> list[Comparison]:
        """Return every completion with alternatives from its own history, within the budget."""
        messages: list[Utterance] = []
        for _, group in itertools.groupby(episodes, lambda episode: episode.group):
            messages += self._within_budget(list(group))
        questions = [
            question(e.decision_points[t], e.group, agent, e.turns[:t], derive(e.seed, agent, t, "alternative", k))
            for e, t, agent, _ in messages
            for k in range(self.alternatives)
        ]
        answers = iter(ask(policy, sampling, questions))
        comparisons: list[Comparison] = []
        for e, t, agent, share in messages:
            spoken = (e.turns[t].actions[agent], *itertools.islice(answers, self.alternatives))
            texts = {agent: (*spoken, SILENT) if self.silence else spoken}
            comparisons.append(Comparison.of(e, t, texts, len(spoken), share))
        return comparisons

    def _within_budget(self, episodes: Sequence[RunningEpisode]) -> list[Utterance]:
        """Return the completions of a task that get alternatives, chosen uniformly."""
        messages = [
            Utterance(episode, t, agent)
            for episode in episodes
            for t, turn in enumerate(episode.turns)
            for agent, completion in turn.actions.items()
            if completion.token_ids
        ]
        if self.budget is None or not messages:
            return messages
        asked = max(len(turn.actions) for episode in episodes for turn in episode.turns)
        costs = sorted((self._most(message, asked) for message in messages), reverse=True)
        count = sum(total <= self.budget for total in itertools.accumulate(costs))  # for any choice of completions
        if not count:
            raise ValueError(
                f"budget is {self.budget}, and the alternatives of one completion of task {episodes[0].item_id!r} may "
                f"need {costs[0]} generations; raise budget, or lower alternatives"
            )
        order = generator(episodes[0].seed, "messages").permutation(len(messages))
        share = len(messages) / min(count, len(messages))
        return [messages[place]._replace(share=share) for place in sorted(order[:count].tolist())]

    def _most(self, message: Utterance, asked: int) -> int:
        """Return the maximum number of generations for one completion.

        These are its alternatives, and after each of them the actions of all agents at all later turns.
        """
        later = message.episode.env.max_turns - message.turn - 1 if self.continuation == "resampled" else 0
        return self.alternatives + (self.alternatives + self.silence) * later * asked
