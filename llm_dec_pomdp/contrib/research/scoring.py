"""The scores of reports and answers in research-v0.

For a procedural world every fact is known. For a published data set, or one of your own, only the answer is known, and
perhaps the passages that support it. Equations: "Multi-Agent Deep Research", arXiv:2511.13288, section 3.
"""

from __future__ import annotations

import functools
import math
import re
import string
import warnings
from collections.abc import Sequence

from llm_dec_pomdp.envs.tools.sql import Database
from llm_dec_pomdp.types import Reviewer, TaskItem

from .corpus import corpus
from .questions import COMPARISONS, Invocation, facts_of, steps_of, world_of
from .worlds import RELATIONS, Fact, World, questions_about

ANSWER_WORDS = 40  # words of main's answer that count
_DEPTH = 3  # maximum number of steps of a subtask
_COMPUTE = ("python", "query")  # tools that can compute

TRIES = 3
BEST = 10
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class WorldTruth:
    """The facts of an embedded question, by which reports and answers are scored."""

    def __init__(self, item: TaskItem) -> None:
        self.world: World = world_of(item)
        self.answer = item.fields["answer"].partition("\n")[0]
        self.facts = facts_of(item)
        compares = steps_of(item)[-1].relation in COMPARISONS
        # Names that an answer may contain in addition; in a comparison there are none.
        self._aside = () if compares else (*self.world.named(item.prompt), *(fact.value for fact in self.facts))

    def expert(self, work: Invocation) -> float:
        """Return 1 if the report names the value that the subtask asks for, and tool results showed the facts; else 0.

        A subtask asks for the end of a chain of relations, or for the sum or the difference of the two numbers in it. A
        chain begins at a name in the subtask and follows relations whose words are in the subtask. The longest chains
        count.
        """
        named = (*self.world.named(work.subtask), *self.world.named(work.subtask, "numbers"))
        words, ends = _words(work.subtask), list[tuple[Fact, ...]]()
        for name in named:
            ends += self._chains(name, words, ())
        for relation in (relation for relation in RELATIONS.values() if relation.program and relation.words & words):
            if len(named) == 2 and all(name.isdigit() for name in named):
                ends.append((self.world.fact(relation.name, named),))
        longest = max(map(len, ends), default=0)
        return float(
            any(
                all(_shown(self.world, fact, work) for fact in chain)
                and self._holds(work.reported, chain[-1].value, named)
                for chain in ends
                if len(chain) == longest
            )
        )

    def right(self, answer: str) -> bool:
        """Return whether a text names the answer and no other name of its kind; names of its steps are allowed."""
        return self._holds(_beginning(answer), self.answer, self._aside)

    def hits(self, works: Sequence[Invocation]) -> float:
        """Return the share of facts that tool results showed, in [0, 1]."""
        return sum(any(_shown(self.world, fact, work) for work in works) for fact in self.facts) / len(self.facts)

    def supported(self, works: Sequence[Invocation]) -> bool:
        """Return whether the reports support the answer.

        This is the case if, for each fact, some sub-agent reported the value and its own tool results showed the fact.
        It is also the case if one sub-agent reported the answer and its own tool results showed all facts.
        """

        def whole(work: Invocation) -> bool:
            return self.right(work.reported) and all(_shown(self.world, fact, work) for fact in self.facts)

        def has(work: Invocation, fact: Fact) -> bool:
            aside = (*self.world.named(work.subtask), *self.world.named(work.subtask, "numbers"))
            return self._holds(work.reported, fact.value, aside) and _shown(self.world, fact, work)

        return any(map(whole, works)) or all(any(has(work, fact) for work in works) for fact in self.facts)

    def _chains(self, name: str, words: set[str], before: tuple[Fact, ...]) -> list[tuple[Fact, ...]]:
        chains: list[tuple[Fact, ...]] = []
        used = {fact.relation for fact in before}
        for relation in questions_about(self.world.kind_of.get(name, "")):
            if relation.words & words and relation.name not in used and len(before) < _DEPTH:
                fact = self.world.facts[relation.name, name]
                chains += [(*before, fact), *self._chains(fact.value, words, (*before, fact))]
        return chains

    def _holds(self, text: str, value: str, aside: Sequence[str]) -> bool:
        """Return whether a text names a value and nothing else of its kind; names in `aside` are allowed."""
        named = set(self.world.named(text, self.world.kind_of.get(value, "numbers")))
        return named - (set(aside) - {value}) == {value}


def _shown(of: World, fact: Fact, work: Invocation) -> bool:
    """Return whether a tool result of an invocation showed a fact.

    A tool result shows a fact if it contains the sentence of the fact or the value of a calculation, or if it is the
    result of a query that would change with the fact.
    """
    relation = RELATIONS[fact.relation]
    if relation.sentences:
        return any(fact.sentence in used.answer for used in work.ran if used.tool in ("search", "read"))
    if relation.program:
        return any(fact.value in of.named(used.answer, "numbers") for used in work.ran if used.tool in _COMPUTE)
    falsified = relation.falsify(*fact.subjects)
    return any(_depends(of.script, falsified, used.input) for used in work.ran if used.tool == "query")


