"""The grammar "choice", for small models: main picks a lettered sub-question, or goes on to its answer.

The first letter of main's text counts, which must be in upper case; signs before it and all that follows are ignored. A
sub-agent is shown two passages and answers at once; whatever it writes is its report. One of the two sub-questions is
the next open step of the question, the other asks about somebody or something else of the same kind. The seed of the
episode decides which that is, and the order of the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....seeding import derive
from ....types import Message
from .corpus import Corpus
from .free import CHARACTERS, REPORT_WORDS, Free, cut, last_words
from .questions import Effect, Hop, Invocation, Lead, QuestionState, hops_of
from .worlds import RELATIONS, World, world

PASSAGES = 2
LETTERS = "ABC"
CHOOSE = "Reply with one letter, A, B or C."
_FIRST = re.compile(r"[\W_]*([A-Z])")
SHORT = "Answer in one short sentence."


@dataclass(frozen=True)
class Choice:
    """Lettered options; the fields are those of `Free`."""

    kinds: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]
    most: int
    context: int | None = None

    def question(self, state: QuestionState) -> Message:
        """The options, or the request to answer where all invocations are used up."""
        if len(state.invocations) >= self.most:
            return self.request(state)
        first, second = self._options(state)
        lines = [
            f"Question: {state.item.prompt}",
            f"Found: {self.found(state) or 'nothing'}",
            f"A: {self._line(first)}",
            f"B: {self._line(second)}",
            "C: answer now",
            CHOOSE,
        ]
        return Message("told", "\n".join(lines))

    def reports(self, state: QuestionState, fresh: tuple[Invocation, ...]) -> Message:
        """The options that follow from the reports."""
        return self.question(state)

    def request(self, state: QuestionState) -> Message:
        """The request to answer."""
        return Message("told", f"{self.found(state)}\n{state.item.prompt} {SHORT}".lstrip())

    def found(self, state: QuestionState) -> str:
        """What main sees of the reports."""
        text = " ".join(invocation.report for invocation in state.invocations if invocation.report)
        return text if self.context is None else last_words(text, self.context)

    def lead(self, state: QuestionState, text: str) -> Lead:
        """What main's letter decides."""
        match = _FIRST.match(text)
        if match is None or match[1] not in LETTERS:
            return Lead("invalid", text=f"the first letter is none of {', '.join(LETTERS)}")
        if match[1] == "C":
            return Lead("write")
        return Lead("ask", (self._options(state)[LETTERS.index(match[1])],))

    def brief(self, state: QuestionState, invocation: Invocation, corpus: Corpus) -> Effect:
        """The passages and the sub-question."""
        places = corpus.search(invocation.subtask, PASSAGES, self.parts[self.kinds.index(invocation.kind)])
        passages = "\n".join(corpus.passages[place].text for place in places)
        message = Message("told", f"{passages}\n{invocation.subtask} {SHORT}".lstrip())
        return Effect(message, places, call=("search", invocation.subtask))

    def work(self, state: QuestionState, invocation: Invocation, text: str, corpus: Corpus) -> Effect:
        """Whatever a sub-agent writes is its report."""
        report = " ".join(cut(text, REPORT_WORDS, CHARACTERS * REPORT_WORDS).split())
        return Effect(report=report, valid=bool(report))

    # --- candidates ----------------------------------------------------------------------------------------------

    def _options(self, state: QuestionState) -> tuple[tuple[str, str], tuple[str, str]]:
        """Kind and sub-question of A and B."""
        of = world(int(state.item.fields["corpus"].partition(":")[2]))
        hop, subject = _open_step(state, of)
        draw = derive(state.seed, "options", len(state.invocations))
        others = [(r, s) for r, s in of.facts if s != subject and of.kind_of[s] == of.kind_of[subject]]
        relation, name = others[draw % len(others)]
        other = RELATIONS[relation].question.format(x=name)
        gold = (holder(self, hop), hop.question(subject))
        pair = (gold, (self.kinds[(draw >> 8) % len(self.kinds)], other))
        return pair if (draw >> 16) % 2 else (pair[1], pair[0])

    def _line(self, option: tuple[str, str]) -> str:
        kind, question = option
        return question if len(self.kinds) == 1 else f"{kind}: {question}"


def holder(words: Free | Choice, hop: Hop) -> str:
    """The specialist that searches the part of the corpus which a step is about; the first where none does."""
    part = RELATIONS[hop.relation].subject
    return next((k for k, parts in zip(words.kinds, words.parts, strict=True) if part in parts), words.kinds[0])


def _open_step(state: QuestionState, of: World) -> tuple[Hop, str]:
    """The first step with a known subject that has not been reported on; where all have been, the last one."""
    values: list[str | None] = []
    known: tuple[Hop, str] | None = None
    for hop in hops_of(state.item):
        subject = hop.subject or values[hop.after]
        if subject is None:
            values.append(None)
            continue
        known = hop, subject
        values.append(_reported(state, of, hop, subject))
        if values[-1] is None:
            break
    assert known is not None  # the first step names its subject
    return known


def _reported(state: QuestionState, of: World, hop: Hop, subject: str) -> str | None:
    """The value that the last report on a step names; None where none does."""
    asked, kind = hop.question(subject), RELATIONS[hop.relation].value
    for invocation in reversed(state.invocations):
        names = of.named(invocation.report or "", kind) if invocation.subtask == asked else ()
        others = [name for name in names if name != subject]
        if others:
            return others[0]
    return None
