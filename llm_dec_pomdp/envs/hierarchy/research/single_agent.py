"""research-v0 for one agent that has the tools itself: the baseline of the hierarchy.

Its history fills with the passages that it searches and reads, where main's fills with reports; with `context` it sees
only the last words of them. Rewards, questions and both grammars are those of the hierarchy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from ....seeding import derive
from ....types import Event, Message, Score, TaskItem, Tool
from ...base import Say
from ...facts import Facts
from ...task import Task, Transition
from .choice import Choice
from .corpus import corpus
from .free import PAGE, SHOWN, TOOLS, last_words, listed, page
from .grammar import ALONE, read, spoken
from .questions import embedded
from .scoring import FORMAT, Work, reward_of_main, truth_of
from .scripts import Scripts
from .state import MAIN, Invocation, Lead, State

if TYPE_CHECKING:
    from .task import Research


@dataclass(frozen=True)
class OwnNotes(Choice):
    """The grammar "choice" for one agent, which sees what it has read and noted."""

    def found(self, state: State) -> str:
        """Passages and notes, in order."""
        passages = corpus(state.item.fields["corpus"]).passages
        seen = [text for one in state.invocations for text in (*(passages[p].text for p in one.retrieved), one.report)]
        text = " ".join(filter(None, seen))
        return text if self.context is None else last_words(text, self.context)


class Solo(Task[State]):
    """One agent searches, reads and answers; the options are those of the task for a hierarchy."""

    def __init__(self, team: Research) -> None:
        self.metadata = {**team.metadata, "name": f"{team.metadata['name']}/alone"}
        self.declared = Facts(
            name=self.metadata["name"],
            roles=("solo",),
            components=team.declared.components,
            diagnostics=("right", "support", "retrieval_hit", "searches"),
            score_range=(-math.inf, 1.0),  # follows max_turns
            silence_is_lowest=not team.cost_per_turn,
            hidden_fields=team.declared.hidden_fields,
            scripts=("optimal",),
        )
        self.source = team.source  # type: ignore[misc]
        self.team = team
        self._words = OwnNotes(("sub",), ((),), team.max_invocations, team.context)
        super(Task, self).__init__(1, team.max_turns, team.render_mode)
        self._items = team.items

    @property
    def facts(self) -> Facts:
        """From minus the costs of all turns to 1."""
        return replace(self.declared, score_range=(-self.max_turns * self.team.cost_per_turn, 1.0))

    def initial_state(self, item: TaskItem, seed: int) -> State:
        """The agent is told the question."""
        state = State(item, derive(seed, "options"))
        return state._replace(told=((MAIN, self._question(state)),))

    def told(self, state: State) -> Mapping[str, str | Message]:
        """What follows from the last text."""
        return dict(state.told)

    def script(self, name: str) -> Say:
        """ "optimal" searches for each open step of an embedded question, and answers."""
        if name != "optimal":
            return super().script(name)
        return Scripts((*embedded(), *self.items), self.team.grammar, self._words).alone

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """The calls of the grammar "free"."""
        return tuple(TOOLS[name] for name in ALONE) if self.team.grammar == "free" else ()

    def describe(self, state: State) -> Mapping[str, Any]:
        """What was searched, read and noted."""
        return {"searches": [{**one._asdict(), "retrieved": list(one.retrieved)} for one in state.invocations]}

    def transition(self, state: State, actions: Mapping[str, str], seed: int) -> Transition[State]:
        """The agent searches, reads, notes or answers."""
        [text] = actions.values()
        now = state._replace(turn=state.turn + 1, told=())
        if state.writing:
            return self._end(now, Lead("answer", text=text) if text.strip() else Lead("invalid", text="it is empty"))
        return (self._pick if self.team.grammar == "choice" else self._search)(now, text)

    def _pick(self, state: State, text: str) -> Transition[State]:
        """A letter, or a note on what was read."""
        if state.working:
            *earlier, last = state.invocations
            note = self._words.work(state, last, text, corpus(state.item.fields["corpus"]))
            following = state._replace(invocations=(*earlier, last._replace(report=note.report, valid=note.valid)))
            full = len(following.invocations) == self._words.most
            told = self._words.question(following)
            return self._on(following._replace(writing=full, told=((MAIN, told),)), ())
        lead = self._words.lead(state, text)
        if lead.what == "write":
            return self._on(state._replace(writing=True, told=((MAIN, self._words.request(state)),)), ())
        if lead.what != "ask":
            return self._end(state, lead)
        one = Invocation(MAIN, *lead.asks[0])
        step = self._words.brief(state, one, corpus(state.item.fields["corpus"]))
        one = one._replace(retrieved=step.retrieved)
        following = state._replace(invocations=(*state.invocations, one), told=((MAIN, cast("Message", step.told)),))
        return self._on(following, (Event("call", MAIN, {"tool": "search", "input": one.subtask}),))

    def _search(self, state: State, text: str) -> Transition[State]:
        """A search, a page, or the answer."""
        actions = read(text, ALONE)
        if not actions:
            return self._end(state, Lead("invalid", text="no line SEARCH: ..., READ: ..., ANSWER: ... or STOP"))
        first = actions[0]
        if first.name in ("answer", "stop"):
            return self._end(state, Lead(first.name, text=first.text))
        read_from = corpus(state.item.fields["corpus"])
        places = read_from.search(first.text, SHOWN, ()) if first.name == "search" else page(read_from, first.text, ())
        shown = listed(read_from, places) or "There is nothing."
        one = Invocation(MAIN, "sub", spoken(first), retrieved=places, report=shown)
        following = state._replace(invocations=(*state.invocations, one))
        message = Message("tool", shown, first.name) if self.team.context is None else self._question(following)
        events = (
            Event("call", MAIN, {"tool": first.name, "input": first.text}),
            Event("result", MAIN, {"tool": first.name, "output": shown}),
        )
        return self._on(following._replace(told=((MAIN, message),)), events)

    def _question(self, state: State) -> Message:
        """What the agent is told at first; with a limited context or with options, what it is told in every turn."""
        if self.team.grammar == "choice":
            return self._words.question(state)
        lines = [
            f"Question: {state.item.prompt}",
            "In each turn write one of these:",
            f"SEARCH: words to look for   (gives {SHOWN} passages)",
            f"READ: number of a passage, to see the {PAGE} before and after it",
            "ANSWER: the answer in a few words",
            "STOP",
            f"You have {self.max_turns} turns. Letters without a name, gossip and rumours may be wrong.",
        ]
        if self.team.context is not None and state.invocations:
            notes = "\n".join(f"{one.subtask}\n{one.report}" for one in state.invocations)
            lines.append(last_words(notes, self.team.context))
        return Message("told", "\n".join(lines))

    def _on(self, state: State, events: Sequence[Event]) -> Transition[State]:
        if state.turn >= self.max_turns:
            late = Lead("invalid", text=f"no answer in {self.max_turns} turns")
            return self._end(state._replace(told=()), late)
        whole = self.team.grammar == "choice" or self.team.context is not None
        return Transition(state, 0.0, events=tuple(events), anew=frozenset({MAIN} if whole else ()))

    def _end(self, state: State, lead: Lead) -> Transition[State]:
        """Pay R_M of arXiv:2511.13288; the answer itself counts as the report."""
        truth = truth_of(state.item)
        seen = tuple(place for one in state.invocations for place in one.retrieved)
        work = [Work(state.item.prompt, seen, lead.text if lead.what == "answer" else "")]
        valid, right = lead.what != "invalid", truth.right(work[0].report)
        support = truth.supported(work)
        cost = self.team.cost_per_turn * state.turn
        earned = reward_of_main(valid=valid, correct=right and support)
        parts = {"format": FORMAT * valid, "correct": earned - FORMAT * valid, "cost": 0.0 - cost}
        facts = {
            "right": float(right),
            "support": float(support),
            "retrieval_hit": truth.hits(work),
            "searches": float(len(state.invocations)),
        }
        score = Score(sum(parts.values()), parts, facts, {} if valid else {MAIN: lead.text})
        event = Event("answer" if lead.what == "answer" else "stop", MAIN, {"text": lead.text})
        return Transition(state, score.total, score, terminated=True, events=(event,))
