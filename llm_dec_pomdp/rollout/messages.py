"""Messages: beside every text that was said, what others drawn from the same history would have led to, and silence."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..agents.base import Policy, Sampling
from ..seeding import derive, generator
from .base import SILENT, RunningEpisode, ask, question
from .counterfactual import Comparison, Continuation, Counterfactual


class Said(NamedTuple):
    """A text that was said: by whom, and where."""

    episode: RunningEpisode
    turn: int
    agent: str


@dataclass(frozen=True, slots=True)
class Messages(Counterfactual):
    """Trajectories side by side, and for every text what others in its place would have earned.

    All that was said before a text, and beside it at the same turn, stays as it was. Texts without tokens, of agents
    that do not learn, have no alternatives.

    Attributes:
        continuation: What is said afterwards, see `Counterfactual`. "frozen" gives nothing to a text that earns by
            what others make of it, as a draft does.
        alternatives: Texts that are drawn from the same history, for each that was said.
        silence: Whether the empty text is compared with too. It is no sample of the policy, and is not learnt from.
        budget: Most generations that alternatives and what follows them may take, per task. As many texts as are
            certain to fit, chosen evenly among all of the task, have alternatives; the others are not learnt from.
            None: all.

    Raises:
        ValueError: There is nothing to compare with; or, in `play`, the budget does not suffice for one text.
    """

    continuation: Continuation = "resampled"
    alternatives: int = 1
    silence: bool = False
    budget: int | None = None

    def __post_init__(self) -> None:
        Counterfactual.__post_init__(self)
        if self.alternatives < (0 if self.silence else 1):
            raise ValueError(
                f"alternatives is {self.alternatives} and silence is {self.silence}, so that a text is compared with "
                "nothing; give at least 1 alternative, or 0 and silence"
            )

    def compare(self, episodes: Sequence[RunningEpisode], policy: Policy, sampling: Sampling) -> list[Comparison]:
        """Every text, as far as the budget goes, with alternatives from its own history."""
        messages: list[Said] = []
        for _, group in itertools.groupby(episodes, lambda episode: episode.group):
            messages += self._within_budget(list(group))
        questions = [
            question(e.decision_points[t], e.group, agent, e.turns[:t], derive(e.seed, agent, t, "alternative", k))
            for e, t, agent in messages
            for k in range(self.alternatives)
        ]
        answers = iter(ask(policy, sampling, questions))
        comparisons: list[Comparison] = []
        for e, t, agent in messages:
            drawn = (e.turns[t].actions[agent], *itertools.islice(answers, self.alternatives))
            texts = {agent: (*drawn, SILENT) if self.silence else drawn}
            comparisons.append(Comparison.of(e, t, texts, len(drawn)))
        return comparisons

    def _within_budget(self, episodes: Sequence[RunningEpisode]) -> list[Said]:
        """The texts of a task that have alternatives: any is as likely as any other, whatever it says."""
        messages = [
            Said(episode, t, agent)
            for episode in episodes
            for t, turn in enumerate(episode.turns)
            for agent, said in turn.actions.items()
            if said.token_ids
        ]
        if self.budget is None or not messages:
            return messages
        asked = max(len(turn.actions) for episode in episodes for turn in episode.turns)  # at most at once
        costs = sorted((self._most(message, asked) for message in messages), reverse=True)
        count = sum(total <= self.budget for total in itertools.accumulate(costs))  # any so many are certain to fit
        if not count:
            raise ValueError(
                f"budget is {self.budget}, and the alternatives of one text of task {episodes[0].item_id!r} may take "
                f"{costs[0]} generations; raise it, or lower alternatives"
            )
        order = generator(episodes[0].seed, "messages").permutation(len(messages))
        return [messages[place] for place in sorted(order[:count].tolist())]

    def _most(self, message: Said, asked: int) -> int:
        """Most generations for one text: its alternatives, and everybody anew at all turns after each of them."""
        later = message.episode.env.max_turns - message.turn - 1 if self.continuation == "resampled" else 0
        return self.alternatives + (self.alternatives + self.silence) * later * asked
