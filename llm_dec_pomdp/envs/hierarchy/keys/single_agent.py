"""keys-v0 for a single agent: it names keys itself and observes passages, which fill its context.

`wrappers.Centralized` would let a single agent play the hierarchy instead, in which no agent observes passages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ....seeding import generator
from ....types import Event, Message, Score, TaskItem
from ...base import Script, TextDecPOMDP
from ...facts import Facts
from ...task import Task, Transition
from ..base import LEADER, parts_of_main
from .lookup import check_history, number_of, world

if TYPE_CHECKING:
    from .task import Keys


class SingleAgentKeysState(NamedTuple):
    """The state of `SingleAgentKeys`."""

    item: TaskItem
    known: int  # the entity of the last passage; at first the entity of the question
    words: tuple[str, ...]  # words of the agent's history
    passage: str = ""  # the last passage; "" before the first lookup
    lookups: int = 0  # keys named so far
    over: bool = False  # the episode has ended
    turn: int = 0  # joint actions played


class SingleAgentKeys(Task[SingleAgentKeysState]):
    """A single agent that looks up both hops.

    `max_turns` is one turn per delegation and one for the answer, or the corresponding number for a smaller `max_turns`
    of the team.

    Args:
        team: The hierarchy.
    """

    def __init__(self, team: Keys) -> None:
        self.lookup = team.lookup
        self.declared = Facts(
            name=f"{team.declared.name}/alone",
            roles=("single",),
            components=team.declared.components,
            diagnostics=("invocations",),
            score_range=team.declared.score_range,
            vocabulary=self.lookup.vocabulary,
            scripts=("optimal",),
        )
        self.metadata = {**team.metadata, "name": self.declared.name}
        TextDecPOMDP.__init__(self, 1, min(self.lookup.delegations + 1, (team.max_turns + 1) // 2), team.render_mode)
        self._items = team.items

    @property
    def facts(self) -> Facts:
        """Return the facts; the optimum is 1 if two lookups are possible and the context is unlimited."""
        solvable = min(self.lookup.delegations, self.max_turns - 1) >= 2 and not self.lookup.context
        return replace(self.declared, optimum=1.0 if solvable else None)

    def initial_state(self, item: TaskItem, seed: int) -> SingleAgentKeysState:
        """Return the state in which the agent has the question."""
        return SingleAgentKeysState(item, world(item).start, tuple(item.prompt.split()))

    def observations(self, state: SingleAgentKeysState) -> Mapping[str, str | Message]:
        """Return the question or the last passage; with a limited context the end of the history."""
        if state.over:
            return {}
        if self.lookup.context:
            return {LEADER: self.lookup.seen(state.words)}
        return {LEADER: Message("tool", state.passage, "file") if state.passage else state.item.prompt}

    def describe(self, state: SingleAgentKeysState) -> Mapping[str, Any]:
        """Return the table of facts."""
        return {"facts": state.item.fields["facts"]}

    def transition(
        self, state: SingleAgentKeysState, actions: Mapping[str, str], seed: int
    ) -> Transition[SingleAgentKeysState]:
        """Look up a key, or give the answer."""
        text = actions[LEADER].strip()
        state = state._replace(turn=state.turn + 1, words=(*state.words, text))
        key = number_of(text, "k", self.lookup.relations)
        if key is None or state.lookups >= self.lookup.delegations or state.turn >= self.max_turns:
            return self._ended(state, answered=text == "ANS")
        reported = world(state.item).facts[self.lookup.filed_under(key)][state.known]
        passage = self.lookup.passage(reported, generator(seed, "passage"))
        events = (Event("call", LEADER, {"key": text}), Event("result", LEADER, {"passage": passage}))
        words, reset_history = (*state.words, *passage.split()), frozenset([LEADER] if self.lookup.context else [])
        following = state._replace(known=reported, passage=passage, lookups=state.lookups + 1, words=words)
        return Transition(following, 0.0, events=events, reset_history=reset_history)

    def _ended(self, state: SingleAgentKeysState, *, answered: bool) -> Transition[SingleAgentKeysState]:
        correct = bool(state.lookups) and state.known == world(state.item).answer
        parts = parts_of_main(valid=answered, correct=correct)
        score = Score(sum(parts.values()), parts, {"invocations": float(state.lookups)})
        event = Event("answer" if answered else "stop", LEADER, {"answer": f"e{state.known}"} if answered else {})
        return Transition(state._replace(over=True), score.total, score, terminated=True, events=(event,))

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Return keys and ANS."""
        return (*self.lookup.keys(), "ANS")

    def script(self, name: str) -> Script:
        """Return the scripted team "optimal", which looks up both hops in order and answers."""
        return self._optimal if name == "optimal" else super().script(name)

    def _optimal(self, agent: str, history: Sequence[Message]) -> str:
        words = [word for message in history for word in message.text.split()]
        check_history(words, "Q", self.metadata["name"])
        hops = words.count("P")
        return f"k{self.lookup.key_of(int(words[2 + hops][1:]))}" if hops < 2 else "ANS"
