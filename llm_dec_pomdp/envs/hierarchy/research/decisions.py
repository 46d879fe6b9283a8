"""The five decisions of an agent that leads others (arXiv:2605.02801), in research-v0, from what was played.

They are when to spawn, whom to ask, what to say, how to combine and when to stop. They are counted for questions whose
steps are known. A step is open until a report that main has read names its value. Every text of main that asks is a
decision, and so is the one with which it goes on to its answer.

| figure | of | counted |
|---|---|---|
| spawned when it helped | invocations while a step was open | at most one for each step that could be asked for |
| asked the right one | invocations, where there are specialists | its part of the corpus has the step's fact |
| said what was needed | subtasks; reports of who was shown the value | the subject is named; the value is |
| kept what it was told | answers with no step open | the answer is right |
| stopped in time | decisions to end, and others when it had to | to end with no step open, or with nobody left to ask |

The first is 0 where main never asked though a step was open. A subtask is about the step whose relation or subject it
names, an open one first. A figure is the mean over the episodes in which there is something to count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from ....types import Episode, Event, Group, TaskItem, known_means
from ..base import MAIN
from .questions import Hop, facts_of, hops_of
from .worlds import RELATIONS, Fact, world

FIGURES = (
    "spawned when it helped",
    "asked the right one",
    "said what was needed",
    "kept what it was told",
    "stopped in time",
)


class Limits(NamedTuple):
    """What main may do."""

    kinds: Sequence[str]  # specialists
    invocations: int  # of each
    turns: int


class HopFact(NamedTuple):
    """A step of a question: what is asked for, about whom, and what is true."""

    hop: Hop
    subject: str
    fact: Fact


class Decision(NamedTuple):
    """What main did with one text, and what it knew.

    Attributes:
        asks: The spawns that followed; () where it went on to its answer.
        open: The steps that it did not know.
        could_ask: Whether there were invocations and turns left.
    """

    asks: tuple[Event, ...]
    open: tuple[HopFact, ...]
    could_ask: bool


def decision_means(items: Sequence[TaskItem], limits: Limits, groups: Sequence[Group]) -> dict[str, float]:
    """The mean of each figure, as a share, over the episodes in which there is something to count."""
    by_id = {item.id: item for item in items}
    episodes = [e for group in groups for e in group.episodes if by_id[e.item_id].fields.get("hops")]
    return known_means([decisions(by_id[e.item_id], limits, e) for e in episodes])


def decisions(item: TaskItem, limits: Limits, episode: Episode) -> dict[str, float]:
    """The five figures of an episode; NaN where there is nothing to count."""
    steps, taken = steps_of(item), decisions_of(item, limits, episode)
    figures = (
        _spawned(taken),
        _asked(limits, steps, taken),
        _said(episode, steps, taken),
        _kept(episode, taken),
        _stopped(taken),
    )
    return dict(zip(FIGURES, figures, strict=True))


def steps_of(item: TaskItem) -> tuple[HopFact, ...]:
    """The steps of the question with what is true of them; () where they are not known."""
    hops = hops_of(item)
    facts = facts_of(item, world(int(item.fields["corpus"].partition(":")[2]))) if hops else ()
    subjects = (hop.subject or facts[hop.after].value for hop in hops)
    return tuple(HopFact(*step) for step in zip(hops, subjects, facts, strict=True))


def decisions_of(item: TaskItem, limits: Limits, episode: Episode) -> list[Decision]:
    """What main decided, in order; its texts after it has gone on to its answer are part of that."""
    asked, still_open, taken = 0, steps_of(item), list[Decision]()
    for number, turn in enumerate(episode.turns, 1):
        if MAIN in turn.actions and not (taken and not taken[-1].asks):
            asks = tuple(event for event in turn.events if event.kind == "spawn")
            taken.append(Decision(asks, still_open, asked < limits.invocations and number < limits.turns))
            asked += len(asks)
        reports = [event.details["report"] for event in turn.events if event.kind == "return"]
        still_open = tuple(s for s in still_open if not any(_names(report, s.fact.value) for report in reports))
    return taken


def _spawned(taken: Sequence[Decision]) -> float:
    asking = [decision for decision in taken if decision.asks and decision.open]
    if not asking:
        return 0.0 if taken and taken[0].open else math.nan
    helped = sum(min(len(decision.asks), len(_askable(decision.open))) for decision in asking)
    return helped / sum(len(decision.asks) for decision in asking)


def _asked(limits: Limits, steps: Sequence[HopFact], taken: Sequence[Decision]) -> float:
    if len(limits.kinds) < 2:
        return math.nan
    right = [
        RELATIONS[_about(ask, decision.open, steps).hop.relation].subject in ask.details["role"].split("+")
        for decision in taken
        for ask in decision.asks
    ]
    return fmean(right) if right else math.nan


def _said(episode: Episode, steps: Sequence[HopFact], taken: Sequence[Decision]) -> float:
    needed: list[bool] = []
    for decision in taken:
        for ask in decision.asks:
            step = _about(ask, decision.open, steps)
            needed.append(_names(ask.details["subtask"], step.subject))
            texts = _texts_of(ask.agent, episode)
            sentences = RELATIONS[step.hop.relation].sentences
            if any(sentence.format(x=step.subject, y=step.fact.value) in texts for sentence in sentences):
                events = [event for turn in episode.turns for event in turn.events if event.agent == ask.agent]
                reports = [event.details["report"] for event in events if event.kind == "return"]
                needed.append(any(_names(report, step.fact.value) for report in reports))
    return fmean(needed) if needed else math.nan


def _texts_of(agent: str, episode: Episode) -> str:
    """What an agent was told, what it said, and what its tools returned."""
    texts: list[str] = []
    for turn in episode.turns:
        texts += [by_agent[agent] for by_agent in (turn.told, turn.observations) if agent in by_agent]
        texts += [turn.actions[agent].text] if agent in turn.actions else []
        texts += [e.details["output"] for e in turn.events if e.agent == agent and e.kind == "result"]
    return "\n".join(texts)


def _kept(episode: Episode, taken: Sequence[Decision]) -> float:
    answered = any(event.kind == "answer" for turn in episode.turns for event in turn.events)
    if not answered or not taken or taken[-1].open or episode.final is None:
        return math.nan
    return episode.final.diagnostics["right"]


def _stopped(taken: Sequence[Decision]) -> float:
    due = [decision for decision in taken if not decision.asks or not decision.open or not decision.could_ask]
    return (
        fmean([not decision.asks and not (decision.open and decision.could_ask) for decision in due])
        if due
        else math.nan
    )


def _askable(still_open: Sequence[HopFact]) -> list[HopFact]:
    """The open steps whose subject is known: that of the question, or of a step that is not open."""
    values = {step.fact.value for step in still_open}
    return [step for step in still_open if step.hop.subject or step.subject not in values]


def _about(ask: Event, still_open: Sequence[HopFact], steps: Sequence[HopFact]) -> HopFact:
    """The step that a subtask is about."""
    text = ask.details["subtask"]
    words = set(re.findall(r"\w+", text.lower()))
    candidates = [*_askable(still_open), *still_open, *steps]

    def fit(step: HopFact) -> tuple[bool, bool]:
        return bool(RELATIONS[step.hop.relation].words & words), _names(text, step.subject)

    return max(candidates, key=fit)  # of equals the first


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
