"""The grammar "free": its texts, prompts and tools, and what texts do.

| who | lines | calls |
|---|---|---|
| main | `ASK name: subtask` (several at once), `ANSWER: text`, `STOP` | `ask(to, subtask)`, `answer(text)`, `stop()` |
| sub-agent | `SEARCH: words`, `READ: number`, `REPORT: text` | `search(query)`, `read(number)`, `report(text)` |

Calls have the form of many chat templates: `<tool_call>{"name": "search", "arguments": {"query": "..."}}</tool_call>`.
Other text is for thinking and is not read. The first line or call decides what is done in this turn; where it is an
ASK of main, all further ones count too. A text without any is invalid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ....registries import nearest
from ....types import Message, Tool
from .corpus import Corpus
from .questions import Effect, Invocation, Lead, QuestionState

SUB_TURNS = 6  # texts of an invocation, the last of which has to be its report
HITS = 5  # passages that a search gives
PAGE = 3  # passages before and after the one that is read
REPORT_WORDS, SUBTASK_WORDS = 60, 60
CHARACTERS = 8  # allowed for a word, on average, where a text is cut

LEADS = {"ask": ("to", "subtask"), "answer": ("text",), "stop": ()}  # action -> its arguments, the main ones last
FINDS = {"search": ("query",), "read": ("number",), "report": ("text",)}
ALONE = {"search": ("query",), "read": ("number",), "answer": ("text",), "stop": ()}

_CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_LINE = re.compile(
    r"^[ \t]*(ASK|ANSWER|STOP|SEARCH|READ|REPORT)\b[ \t]*([^:\n]{0,80}?)[ \t]*(?::[ \t]*(.*))?$", re.MULTILINE
)

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

    def question(self, state: QuestionState) -> Message:
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

    def reports(self, state: QuestionState, fresh: tuple[Invocation, ...]) -> Message:
        """What main is told when all sub-agents that it asked have reported."""
        return Message("tool", f"{_reports(fresh)}\n{self._left(state)}", "ask")

    def lead(self, state: QuestionState, text: str) -> Lead:
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
            only = self.kinds[0] if not action.to and len(self.kinds) == 1 else None
            kind = next((kind for kind in self.kinds if kind.lower() == action.to.lower()), only)
            if kind is None:
                return Lead("invalid", text=f"nobody is called {action.to!r:.60}; {nearest(action.to, self.kinds)}")
            asks.append((kind, cut(action.text, SUBTASK_WORDS, CHARACTERS * SUBTASK_WORDS)))
        return Lead("ask", tuple(asks))

    def brief(self, state: QuestionState, invocation: Invocation, corpus: Corpus) -> Effect:
        """What a sub-agent is told at first."""
        lines = [
            f"Find out: {invocation.subtask}",
            "In each turn write one of these:",
            "SEARCH: words to look for",
            "READ: number of a passage, to see what stands around it",
            f"REPORT: what you found, in at most {REPORT_WORDS} words",
            f"You have {SUB_TURNS} turns. Letters without a name, gossip and rumours may be wrong.",
        ]
        return Effect(Message("told", "\n".join(lines)))

    def work(self, state: QuestionState, invocation: Invocation, text: str, corpus: Corpus) -> Effect:
        """What a sub-agent's text does."""
        actions = read(text, FINDS)
        if not actions:
            return Effect(report="", valid=False)
        name, argument, _ = actions[0]
        if name == "report":
            return Effect(report=cut(argument, REPORT_WORDS, CHARACTERS * REPORT_WORDS))
        left = SUB_TURNS - invocation.turns - 1
        if not left:
            return Effect(report="", valid=False, call=(name, argument))
        parts = self.parts[self.kinds.index(invocation.kind)]
        if name == "search":
            places = corpus.search(argument, HITS, parts)
            result = corpus.listed(places) or "Nothing has these words."
        else:
            places = page(corpus, argument, parts)
            result = corpus.listed(places) or f"There is no passage {argument!r:.20}; read a number that a search gave."
        if left == 1:
            result += "\nThis is your last turn: REPORT what you found."
        return Effect(Message("tool", result, name), places, call=(name, argument))

    def _left(self, state: QuestionState) -> str:
        return f"You may ask {self.most - len(state.invocations)} more."


def _reports(invocations: tuple[Invocation, ...]) -> str:
    return "\n".join(
        f"{call.kind}, asked: {call.subtask}\nreports: {call.report or '(nothing usable)'}" for call in invocations
    )


def page(corpus: Corpus, number: str, parts: tuple[str, ...]) -> tuple[int, ...]:
    """The passages around the one whose number a text gives; () where there is none that may be read."""
    digits = number.strip(" []#.")[:12]
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


# --- reading texts ----------------------------------------------------------------------------------------------------


class Action(NamedTuple):
    """What an agent does."""

    name: str  # "ask", "answer", "stop", "search", "read" or "report"
    text: str = ""  # what is asked, looked for or said
    to: str = ""  # who is asked; "" where nobody is named


def read(text: str, allowed: Mapping[str, tuple[str, ...]]) -> tuple[Action, ...]:
    """The action of a text, or several that ask; () where it is none of the `allowed` ones."""
    acts = list(_calls(text, allowed)) if "<tool_call>" in text else list(_lines(text, allowed))
    if not acts:
        return ()
    if acts[0].name != "ask":
        return (acts[0],)
    return tuple(action for action in acts if action.name == "ask")


def _lines(text: str, allowed: Mapping[str, tuple[str, ...]]) -> Iterator[Action]:
    for match in _LINE.finditer(text):
        name, to, argument = match[1].lower(), match[2], (match[3] or "").strip()
        if name not in allowed or (to and name != "ask"):
            continue
        if argument or name == "stop":
            yield Action(name, argument, to)


def _calls(text: str, allowed: Mapping[str, tuple[str, ...]]) -> Iterator[Action]:
    for match in _CALL.finditer(text):
        try:
            call: Any = json.loads(match[1])
            arguments: Any = call.get("arguments", {})
            arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
            values = {str(key): str(value).strip() for key, value in arguments.items()}
            name: Any = call.get("name")
        except (ValueError, RecursionError, AttributeError):  # no object, or one that is too deep
            continue
        if not isinstance(name, str) or name not in allowed:
            continue
        argument = values.get(allowed[name][-1], "") if allowed[name] else ""
        if argument or name == "stop":
            yield Action(name, argument, values.get("to", ""))


def line_of(action: Action) -> str:
    """The line of an action."""
    return action.name.upper() + (f" {action.to}" if action.to else "") + (f": {action.text}" if action.text else "")


def cut(text: str, words: int, characters: int) -> str:
    """A text cut to so many words and characters; a cut is noted at its end."""
    kept = " ".join(text[: 4 * characters].split()[:words])[:characters]
    if len(kept) == len(" ".join(text[: 4 * characters].split())) and len(text) <= 4 * characters:
        return text.strip()
    return f"{kept} [cut after {words} words]"
