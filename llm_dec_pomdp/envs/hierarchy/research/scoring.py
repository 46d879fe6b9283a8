"""What a report and an answer are worth.

Of a procedural world every fact is known. Of a published data set, or one of your own, only the answer is, and perhaps
the passages that it rests on. Equations: "Multi-Agent Deep Research", arXiv:2511.13288, section 3.
"""

from __future__ import annotations

import functools
import math
import re
import string
import warnings
from collections.abc import Callable, Sequence

from ....types import TaskItem
from .corpus import Corpus, corpus
from .questions import Invocation, facts_of
from .worlds import Fact, World, questions_about, world

ANSWER_WORDS = 40  # of main's answer; what follows is not read
_DEPTH = 3  # hops of a subtask

ReportJudge = Callable[[str, int], str]
"""An outside judge of reports: from (prompt, number of the try) to an answer with a number."""
TRIES = 3
BEST = 10
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class WorldTruth:
    """What is known of an embedded question."""

    def __init__(self, item: TaskItem) -> None:
        self.world: World = world(int(item.fields["corpus"].partition(":")[2]))
        self.answer = item.fields["answer"].partition("\n")[0]
        self.facts = facts_of(item, self.world)
        named = self.world.named(item.prompt)
        # Names that an answer may mention beside its own; in a comparison there are none.
        aside = () if self.answer in named else (*named, *(fact.value for fact in self.facts))
        self._aside = tuple(name for name in aside if name != self.answer)

    def expert(self, work: Invocation) -> float:
        """1 where the report holds what the subtask asked for, and the facts behind it were retrieved; else 0.

        A subtask asks for the end of the longest chains that begin at a name in it and follow relations whose words are
        in it.
        """
        named = self.world.named(work.subtask)
        words = _words(work.subtask)
        ends: list[tuple[Fact, ...]] = []
        for name in named:
            ends += self._chains(name, words, ())
        longest = max(map(len, ends), default=0)
        return float(
            any(
                all(_retrieved(fact, work) for fact in chain) and self._holds(work.reported, chain[-1].value, named)
                for chain in ends
                if len(chain) == longest
            )
        )

    def right(self, answer: str) -> bool:
        """Whether the answer is named, and no other name of its kind, except those of the steps that lead to it."""
        return self._holds(_beginning(answer), self.answer, self._aside)

    def hits(self, works: Sequence[Invocation]) -> float:
        """Share of the hops whose facts were retrieved."""
        return sum(any(_retrieved(fact, work) for work in works) for fact in self.facts) / len(self.facts)

    def supported(self, works: Sequence[Invocation]) -> bool:
        """Whether each fact is in a report that retrieved it, or one report that retrieved all has the answer."""

        def whole(work: Invocation) -> bool:
            return all(_retrieved(f, work) for f in self.facts) and self._holds(work.reported, self.answer, self._aside)

        def has(work: Invocation, fact: Fact) -> bool:
            return _retrieved(fact, work) and self._holds(work.reported, fact.value, self.world.named(work.subtask))

        return any(map(whole, works)) or all(any(has(work, fact) for work in works) for fact in self.facts)

    def _chains(self, name: str, words: set[str], before: tuple[Fact, ...]) -> list[tuple[Fact, ...]]:
        chains: list[tuple[Fact, ...]] = []
        used = {fact.relation for fact in before}
        for relation in questions_about(self.world.kind_of[name]):
            if relation.words & words and relation.name not in used and len(before) < _DEPTH:
                fact = self.world.facts[relation.name, name]
                chains += [(*before, fact), *self._chains(fact.value, words, (*before, fact))]
        return chains

    def _holds(self, text: str, value: str, aside: Sequence[str]) -> bool:
        """Whether a text names a value and nothing else of its kind; names in `aside` are allowed."""
        named = set(self.world.named(text, self.world.kind_of.get(value)))
        return named - (set(aside) - {value}) == {value}


