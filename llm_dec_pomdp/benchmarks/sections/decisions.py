"""The five decisions of an agent that leads others (arXiv:2605.02801), in research-v0, from traces alone.

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
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from ...envs.base import TextDecPOMDP
from ...envs.research.questions import Hop, facts_of, hops_of
from ...envs.research.relations import RELATIONS
from ...envs.research.state import MAIN
from ...envs.research.task import Research
from ...envs.research.worlds import Fact, world
from ...envs.tasks import item_of
from ...episodes import Header, Trace, from_episode
from ...types import Group
from . import Section, known_means

FIGURES = (
    "spawned when it helped",
    "asked the right one",
    "said what was needed",
    "kept what it was told",
    "stopped in time",
)


class Step(NamedTuple):
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

    asks: tuple[Mapping[str, Any], ...]
    open: tuple[Step, ...]
    could_ask: bool


def decisions(trace: Trace) -> dict[str, float]:
    """The five figures of an episode of research-v0 from its trace, with texts; NaN where there is nothing to count."""
    steps, made = steps_of(trace), decisions_of(trace)
    return {
        FIGURES[0]: _spawned(made),
        FIGURES[1]: _asked(trace, made),
        FIGURES[2]: _said(trace, steps, made),
        FIGURES[3]: _kept(trace, made),
        FIGURES[4]: _stopped(made),
    }


def steps_of(trace: Trace) -> tuple[Step, ...]:
    """The steps of the question with what is true of them; () where they are not known."""
    item = item_of(trace["events"][0]["content"])
    hops = hops_of(item)
    facts = facts_of(item, world(int(item.fields["corpus"].partition(":")[2]))) if hops else ()
    subjects = (hop.subject or facts[hop.after].value for hop in hops)
    return tuple(Step(*step) for step in zip(hops, subjects, facts, strict=True))


def decisions_of(trace: Trace) -> list[Decision]:
    """What main decided, in order; its texts after it has gone on to its answer are part of that."""
    events: Sequence[Mapping[str, Any]] = trace["events"]
    header = events[0]["header"]
    roles = [player["role"] for agent, player in header["players"].items() if agent != MAIN]
    most, asked = roles.count(roles[0]), 0
    still_open, made = steps_of(trace), list[Decision]()
    for event in events:
        if event["type"] == "return":
            still_open = tuple(step for step in still_open if not _names(event["content"]["report"], step.fact.value))
        elif event["type"] == "message" and event["agent"] == MAIN and not (made and not made[-1].asks):
            asks = tuple(e for e in events if e["type"] == "spawn" and e["turn"] == event["turn"])
            could_ask = asked < most and event["turn"] + 1 < header["max_turns"]
            made.append(Decision(asks, still_open, could_ask))
            asked += len(asks)
    return made


def _spawned(made: Sequence[Decision]) -> float:
    asking = [one for one in made if one.asks and one.open]
    if not asking:
        return 0.0 if made and made[0].open else math.nan
    helped = sum(min(len(one.asks), len(_askable(one.open))) for one in asking)
    return helped / sum(len(one.asks) for one in asking)


def _asked(trace: Trace, made: Sequence[Decision]) -> float:
    kinds = {player["role"] for agent, player in trace["events"][0]["header"]["players"].items() if agent != MAIN}
    if len(kinds) < 2:
        return math.nan
    steps = steps_of(trace)
    right = [
        RELATIONS[_about(ask, one.open, steps).hop.relation].subject in ask["role"].split("+")
        for one in made
        for ask in one.asks
    ]
    return fmean(right) if right else math.nan


def _said(trace: Trace, steps: Sequence[Step], made: Sequence[Decision]) -> float:
    told: list[bool] = []
    for one in made:
        for ask in one.asks:
            step = _about(ask, one.open, steps)
            told.append(_names(ask["content"]["subtask"], step.subject))
            mine = [event for event in trace["events"] if event["agent"] == ask["to"] or event.get("to") == ask["to"]]
            shown = "\n".join(str(event["content"]) for event in mine if event["type"] in ("message", "tool_result"))
            sentences = RELATIONS[step.hop.relation].sentences
            if any(sentence.format(x=step.subject, y=step.fact.value) in shown for sentence in sentences):
                reports = [event["content"]["report"] for event in mine if event["type"] == "return"]
                told.append(any(_names(report, step.fact.value) for report in reports))
    return fmean(told) if told else math.nan


def _kept(trace: Trace, made: Sequence[Decision]) -> float:
    answered = any(event.get("decision") == "answer" for event in trace["events"])
    if not answered or not made or made[-1].open:
        return math.nan
    scores = [event["score"] for event in trace["events"] if "score" in event]
    return scores[-1]["diagnostics"]["right"] if scores else math.nan


def _stopped(made: Sequence[Decision]) -> float:
    due = [one for one in made if not one.asks or not one.open or not one.could_ask]
    return fmean([not one.asks and not (one.open and one.could_ask) for one in due]) if due else math.nan


def _askable(still_open: Sequence[Step]) -> list[Step]:
    """The open steps whose subject is known: that of the question, or of a step that is not open."""
    values = {step.fact.value for step in still_open}
    return [step for step in still_open if step.hop.subject or step.subject not in values]


def _about(ask: Mapping[str, Any], still_open: Sequence[Step], steps: Sequence[Step]) -> Step:
    """The step that a subtask is about."""
    text = ask["content"]["subtask"]
    words = set(re.findall(r"\w+", text.lower()))
    candidates = [*_askable(still_open), *still_open, *steps]

    def fit(step: Step) -> tuple[bool, bool]:
        return bool(RELATIONS[step.hop.relation].words & words), _names(text, step.subject)

    return max(candidates, key=fit)  # of equals the first


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


class Decisions(Section):
    """Means over the episodes of research-v0."""

    title = "The five decisions of main, share of the right ones in %"
    scale = 100
    note = (
        "From traces alone. Spawned when it helped: invocations, while a step of the question was open, for each of "
        "which there was a step. Asked the right one: invocations of the specialist who could know. Said what was "
        "needed: subtasks that name their subject, and reports that name what was shown. Kept what it was told: right "
        "answers when all steps were reported. Stopped in time: ends when no step was open any more, of all ends "
        "and of all texts after that."
    )

    def measure(self, env: TextDecPOMDP, groups: Sequence[Group]) -> Mapping[str, float]:
        """The mean of each figure, as a share, over the episodes in which there is something to count."""
        if not isinstance(env, Research):
            return {}
        items = {item.id: item for item in env.items}
        header = Header.of(env)
        episodes = [e for group in groups for e in group.episodes if items[e.item_id].fields.get("hops")]
        return known_means([decisions(from_episode(e, header, items[e.item_id])) for e in episodes])
