"""Statistics of a trace: the five of arXiv:2605.02801, Table 13, with costs and score, in four dimensions.

| dimension | statistic | definition |
|---|---|---|
| outcome | reward, score | the return of the team; the last score |
| efficiency | parallelism | the seconds of all events added up / the seconds from the first event to the last |
| | tokens, seconds, tool calls, messages | `costs` of the trace |
| coordination | utilisation | share of the active agents whose events lead to the last result |
| | overhead | share of the tokens outside of scored joint actions: in subtasks, reports or drafts |
| | redundancy | share of the messages that nearly repeat an earlier one: Jaccard similarity of words >= 0.8 |
| robustness | amplification | later messages that repeat a wrong claim / wrong reports and injections |

* An event takes the seconds since the latest of the events that caused it.
* An event leads to the last result if a path of edges goes there and passes through no earlier result.
* A report is wrong if the environment marks it (`expert` is "0" in the `return` of a sub-agent). Its claims are the
  names and numbers that are neither in its subtask nor in the task.
* The wrong claim of an injected text (a `safety_event`) is the text that it demands.
* A message repeats a claim if it contains the claim and a path of edges leads to it from the report, or from the
  observation with the injected text.
* The scored joint actions of an imported log are the calls that lead directly to its last result (`spans`).
* A statistic is NaN if the trace lacks the data.

The survey names and describes the five; the exact definitions are this package's own.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..envs.wrappers.injection import occurs
from .record import ENVIRONMENT, Trace

DIMENSIONS: Mapping[str, Sequence[str]] = {
    "outcome": ("reward", "score"),
    "efficiency": ("parallelism", "tokens", "seconds", "tool calls", "messages"),
    "coordination": ("utilisation", "overhead", "redundancy"),
    "robustness": ("amplification",),
}
ALIKE = 0.8  # Jaccard similarity of the words of near-duplicates
_NO_NAMES = frozenset(
    "A An And As At But By For From He Her His How I If In It Its No Not Of On Or She So That The Their There These "
    "They This Those To We What When Where Which Who Why With Yes You STOP".split()
)


def stats(trace: Trace) -> dict[str, float]:
    """Return the statistics of a trace by name; the trace must be valid by the published schema."""
    graph = _Graph(trace)
    costs, metrics = trace["costs"], trace.get("metrics", {})
    return {
        "reward": trace["rewards"].get("team", math.nan),
        "score": metrics.get("score", metrics.get("task_success", math.nan)),
        "parallelism": graph.parallelism(),
        "tokens": math.nan if any(math.isnan(_sampled(event)) for event in graph.messages) else costs["tokens"],
        "seconds": costs["wall_clock_s"],
        "tool calls": costs.get("tool_calls", math.nan),
        "messages": costs.get("messages", math.nan),
        "utilisation": graph.utilisation(),
        "overhead": graph.overhead(),
        "redundancy": redundancy([_words(event) for event in graph.messages]),
        "amplification": graph.amplification(),
    }


class _Graph:
    """A trace with its edges in both directions."""

    def __init__(self, trace: Trace) -> None:
        self.events: list[Mapping[str, Any]] = trace["events"]
        self.by_id = {event["id"]: event for event in self.events}
        self.causes: dict[str, list[str]] = {}
        self.effects: dict[str, list[str]] = {}
        for edge in trace["edges"]:
            if edge["src"] in self.by_id and edge["dst"] in self.by_id:
                self.causes.setdefault(edge["dst"], []).append(edge["src"])
                self.effects.setdefault(edge["src"], []).append(edge["dst"])

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        """The messages of agents."""
        return [event for event in self.events if event["type"] == "message" and event["agent"] != ENVIRONMENT]

    def parallelism(self) -> float:
        """Return the seconds of all events added up, divided by the seconds from the first event to the last."""
        times = [event["t"] for event in self.events]
        whole = max(times) - min(times)
        spent = 0.0
        for event in self.events:
            before = [self.by_id[cause]["t"] for cause in self.causes.get(event["id"], ())]
            spent += event["t"] - max(before) if before else 0.0
        return spent / whole if whole else math.nan

    def utilisation(self) -> float:
        """Return the share of the active agents whose events lead to the last result."""
        acted = {e["agent"] for e in self.events if e["type"] != "tool_result"} - {ENVIRONMENT}
        results = [event for event in self.events if _is_result(event)]
        if not results or not acted:
            return math.nan
        inner = {event["id"] for event in self.events if event["type"] == "aggregate" or event["agent"] == ENVIRONMENT}
        leading = self._reached(results[-1]["id"], self.causes, inner - {results[-1]["id"]})
        return len(acted & {self.by_id[name]["agent"] for name in leading}) / len(acted)

    def overhead(self) -> float:
        """Return the share of the tokens outside of joint actions that lead directly to a result."""
        if not any(_is_result(event) for event in self.events):
            return math.nan
        spent = {True: 0.0, False: 0.0}
        for event in self.messages:
            ends = (self.by_id[effect] for effect in self.effects.get(event["id"], ()))
            spent[any(_is_result(end) for end in ends)] += _sampled(event)
        whole = sum(spent.values())
        return spent[False] / whole if whole else math.nan

    def amplification(self) -> float:
        """Return the number of later messages that repeat a wrong claim, per wrong report or injection."""
        reports, later = 0, set[str]()
        task = _claims(self.events[0].get("content", ""))
        for event in self.events:
            content = event.get("content")
            if event["type"] == "safety_event" and isinstance(content, dict) and "demand" in content:
                reports += 1
                causes = self.causes.get(event["id"], ())
                behind = {name for cause in causes for name in self._reached(cause, self.effects, set())}
                demand = str(content["demand"])  # pyright: ignore[reportUnknownArgumentType]
                later |= {e["id"] for e in self.messages if e["id"] in behind and occurs(demand, str(e.get("content")))}
            if event["type"] != "return" or not isinstance(content, dict) or content.get("expert") != "0":
                continue
            subtasks = (e.get("content") for e in self.events if e["type"] == "spawn" and e.get("to") == event["agent"])
            known = task.union(*(_claims(subtask) for subtask in subtasks))
            wrong = _claims(content.get("report", "")) - known  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            if not wrong:
                continue
            reports += 1
            behind = self._reached(event["id"], self.effects, set())
            later |= {e["id"] for e in self.messages if e["id"] in behind and wrong & _claims(e.get("content", ""))}
        return len(later) / reports if reports else math.nan

    def _reached(self, start: str, ways: Mapping[str, Sequence[str]], closed: set[str]) -> set[str]:
        """Return the events that can be reached from `start` along `ways` without entering those in `closed`."""
        seen, waiting = {start}, [start]
        while waiting:
            for other in ways.get(waiting.pop(), ()):
                if other not in seen and other not in closed:
                    seen.add(other)
                    waiting.append(other)
        return seen - {start}


def _is_result(event: Mapping[str, Any]) -> bool:
    """Return whether an event is a scored joint action, or the result of a trace of another system."""
    return event["type"] == "aggregate" and ("score" in event or "reward" not in event)


def redundancy(texts: Sequence[frozenset[str]]) -> float:
    """Return the share of texts, given as sets of words, that nearly repeat an earlier one; NaN without texts.

    Two texts of similarity s share one of their (1 - s) |words| + 1 rarest words. Only such pairs are compared (prefix
    filtering; Chaudhuri et al. 2006).
    """
    texts = [text for text in texts if text]
    often = Counter(word for text in texts for word in text)
    with_word: dict[str, list[int]] = {}
    repeated = 0
    for number, text in enumerate(texts):
        rare = sorted(text, key=lambda word: (often[word], word))[: len(text) - math.ceil(ALIKE * len(text)) + 1]
        others = {other for word in rare for other in with_word.get(word, ())}
        repeated += any(len(text & texts[other]) >= ALIKE * len(text | texts[other]) for other in others)
        if text not in (texts[other] for other in others):  # one of several equal texts suffices
            for word in rare:
                with_word.setdefault(word, []).append(number)
    return repeated / len(texts) if texts else math.nan


def _sampled(event: Mapping[str, Any]) -> float:
    """Return the number of sampled tokens; 0 if `tokens` has the form of another system.

    It is NaN if a server did not report it.
    """
    tokens = event.get("usage", event.get("tokens"))
    sampled: Any = tokens.get("sampled") if isinstance(tokens, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    unknown = math.nan if "usage" in event else 0
    return sampled if isinstance(sampled, (int, float)) and sampled >= 0 else unknown


def _words(event: Mapping[str, Any]) -> frozenset[str]:
    """Return the words of a text, or its reference if the trace has no texts."""
    if "content" in event:
        return frozenset(re.findall(r"\w+", str(event["content"]).lower()))
    return frozenset([event["content_ref"]] if "content_ref" in event else [])


def _claims(content: Any) -> set[str]:
    """Return the names and numbers in a text."""
    return set(re.findall(r"\b(?:[A-Z]\w+|\d+)\b", " ".join(_texts(content)))) - _NO_NAMES


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        yield from (text for text in content.values() if isinstance(text, str))  # pyright: ignore[reportUnknownVariableType]
