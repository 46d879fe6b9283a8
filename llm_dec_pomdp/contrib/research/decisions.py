"""Five decisions of the main agent of research-v0 (arXiv:2605.02801), measured from episodes.

The decisions are when to spawn, which specialist to ask, what to write, how to combine reports, and when to stop. They
are counted for questions whose steps are known. A step is open until a report that main has observed names its value.
Every action of main that asks is a decision, and so is its decision to answer. Main can ask if an invocation and a
further turn are left. Each figure is a share of right ones:

| figure | counted | right if |
|---|---|---|
| spawned when it helped | invocations that began while a step was open | one for each step that can be asked for |
| asked the right one | invocations, if there are several specialists | it has the skill that the step needs |
| said what was needed | subtasks; reports after a tool result with the value | it names the subject; the value |
| kept what it was told | answers with no step open | the answer is right |
| stopped in time | ends; asking with no step open or when main cannot | main ends, with no step open or unable to ask |

The first figure is 0 if main never asked although a step was open. A subtask belongs to the step whose relation or
subject it names, and to an open step first. A figure is the mean over the episodes in which there is something to
count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from llm_dec_pomdp.envs.hierarchy.base import LEADER
from llm_dec_pomdp.types import Episode, Event, Group, TaskItem, known_means

from .questions import Known, steps_of, truth_of_steps, world_of
from .worlds import RELATIONS

FIGURES = (
    "spawned when it helped",
    "asked the right one",
    "said what was needed",
    "kept what it was told",
    "stopped in time",
)


class TeamLimits(NamedTuple):
    """The specialists of the main agent, and its limits of invocations and turns."""

    kinds: Sequence[str]  # specialists
    invocations: int
    turns: int


class Decision(NamedTuple):
    """A decision of main: one action, with the values that main had observed before it.

    Attributes:
        asks: The `spawn` events of the action; () if main decided to answer.
        open: The steps whose values no report had named.
        could_ask: Whether at least one invocation and one further turn were left.
    """

    asks: tuple[Event, ...]
    open: tuple[Known, ...]
    could_ask: bool


def decision_means(items: Sequence[TaskItem], bounds: TeamLimits, groups: Sequence[Group]) -> dict[str, float]:
    """Return the mean of each figure, in [0, 1], over the episodes in which there is something to count."""
    by_id = {item.id: item for item in items}
    episodes = [e for group in groups for e in group.episodes if steps_of(by_id[e.item_id])]
    return known_means([decisions(by_id[e.item_id], bounds, e) for e in episodes])


def decisions(item: TaskItem, bounds: TeamLimits, episode: Episode) -> dict[str, float]:
    """Return the five figures of an episode, in [0, 1]; NaN if there is nothing to count."""
    steps, taken = askable_of(item), decisions_of(item, bounds, episode)
    figures = (
        _spawned(taken),
        _asked(bounds, steps, taken),
        _claims_kept(item, episode, steps, taken),
        _kept(episode, taken),
        _stopped(taken),
    )
    return dict(zip(FIGURES, figures, strict=True))


def askable_of(item: TaskItem) -> tuple[Known, ...]:
    """Return the steps that need an invocation, with their true values; () if the steps are not known."""
    return tuple(step for step in truth_of_steps(item) if step.step.relation in RELATIONS)


def decisions_of(item: TaskItem, bounds: TeamLimits, episode: Episode) -> list[Decision]:
    """Return the decisions of main, in order. Actions after its decision to answer belong to this decision."""
    asked, still_open, taken = 0, askable_of(item), list[Decision]()
    for number, turn in enumerate(episode.turns, 1):
        if LEADER in turn.actions and not (taken and not taken[-1].asks):
            asks = tuple(event for event in turn.events if event.kind == "spawn")
            taken.append(Decision(asks, still_open, asked < bounds.invocations and number < bounds.turns))
            asked += len(asks)
        reports = [event.details["report"] for event in turn.events if event.kind == "return"]
        still_open = tuple(s for s in still_open if not any(is_named(report, str(s.value)) for report in reports))
    return taken


def _spawned(taken: Sequence[Decision]) -> float:
    asking = [decision for decision in taken if decision.asks and decision.open]
    if not asking:
        return 0.0 if taken and taken[0].open else math.nan
    helped = sum(min(len(decision.asks), len(_askable(decision.open))) for decision in asking)
    return helped / sum(len(decision.asks) for decision in asking)


def _asked(bounds: TeamLimits, steps: Sequence[Known], taken: Sequence[Decision]) -> float:
    if len(bounds.kinds) < 2:
        return math.nan
    right = [
        RELATIONS[_about(ask, decision.open, steps).step.relation].skill in ask.details["role"].split("+")
        for decision in taken
        for ask in decision.asks
    ]
    return fmean(right) if right else math.nan


def _claims_kept(item: TaskItem, episode: Episode, steps: Sequence[Known], taken: Sequence[Decision]) -> float:
    needed: list[bool] = []
    for ask, step in ((ask, _about(ask, d.open, steps)) for d in taken for ask in d.asks):
        needed.append(all(is_named(ask.details["subtask"], subject) for subject in step.subjects))
        events = [event for turn in episode.turns for event in turn.events if event.agent == ask.agent]
        shown = "\n".join(event.details["output"] for event in events if event.kind == "result")
        stated = world_of(item).fact(step.step.relation, step.subjects).sentence or str(step.value)
        if is_named(shown, stated) and RELATIONS[step.step.relation].skill in ask.details["role"].split("+"):
            needed.append(any(is_named(e.details["report"], str(step.value)) for e in events if e.kind == "return"))
    return fmean(needed) if needed else math.nan


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


def _askable(still_open: Sequence[Known]) -> list[Known]:
    """Return the open steps whose subjects are known, from the question or from steps that are not open."""
    values = {step.value for step in still_open}
    named = [{s for s, ref in zip(step.subjects, step.step.subjects, strict=True) if s != ref} for step in still_open]
    return [step for step, following in zip(still_open, named, strict=True) if not following & values]


def _about(ask: Event, still_open: Sequence[Known], steps: Sequence[Known]) -> Known:
    """Return the step that a subtask belongs to."""
    text = ask.details["subtask"]
    words = words_of(text)
    candidates = [*_askable(still_open), *still_open, *steps]

    def fit(step: Known) -> tuple[bool, bool]:
        return bool(RELATIONS[step.step.relation].words & words), all(is_named(text, name) for name in step.subjects)

    return max(candidates, key=fit)  # the first of equal ones


def is_named(text: str, name: str) -> bool:
    """Return whether a text contains a name as whole words."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def words_of(text: str) -> set[str]:
    """Return the words of a text in lower case."""
    return set(re.findall(r"\w+", text.lower()))
