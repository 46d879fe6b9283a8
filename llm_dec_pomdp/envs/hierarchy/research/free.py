"""The grammar "free": prompts, tools, and the effects of texts."""

from __future__ import annotations

from dataclasses import dataclass

from ....registries import nearest
from ....types import Message, Tool
from .corpus import Corpus
from .grammar import FINDS, LEADS, cut, read
from .state import Invocation, Lead, State, Step

SUB_TURNS = 6  # texts of an invocation, the last of which has to be its report
SHOWN = 5  # passages that a search gives
PAGE = 3  # passages before and after the one that is read
REPORT_WORDS, SUBTASK_WORDS = 60, 60
CHARACTERS = 8  # allowed for a word, on average, where a text is cut


TOOLS = {
    "ask": Tool(
        "ask",
        "Ask a sub-agent to find something out. Several calls in one turn are worked on at the same time.",
        (("to", "Name of the sub-agent."), ("subtask", "What it is to find out; it knows nothing else.")),
    ),
    "answer": Tool("answer", "Give the answer.", (("text", "The answer in a few words."),)),
    "stop": Tool("stop", "Give up without an answer."),
    "search": Tool("search", "Search for passages.", (("query", "Words to look for."),)),
    "read": Tool("read", "See what stands around a passage.", (("number", "Number of the passage."),)),
    "report": Tool("report", "Report what was found, and finish.", (("text", "The report, in a few words."),)),
}


@dataclass(frozen=True)
class Free:
    """Free texts with lines or calls."""

    kinds: tuple[str, ...]  # names of the specialists; ("sub",) where there are none
    parts: tuple[tuple[str, ...], ...]  # parts of the corpus that each searches; () for all
    most: int  # how many invocations there may be
    context: int | None = None  # how many words of the reports main is told, the last ones; None: its history grows

    def question(self, state: State) -> Message:
        """What main is told at first, and with a limited context always."""
        names = " or ".join(self.kinds)
        lines = [
            f"Question: {state.item.prompt}",
            "You do not search yourself. You ask sub-agents who do, and see nothing but their reports. A sub-agent "
            "knows what you write to it and nothing else.",
            f"Write one of these (of the first as many lines as you like; you may ask {self.most} times in all):",
            f"ASK name: what to find out   (the name is {names})",
            "ANSWER: the answer in a few words",
            "STOP",
        ]
        if self.context is not None and state.invocations:
            lines += [last_words(_reports(state.invocations), self.context), self._left(state)]
        return Message("told", "\n".join(lines))

    def reports(self, state: State, fresh: tuple[Invocation, ...]) -> Message:
        """What main is told when all sub-agents that it asked have reported."""
        return Message("tool", f"{_reports(fresh)}\n{self._left(state)}", "ask")

    def lead(self, state: State, text: str) -> Lead:
        """What main's text decides."""
        actions = read(text, LEADS)
        if not actions:
            return Lead("invalid", text="no line ASK name: ..., ANSWER: ... or STOP")
        first = actions[0]
        if first.name != "ask":
            return Lead(first.name, text=first.text)
        left = self.most - len(state.invocations)
        if len(actions) > left:
            return Lead("invalid", text=f"{len(actions)} sub-agents are asked and {left} may be")
        asks: list[tuple[str, str]] = []
        for action in actions:
            alone = self.kinds[0] if not action.to and len(self.kinds) == 1 else None
            kind = next((kind for kind in self.kinds if kind.lower() == action.to.lower()), alone)
            if kind is None:
                return Lead("invalid", text=f"nobody is called {action.to!r:.60}; {nearest(action.to, self.kinds)}")
            asks.append((kind, cut(action.text, SUBTASK_WORDS, CHARACTERS * SUBTASK_WORDS)))
        return Lead("ask", tuple(asks))

    def brief(self, state: State, invocation: Invocation, corpus: Corpus) -> Step:
        """What a sub-agent is told at first."""
        lines = [
            f"Find out: {invocation.subtask}",
            "In each turn write one of these:",
            "SEARCH: words to look for",
            "READ: number of a passage, to see what stands around it",
            f"REPORT: what you found, in at most {REPORT_WORDS} words",
            f"You have {SUB_TURNS} turns. Letters without a name, gossip and rumours may be wrong.",
        ]
        return Step(Message("told", "\n".join(lines)))

    def work(self, state: State, invocation: Invocation, text: str, corpus: Corpus) -> Step:
        """What a sub-agent's text does."""
        actions = read(text, FINDS)
        if not actions:
            return Step(report="", valid=False)
        name, said, _ = actions[0]
        if name == "report":
            return Step(report=cut(said, REPORT_WORDS, CHARACTERS * REPORT_WORDS))
        left = SUB_TURNS - invocation.turns - 1
        if not left:
            return Step(report="", valid=False, call=(name, said))
        own = self.parts[self.kinds.index(invocation.kind)]
        if name == "search":
            places = corpus.search(said, SHOWN, own)
            shown = listed(corpus, places) or "Nothing has these words."
        else:
            places = page(corpus, said, own)
            shown = listed(corpus, places) or f"There is no passage {said!r:.20}; read a number that a search gave."
        if left == 1:
            shown += "\nThis is your last turn: REPORT what you found."
        return Step(Message("tool", shown, name), places, call=(name, said))

    def _left(self, state: State) -> str:
        return f"You may ask {self.most - len(state.invocations)} more."


def _reports(invocations: tuple[Invocation, ...]) -> str:
    return "\n".join(
        f"{one.kind}, asked: {one.subtask}\nreports: {one.report or '(nothing usable)'}" for one in invocations
    )


def listed(corpus: Corpus, places: tuple[int, ...]) -> str:
    """Passages with their numbers and, where the text does not name it, the title of their page."""
    lines: list[str] = []
    for place in places:
        text, title = corpus.passages[place][:2]
        lines.append(f"[{place}] {text}" if not title or title in text else f"[{place}] {title}: {text}")
    return "\n".join(lines)


def page(corpus: Corpus, said: str, parts: tuple[str, ...]) -> tuple[int, ...]:
    """The passages around the one whose number a text gives; () where there is none that may be read."""
    digits = said.strip(" []#.")[:12]
    place = int(digits) if digits.isascii() and digits.isdigit() else -1
    if not 0 <= place < len(corpus.passages) or (parts and corpus.passages[place].part not in parts):
        return ()
    return corpus.page(place, PAGE)


def last_words(text: str, count: int) -> str:
    """The last words of a text, its line breaks kept."""
    starts = [
        place for place, sign in enumerate(text) if not sign.isspace() and (not place or text[place - 1].isspace())
    ]
    return text[starts[-count] :] if count < len(starts) else text
