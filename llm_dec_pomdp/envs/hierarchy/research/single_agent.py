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
from ...task import Transition
from ..base import MAIN, SingleAgent, parts_of_main
from .choice import Choice
from .corpus import corpus
from .free import ALONE, HITS, PAGE, TOOLS, last_words, line_of, page, read
from .questions import Invocation, Lead, QuestionState, embedded, tool_events
from .scoring import truth_of
from .scripts import Scripts

if TYPE_CHECKING:
    from .task import Research


@dataclass(frozen=True)
class Notes(Choice):
    """The grammar "choice" for one agent, which sees what it has read and noted."""

    def found(self, state: QuestionState) -> str:
        """Passages and notes, in order."""
        passages = corpus(state.item.fields["corpus"]).passages
        works = state.invocations
        seen = [text for work in works for text in (*(passages[place].text for place in work.retrieved), work.report)]
        text = " ".join(filter(None, seen))
        return text if self.context is None else last_words(text, self.context)


class ResearchAlone(SingleAgent[QuestionState]):
    """One agent searches, reads and answers; the options are those of the task for a hierarchy.

    Args:
        team: The hierarchy.
    """

    def __init__(self, team: Research) -> None:
        declared = Facts(
            name=team.declared.name,
            roles=("solo",),
            components=team.declared.components,
            diagnostics=("right", "support", "retrieval_hit", "searches"),
            score_range=(-math.inf, 1.0),  # follows max_turns
            silence_is_lowest=not team.cost_per_turn,
            hidden_fields=team.declared.hidden_fields,
            scripts=("optimal",),
        )
        super().__init__(team, declared, team.max_turns)
        self._grammar, self._context, self._cost_per_turn = team.grammar, team.context, team.cost_per_turn
        self._words = Notes(("sub",), ((),), team.max_invocations, team.context)

    @property
    def facts(self) -> Facts:
        """From minus the costs of all turns to 1."""
        return replace(self.declared, score_range=(-self.max_turns * self._cost_per_turn, 1.0))

    def initial_state(self, item: TaskItem, seed: int) -> QuestionState:
        """The agent is told the question."""
        state = QuestionState(item, derive(seed, "options"))
        return state._replace(messages=((MAIN, self._question(state)),))

    def told(self, state: QuestionState) -> Mapping[str, str | Message]:
        """What follows from the last text."""
        return dict(state.messages)

    def script(self, name: str) -> Say:
        """ "optimal" searches for each open step of an embedded question, and answers."""
        if name != "optimal":
            return super().script(name)
        return Scripts((*embedded(), *self.items), self._grammar, self._words).alone

    def tools(self, agent: str) -> tuple[Tool, ...]:
        """The calls of the grammar "free"."""
        return tuple(TOOLS[name] for name in ALONE) if self._grammar == "free" else ()

    def describe(self, state: QuestionState) -> Mapping[str, Any]:
        """What was searched, read and noted."""
        return {"searches": [{**work._asdict(), "retrieved": list(work.retrieved)} for work in state.invocations]}

    def transition(self, state: QuestionState, actions: Mapping[str, str], seed: int) -> Transition[QuestionState]:
        """The agent searches, reads, notes or answers."""
        [text] = actions.values()
        now = state._replace(turn=state.turn + 1, messages=())
        if state.writing:
            return self._end(now, Lead("answer", text=text) if text.strip() else Lead("invalid", text="it is empty"))
        return (self._pick if self._grammar == "choice" else self._search)(now, text)

    def _pick(self, state: QuestionState, text: str) -> Transition[QuestionState]:
        """A letter, or a note on what was read."""
        if state.working:
            *earlier, last = state.invocations
            note = self._words.work(state, last, text, corpus(state.item.fields["corpus"]))
            following = state._replace(invocations=(*earlier, last._replace(report=note.report, valid=note.valid)))
            full = len(following.invocations) == self._words.most
            message = self._words.question(following)
            return self._on(following._replace(writing=full, messages=((MAIN, message),)), ())
        lead = self._words.lead(state, text)
        if lead.what == "write":
            return self._on(state._replace(writing=True, messages=((MAIN, self._words.request(state)),)), ())
        if lead.what != "ask":
            return self._end(state, lead)
        work = Invocation(MAIN, *lead.asks[0])
        effect = self._words.brief(state, work, corpus(state.item.fields["corpus"]))
        works = (*state.invocations, work._replace(retrieved=effect.retrieved))
        following = state._replace(invocations=works, messages=((MAIN, cast("Message", effect.message)),))
        return self._on(following, (Event("call", MAIN, {"tool": "search", "input": work.subtask}),))

    def _search(self, state: QuestionState, text: str) -> Transition[QuestionState]:
        """A search, a page, or the answer."""
        actions = read(text, ALONE)
        if not actions:
            return self._end(state, Lead("invalid", text="no line SEARCH: ..., READ: ..., ANSWER: ... or STOP"))
        tool, argument, _ = actions[0]
        if tool in ("answer", "stop"):
            return self._end(state, Lead(tool, text=argument))
        passages = corpus(state.item.fields["corpus"])
        places = passages.search(argument, HITS, ()) if tool == "search" else page(passages, argument, ())
        result = passages.listed(places) or "There is nothing."
        work = Invocation(MAIN, "sub", line_of(actions[0]), retrieved=places, report=result)
        following = state._replace(invocations=(*state.invocations, work))
        message = Message("tool", result, tool) if self._context is None else self._question(following)
        events = tool_events(MAIN, tool, argument, result)
        return self._on(following._replace(messages=((MAIN, message),)), events)

    def _question(self, state: QuestionState) -> Message:
        """What the agent is told at first; with a limited context or with options, what it is told in every turn."""
        if self._grammar == "choice":
            return self._words.question(state)
        lines = [
            f"Question: {state.item.prompt}",
            "In each turn write one of these:",
            f"SEARCH: words to look for   (gives {HITS} passages)",
            f"READ: number of a passage, to see the {PAGE} before and after it",
            "ANSWER: the answer in a few words",
            "STOP",
            f"You have {self.max_turns} turns. Letters without a name, gossip and rumours may be wrong.",
        ]
        if self._context is not None and state.invocations:
            notes = "\n".join(f"{work.subtask}\n{work.report}" for work in state.invocations)
            lines.append(last_words(notes, self._context))
        return Message("told", "\n".join(lines))

    def _on(self, state: QuestionState, events: Sequence[Event]) -> Transition[QuestionState]:
        if state.turn >= self.max_turns:
            late = Lead("invalid", text=f"no answer in {self.max_turns} turns")
            return self._end(state._replace(messages=()), late)
        whole = self._grammar == "choice" or self._context is not None
        return Transition(state, 0.0, events=tuple(events), anew=frozenset({MAIN} if whole else ()))

    def _end(self, state: QuestionState, lead: Lead) -> Transition[QuestionState]:
        """Pay R_M; the answer itself counts as the report."""
        truth = truth_of(state.item)
        seen = tuple(place for work in state.invocations for place in work.retrieved)
        answer = lead.text if lead.what == "answer" else ""
        whole = [Invocation(MAIN, "sub", state.item.prompt, retrieved=seen, report=answer)]
        valid, right, support = lead.what != "invalid", truth.right(answer), truth.supported(whole)
        cost = self._cost_per_turn * state.turn
        parts = parts_of_main(valid=valid, correct=right and support) | {"cost": 0.0 - cost}
        facts = {
            "right": float(right),
            "support": float(support),
            "retrieval_hit": truth.hits(whole),
            "searches": float(len(state.invocations)),
        }
        score = Score(sum(parts.values()), parts, facts, {} if valid else {MAIN: lead.text})
        event = Event("answer" if lead.what == "answer" else "stop", MAIN, {"text": lead.text})
        return Transition(state, score.total, score, terminated=True, events=(event,))