@functools.lru_cache(maxsize=4096)
def _depends(script: str, falsified: str, statement: str) -> bool:
    """Return whether the result of a statement changes when a fact is falsified."""
    answers = set[str]()
    for text in (script, f"{script}\n{falsified}"):
        try:
            answers.add(Database(text, writable=False).query((), statement)[1])
        except ValueError as error:  # a statement may fail for some facts only
            answers.add(f"refused: {error}")
    return len(answers) > 1


class PublishedTruth:
    """The answer and supporting passages of a task whose facts are not known."""

    def __init__(self, item: TaskItem) -> None:
        self.support = corpus(item.fields["corpus"]).support
        self.answer = normal(item.fields["answer"].partition("\n")[0])

    def expert(self, work: Invocation) -> float:
        """Return the share of the report's names and numbers that tool results or the subtask contain; 0 without calls.

        Names are words with a capital first letter.
        """
        read = _words(f"{work.subtask} {_given([work])}")
        claims = {word for word in re.findall(r"\w+", work.reported) if word[:1].isupper() or word[:1].isdigit()}
        return sum(claim.lower() in read for claim in claims) / len(claims) if claims and work.ran else 0.0

    def right(self, answer: str) -> bool:
        """Return whether a text contains the answer, without punctuation; for yes or no the first word counts."""
        text = normal(_beginning(answer))
        if self.answer in ("yes", "no"):
            return text.split()[:1] == [self.answer]
        return self._stands_in(text)

    def hits(self, works: Sequence[Invocation]) -> float:
        """Return the share of supporting passages in the results; if none are known, 1 if they contain the answer."""
        given = _given(works)
        if self.support:
            return sum(passage in given for passage in self.support) / len(self.support)
        return float(self._stands_in(given))

    def supported(self, works: Sequence[Invocation]) -> bool:
        """Return whether tool results contain all supporting passages.

        If none are known, some sub-agent must have reported the answer, and its own tool results must contain it. For
        the answers yes and no, a call that ran is enough in this case.
        """
        if self.support or self.answer in ("yes", "no"):
            return self.hits(works) == 1.0 if self.support else any(work.ran for work in works)
        return any(self.right(work.reported) and self._stands_in(_given([work])) for work in works)

    def _stands_in(self, text: str) -> bool:
        return bool(self.answer) and f" {self.answer} " in f" {normal(text)} "


def _given(works: Sequence[Invocation]) -> str:
    """Return the results of all calls, joined."""
    return "\n".join(used.answer for work in works for used in work.ran)


def truth_of(item: TaskItem) -> WorldTruth | PublishedTruth:
    """Return the scorer of a task.

    | method | returns |
    |---|---|
    | `expert` | score of a report for its subtask, in [0, 1] |
    | `right` | whether a text has the answer and no other value of its kind |
    | `hits` | share of the facts or supporting passages that tool results showed, in [0, 1] |
    | `supported` | whether the answer follows from reports, and the reports from results of calls |
    """
    return _truth(item.prompt, tuple(item.fields.items()))


@functools.lru_cache(maxsize=1024)
def _truth(prompt: str, fields: tuple[tuple[str, str], ...]) -> WorldTruth | PublishedTruth:
    item = TaskItem("", prompt, fields=dict(fields))
    return WorldTruth(item) if steps_of(item) else PublishedTruth(item)


def judged(judge: Reviewer, work: Invocation) -> float:
    """Return a judge's score of a report, in [0, 1].

    The judge is called as `judge(prompt, attempt)`, with attempt 0, 1 and 2, until it returns a number from 0 to 10. If
    all three attempts raise an error or return no such number, warn and return NaN. The prompt does not contain the
    answer of the task.
    """
    prompt = (
        f"A sub-agent was to find out: {work.subtask}\n\nIt was shown:\n"
        f"{_given([work]) or '(nothing)'}\n\nIt reports: {work.reported}\n\n"
        f"How well does the report do the task, by what was shown alone? Answer with one number from 0 to {BEST}."
    )
    failures: list[str] = []
    for number in range(TRIES):
        try:
            answer = judge(prompt, number)
        except Exception as error:  # an error of the judge counts as an attempt without a number
            failures.append(f"it raised {type(error).__name__}: {error}")
            continue
        match = _NUMBER.search(answer)
        if match and float(match.group()) <= BEST:
            return float(match.group()) / BEST
        failures.append(f"it returned {answer!r:.80} without a number from 0 to {BEST}")
    warnings.warn(
        f"the judge returned no number in {TRIES} tries: {failures[-1]}; the score of the report is NaN", stacklevel=2
    )
    return math.nan


def redundancy(works: Sequence[Invocation]) -> float:
    """Return the share of invocations whose calls only repeated results of earlier ones; 0 without invocations."""
    seen, idle = set[str](), 0
    for work in works:
        given = {line for used in work.ran for line in used.answer.split("\n")}
        idle += given <= seen
        seen |= given
    return idle / len(works) if works else 0.0


def normal(text: str) -> str:
    """Return a text in lower case without punctuation, articles and extra spaces.

    The published evaluations of HotpotQA and similar data sets normalise answers in the same way.
    """
    bare = "".join(sign for sign in text.lower() if sign not in set(string.punctuation))
    return " ".join(word for word in bare.split() if word not in ("a", "an", "the"))


def _beginning(text: str) -> str:
    return " ".join(text[: 100 * ANSWER_WORDS].split()[:ANSWER_WORDS])


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
