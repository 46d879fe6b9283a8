"""Messages: for every text, what other texts drawn from the same history, or silence, would have earned."""

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
    """Where a text was said, and by whom; `share` is one over its chance to have alternatives."""

    episode: RunningEpisode
    turn: int
    agent: str
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Messages(Counterfactual):
    """Trajectories side by side, and for every text what alternatives from the same history would have earned.

    What was said before a text, and beside it at the same turn, stays as it was. Texts without tokens, of agents that
    do not learn, have no alternatives.

    Attributes:
        continuation: What is said afterwards, see `Counterfactual`. "frozen" gives no credit to a text that earns by
            what others make of it, such as a draft.
        alternatives: Texts drawn from the same history, for each text that was said.
        silence: Compare with the empty text too; it is no sample of the policy, and not learnt from.
        budget: Most generations per task for alternatives and what follows them. As many texts as certainly fit have
            alternatives, chosen uniformly among the task's; the others are not learnt from. So each stands for as many
            as there are texts for each that was chosen (`Decision.share`): tasks whose episodes are longer, and of
            which a smaller part is looked at, weigh no less. None: all.

    Raises:
        ValueError: There is nothing to compare with; or, in `play`, the budget is too small for one text.
    """

    continuation: Continuation = "resampled"
    alternatives: int = 1
    silence: bool = False
    budget: int | None = None

    def __post_init__(self) -> None:
        Counterfactual.__post_init__(self)
        if self.alternatives < (0 if self.silence else 1):
            raise ValueError(
                f"alternatives is {self.alternatives} and silence is {self.silence}, so a text is compared with "
                "nothing; give at least 1 alternative, or silence"
            )

    def compare(self, episodes: Sequence[RunningEpisode], policy: Policy, sampling: Sampling) -> list[Comparison]:
        """Every text with alternatives from its own history, as far as the budget goes."""
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
        """The texts of a task that get alternatives, all equally likely."""
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
        count = sum(total <= self.budget for total in itertools.accumulate(costs))  # any `count` texts fit
        if not count:
            raise ValueError(
                f"budget is {self.budget}, and the alternatives of one text of task {episodes[0].item_id!r} may take "
                f"{costs[0]} generations; raise budget, or lower alternatives"
            )
        order = generator(episodes[0].seed, "messages").permutation(len(messages))
        share = len(messages) / min(count, len(messages))
        return [messages[place]._replace(share=share) for place in sorted(order[:count].tolist())]

    def _most(self, message: Utterance, asked: int) -> int:
        """Most generations for one text: its alternatives, and after each of them all agents at all later turns."""
        later = message.episode.env.max_turns - message.turn - 1 if self.continuation == "resampled" else 0
        return self.alternatives + (self.alternatives + self.silence) * later * asked
