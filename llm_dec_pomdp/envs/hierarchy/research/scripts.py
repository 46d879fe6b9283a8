"""Teams without a model, for both grammars; the manual says what they earn.

Main knows the steps of the question, as its readers do, but not the facts. Sub-agents know the sentences that state a
fact, and believe no rumour.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ....types import Message, TaskItem
from ..base import MAIN
from .choice import CHOOSE, LETTERS, SHORT, Choice, holder
from .free import Free
from .questions import Hop, hops_of
from .worlds import RELATIONS, RUMOURS, Relation

UNKNOWN = "unknown"
TEAMS = ("optimal", "ask_everything", "never_ask")
ERRING = ("asks_twice", "asks_another", "asks_vaguely", "misreads", "goes_on")  # each makes one mistake


class Known(NamedTuple):
    """A step of a question with its subject and its value, where main was told them."""

    hop: Hop
    subject: str | None
    value: str | None


class Scripts:
    """What the scripted teams say; they recognise tasks by the text of their questions."""

    def __init__(self, items: Sequence[TaskItem], grammar: str, words: Free | Choice) -> None:
        self._items = {item.prompt: item for item in items}
        self._choice = grammar == "choice"
        self._words = words

    def optimal(self, agent: str, history: Sequence[Message]) -> str:
        """Asks for each open step, several at once where possible, and answers."""
        return self._main(history, everything=False) if agent == MAIN else self._sub(history)

    def ask_everything(self, agent: str, history: Sequence[Message]) -> str:
        """The same, but asks until no invocation is left."""
        return self._main(history, everything=True) if agent == MAIN else self._sub(history)

    def never_ask(self, agent: str, history: Sequence[Message]) -> str:
        """Answers at once, knowing nothing."""
        if self._choice:
            return LETTERS[-1] if history[-1].text.endswith(CHOOSE) else UNKNOWN
        return f"ANSWER: {UNKNOWN}"

    def alone(self, agent: str, history: Sequence[Message]) -> str:
        """One agent that has the tools: searches for each open step, and answers."""
        text = _told(history)
        last = text.split("\n")[-1].removesuffix(f" {SHORT}")
        if self._choice and not text.endswith(CHOOSE) and last not in self._items:  # a note on what it read
            return self._sub(history)
        if self._choice:
            return self._main(history, everything=False)
        steps = self._steps(text)
        wanted = next((hop.question(subject) for hop, subject, value in steps if subject and not value), None)
        return f"SEARCH: {wanted}" if wanted else f"ANSWER: {_answer(steps)}"

    # --- teams that make one mistake ------------------------------------------------------------------------------

    def asks_twice(self, agent: str, history: Sequence[Message]) -> str:
        """Asks two sub-agents for its first step at once (grammar "free")."""
        text = self.optimal(agent, history)
        return f"{_first_line(text)}\n{text}" if _begins(agent, history) else text

    def asks_another(self, agent: str, history: Sequence[Message]) -> str:
        """Asks the wrong specialist for its first step, and then the right one."""
        text = self.optimal(agent, history)
        right = text.partition(":")[0].removeprefix("ASK ")
        others = [kind for kind in self._words.kinds if kind != right]
        return text.replace(right, others[0], 1) if others and _begins(agent, history) else text

    def asks_vaguely(self, agent: str, history: Sequence[Message]) -> str:
        """Asks for its first step without naming the subject, and then again."""
        text = self.optimal(agent, history)
        if not _begins(agent, history):
            return text
        relation, _ = meant(_first_line(text).partition(": ")[2])
        vague = f"{text.partition(':')[0]}: {relation.question.format(x='it')}"
        return text.replace(_first_line(text), vague, 1)

    def misreads(self, agent: str, history: Sequence[Message]) -> str:
        """Has all reports, but answers with another name in them."""
        text = self.optimal(agent, history)
        if agent != MAIN or not text.startswith("ANSWER: "):
            return text
        steps = self._steps(_told(history))
        names = [name for _, subject, value in steps for name in (subject, value) if name and not name.isdigit()]
        return "ANSWER: " + next(name for name in reversed(names) if name != text.removeprefix("ANSWER: "))

    def goes_on(self, agent: str, history: Sequence[Message]) -> str:
        """Knows the answer, but asks for its first step once more."""
        text = self.optimal(agent, history)
        asked = "\n".join(message.text for message in history if message.role == "said").split("\n")
        late = agent == MAIN and text.startswith("ANSWER: ") and asked.count(asked[0]) == 1
        return asked[0] if late else text

    # --- main ----------------------------------------------------------------------------------------------------

    def _main(self, history: Sequence[Message], *, everything: bool) -> str:
        text = _told(history)
        return (self._letter if self._choice else self._line)(text, self._steps(text), everything=everything)

    def _steps(self, text: str) -> list[Known]:
        """The steps of the question that main was told, with what it was told of them."""
        item = self._item(text)
        steps: list[Known] = []
        for hop in hops_of(item):
            subject = hop.subject or steps[hop.after].value
            statements = stated(RELATIONS[hop.relation], subject, text) if subject else None
            steps.append(Known(hop, subject, statements[0] if statements else None))
        return steps

    def _item(self, text: str) -> TaskItem:
        """The task whose question is in the text."""
        lines = [line.removeprefix("Question: ") for line in text.split("\n")]
        lines += [line.removesuffix(f" {SHORT}") for line in lines]
        item = next((self._items[line] for line in lines if line in self._items), None)
        if item is None or not item.fields.get("hops"):
            raise ValueError(f"the scripted team does not know the question of {text[:80]!r}; it plays embedded ones")
        return item

    def _line(self, text: str, steps: Sequence[Known], *, everything: bool) -> str:
        counts = re.findall(r"You may ask (\d+) more", text)
        left = int(counts[-1]) if counts else self._words.most
        asks = [
            f"ASK {holder(self._words, hop)}: {hop.question(subject)}"
            for hop, subject, value in steps
            if subject and not value
        ]
        if everything and not asks:
            hop, subject, _ = steps[0]
            asks = [f"ASK {holder(self._words, hop)}: {hop.question(subject or '')}"] * left
        return "\n".join(asks[:left]) if asks and left else f"ANSWER: {_answer(steps)}"

    def _letter(self, text: str, steps: Sequence[Known], *, everything: bool) -> str:
        if not text.endswith(CHOOSE):
            return f"{_answer(steps)}."
        wanted = next((hop.question(s) for hop, s, value in steps if s and not value), None)
        if wanted is None:
            return LETTERS[0] if everything else LETTERS[-1]
        lines = text.split("\n")
        return next((c for c in LETTERS for line in lines if line.startswith(f"{c}:") and wanted in line), LETTERS[-1])

    # --- sub-agents ----------------------------------------------------------------------------------------------

    def _sub(self, history: Sequence[Message]) -> str:
        texts = [message.text for message in history if message.role != "said"]
        asked = texts[0].split("\n")[0].removeprefix("Find out: ")
        if self._choice:
            asked = texts[0].split("\n")[-1].removesuffix(f" {SHORT}")
        relation, subject = meant(asked)
        statements = stated(relation, subject, "\n".join(texts))
        if self._choice:
            return statements[1] if statements else UNKNOWN
        if statements or len(texts) > 1:
            return f"REPORT: {statements[1] if statements else UNKNOWN}"
        return f"SEARCH: {asked}"


def _told(history: Sequence[Message]) -> str:
    return "\n".join(message.text for message in history if message.role != "said")


def _begins(agent: str, history: Sequence[Message]) -> bool:
    """Whether this is the first text of main."""
    return agent == MAIN and all(message.role != "said" for message in history)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def meant(question: str) -> tuple[Relation, str]:
    """The relation and the subject of a sub-question; ValueError where it is none."""
    for relation in RELATIONS.values():
        match = re.fullmatch(re.escape(relation.question).replace(r"\{x\}", "(.+)"), question)
        if match:
            return relation, match[1]
    raise ValueError(f"the scripted team does not know the sub-question {question[:80]!r}; main is to be scripted, too")


def stated(relation: Relation, subject: str, text: str) -> tuple[str, str] | None:
    """The value that a sentence states for a subject, and the sentence; None where no sentence but rumours does."""
    pairs: list[tuple[str, str]] = []
    for line in re.split(r"\n|(?<=\.) ", text):
        sentence = re.sub(r"^(?:\[\d+\] |reports: |Found: )", "", line)
        for template in () if sentence.startswith(RUMOURS) else relation.sentences:
            match = re.fullmatch(re.escape(template.format(x=subject, y="\0")).replace("\0", "(.+)"), sentence)
            if match:
                pairs.append((match[1], sentence))
    return min(pairs, key=lambda pair: len(pair[0])) if pairs else None


def _answer(steps: Sequence[Known]) -> str:
    """The answer that follows from the steps."""
    if any(value is None for _, _, value in steps):
        return UNKNOWN
    if len(steps) > 1 and all(hop.subject for hop, _, _ in steps):  # a comparison
        return str(min((int(value or 0), subject) for _, subject, value in steps)[1])
    return str(steps[-1][2])