class PublishedTruth:
    """What is known of a task whose facts are not."""

    def __init__(self, item: TaskItem) -> None:
        self.corpus: Corpus = corpus(item.fields["corpus"])
        self.answer = normal(item.fields["answer"].partition("\n")[0])

    def expert(self, work: Invocation) -> float:
        """Share of the names and numbers of the report that stand in what it retrieved, or in its subtask."""
        read = _words(" ".join([work.subtask, *(self._text(place) for place in work.retrieved)]))
        claims = {word for word in re.findall(r"\w+", work.reported) if word[:1].isupper() or word[:1].isdigit()}
        return sum(claim.lower() in read for claim in claims) / len(claims) if claims and work.retrieved else 0.0

    def right(self, answer: str) -> bool:
        """Whether the text holds the answer, punctuation ignored; where that is yes or no the first word counts."""
        text = normal(_beginning(answer))
        if self.answer in ("yes", "no"):
            return text.split()[:1] == [self.answer]
        return self._stands_in(text)

    def hits(self, works: Sequence[Invocation]) -> float:
        """Share of the supporting passages that were retrieved; where none are known, whether one has the answer."""
        seen = {place for work in works for place in work.retrieved}
        support = self.corpus.support
        if support:
            return len(seen & support) / len(support)
        return float(any(self._stands_in(self._text(place)) for place in seen))

    def supported(self, works: Sequence[Invocation]) -> bool:
        """Whether all supporting passages were retrieved; where none are known, a report has the answer from one."""
        if self.corpus.support or self.answer in ("yes", "no"):
            return self.hits(works) == 1.0 if self.corpus.support else any(work.retrieved for work in works)
        return any(
            self.right(work.reported) and any(self._stands_in(self._text(place)) for place in work.retrieved)
            for work in works
        )

    def _stands_in(self, text: str) -> bool:
        return bool(self.answer) and f" {self.answer} " in f" {normal(text)} "

    def _text(self, place: int) -> str:
        passage = self.corpus.passages[place]
        return f"{passage.title}. {passage.text}"


def truth_of(item: TaskItem) -> WorldTruth | PublishedTruth:
    """What is known of a task.

    `expert` says how well an invocation did its subtask, in [0, 1]; `right` whether a text gives the answer and no
    other beside it; `hits` which share of what is behind the answer was retrieved; `supported` whether the answer
    follows from the reports, and these from what was retrieved.
    """
    return _truth(item.prompt, tuple(item.fields.items()))


@functools.lru_cache(maxsize=1024)
def _truth(prompt: str, fields: tuple[tuple[str, str], ...]) -> WorldTruth | PublishedTruth:
    item = TaskItem("", prompt, fields=dict(fields))
    return WorldTruth(item) if item.fields.get("hops") else PublishedTruth(item)


def judged(judge: ReportJudge, item: TaskItem, work: Invocation) -> float:
    """A judge's score of a report, in [0, 1]; NaN, with a warning, where three tries give no number or raise.

    The judge is not shown the answer of the task.
    """
    prompt = (
        f"A sub-agent was to find out: {work.subtask}\n\nIt was shown:\n"
        f"{corpus(item.fields['corpus']).listed(work.retrieved) or '(nothing)'}\n\nIt reports: {work.reported}\n\n"
        f"How well does the report do the task, by what was shown alone? Answer with one number from 0 to {BEST}."
    )
    failures: list[str] = []
    for number in range(TRIES):
        try:
            answer = judge(prompt, number)
        except Exception as error:  # a judge that fails has said nothing
            failures.append(f"it raised {type(error).__name__}: {error}")
            continue
        match = _NUMBER.search(answer)
        if match and float(match.group()) <= BEST:
            return float(match.group()) / BEST
        failures.append(f"it said {answer!r:.80}, which holds no number from 0 to {BEST}")
    warnings.warn(f"the judge gave no number in {TRIES} tries: {failures[-1]}", stacklevel=2)
    return math.nan


def redundancy(works: Sequence[Invocation]) -> float:
    """Share of the invocations that retrieved only what earlier ones had; 0 without invocations."""
    seen: set[int] = set()
    idle = 0
    for work in works:
        idle += not set(work.retrieved) - seen
        seen |= set(work.retrieved)
    return idle / len(works) if works else 0.0


def normal(text: str) -> str:
    """Lower case without punctuation, articles and extra spaces, as in the published evaluations of such data sets."""
    bare = "".join(sign for sign in text.lower() if sign not in set(string.punctuation))
    return " ".join(word for word in bare.split() if word not in ("a", "an", "the"))


def _retrieved(fact: Fact, work: Invocation) -> bool:
    return not set(fact.passages).isdisjoint(work.retrieved)


def _beginning(text: str) -> str:
    return " ".join(text[: 100 * ANSWER_WORDS].split()[:ANSWER_WORDS])


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
