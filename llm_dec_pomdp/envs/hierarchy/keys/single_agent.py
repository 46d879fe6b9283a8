"""The task of `keys-v0` for one agent that has the tools itself: it says keys and reads passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ....seeding import generator
from ....types import Event, Message, TaskItem
from ...task import Transition
from .lookup import Lookup, Told, key_of, number_of

AGENT = "agent_0"


class State(NamedTuple):
    """The state of `KeysAlone`."""

    item: TaskItem
    known: int  # the entity of the last passage; at first that of the question
    words: tuple[str, ...]  # words of the agent's history
    passage: str = ""  # the last passage; "" before any
    lookups: int = 0  # keys said so far
    over: bool = False  # the episode has ended
    turn: int = 0  # joint actions played


class KeysAlone(Lookup[State]):
    """One agent looks both hops up.

    Args:
        size: Relations, entities, delegations, context and filler, see `keys-v0`.
        max_turns, render_mode: See `Task`.
    """

    declared = replace(Lookup.declared, name="keys-v0/alone", roles=("single",), diagnostics=("invocations",))

    def __init__(self, size: tuple[int, int, int, int, int], *, max_turns: int, render_mode: str | None) -> None:
        self.set_size(*size)
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """The agent has the question."""
        return State(item, self.world(item).start, tuple(item.prompt.split()))

    def told(self, state: State) -> Told:
        """The question or the last passage; with a limited context the end of the history."""
        if state.over:
            return {}
        if self.context:
            return {AGENT: self.seen(state.words)}
        return {AGENT: Message("tool", state.passage, "file") if state.passage else state.item.prompt}

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """Look a key up, or answer."""
        text = actions[AGENT].strip()
        state = state._replace(turn=state.turn + 1, words=(*state.words, text))
        key = number_of(text, "k", self.relations)
        usable = key is not None and state.lookups < self.delegations and state.turn < self.max_turns
        if key is None or not usable:
            answered = text == "ANS"
            correct = bool(state.lookups) and state.known == self.world(state.item).answer
            score = self.score(formed=answered, correct=correct, facts={"invocations": float(state.lookups)})
            event = Event("answer" if answered else "stop", AGENT, {"answer": f"e{state.known}"} if answered else {})
            return Transition(state._replace(over=True), score.total, score, terminated=True, events=(event,))
        reported = self.world(state.item).facts[self.filed_under(key)][state.known]
        passage = self.passage(reported, generator(seed, "passage"))
        events = (Event("call", AGENT, {"key": text}), Event("result", AGENT, {"passage": passage}))
        words, again = (*state.words, *passage.split()), frozenset([AGENT] if self.context else [])
        following = state._replace(known=reported, passage=passage, lookups=state.lookups + 1, words=words)
        return Transition(following, 0.0, events=events, anew=again)

    @property
    def solvable(self) -> bool:
        """Whether two keys can be said and everything is seen."""
        return min(self.delegations, self.max_turns - 1) >= 2 and not self.context

    def choices(self, agent: str, history: Sequence[Message] = ()) -> Sequence[str]:
        """Keys and ANS."""
        return (*(f"k{number}" for number in range(self.relations)), "ANS")

    def _optimal(self, agent: str, history: Sequence[Message]) -> str:
        """The key of each hop in turn, then the answer."""
        words = [word for message in history for word in message.text.split()]
        self.refuse_foreign(words, "Q")
        hops = words.count("P")
        return f"k{key_of(int(words[2 + hops][1:]), self.relations)}" if hops < 2 else "ANS"
