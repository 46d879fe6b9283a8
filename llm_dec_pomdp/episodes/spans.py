"""Conversion of spans, the records of tracing libraries, to traces of the published schema.

A span has a start, an end and a parent. `otel` and `openai_agents` read spans from files; `trace_of` makes a trace of
those with one `trace_id`:

| span | becomes |
|---|---|
| an agent inside of another agent | `spawn` at its start, `return` at its end |
| a call of a model | `message` from the environment to the agent at its start, `message` of the agent at its end |
| a call of a tool | `tool_call` and `tool_result` |
| a handoff, a guardrail | `orchestrator_decision`, `safety_event` |
| any other span | nothing; its children belong to its parent |

The agent of a span is the nearest agent around it. Agents of one name that run at the same time are named "name",
"name #2", ... An edge means that one event could influence another:

* Inside of an agent or a tool, from the spans that ended last to the span that starts next.
* From a message or a result to a call of another agent, or of a later run of the same agent, whose new input contains
  its text as whole words.
* From a handoff to the next run of the agent that it names.

Between runs of agents that are not inside of one agent, only their texts show which run influenced another. The last
result, an `aggregate` event, is therefore left out if such texts were not recorded. Numbers that no span has are null.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..storage.reading import LARGEST, open_file
from .files import read
from .header import TraceError
from .record import DECISION, ENVIRONMENT, Trace, tokens_in

Kind = Literal["agent", "model", "tool", "handoff", "guardrail", "other"]
MOST = 10_000  # spans of a trace; every new text is compared with all earlier texts
DEEPEST = 200  # spans around a span


@dataclass(frozen=True)
class Span:
    """A span of a tracing library.

    Attributes:
        id, parent: Its id, and the id of its parent ("": none). The parent may be missing in the file.
        start, end: Nanoseconds since any fixed time.
        kind: Kind of the operation; "other" if a trace has no event for it.
        name: Id or name of the agent (also of the agent that calls a model), the tool, or the agent handed over to.
        role: Readable name of the agent.
        inputs: Texts that were given to the model or the tool; None: not recorded.
        output: Text of the model or of the tool; None: not recorded.
        fields: Further fields of the event, such as `usage`.
        rewards: Scores of the trace by name.
    """

    id: str
    parent: str
    start: int
    end: int
    kind: Kind = "other"
    name: str = ""
    role: str = ""
    inputs: tuple[str, ...] | None = None
    output: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    rewards: Mapping[str, float] = field(default_factory=dict[str, float])


def read_log(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a log: one per line, or one document; raise FileError if it is too large."""
    open_file(path, LARGEST).close()
    yield from read(path)


def trace_of(spans: Sequence[Span], trace_id: str, task_id: str, system: str, where: str) -> Trace | None:
    """Return the trace of spans; None if there is no call of a model or run of an agent.

    Args:
        spans: All spans of one trace, in any order.
        trace_id, task_id, system: Fields of the trace.
        where: Beginning of error messages.

    Raises:
        TraceError: There are too many spans, two have the same id, one ends before it starts, is nested too deeply, or
            is inside of itself. The message names the span.
    """
    if len(spans) > MOST:
        raise TraceError(f"{where}: {len(spans)} spans, and the limit is {MOST}; give a part of the log")
    by_id: dict[str, Span] = {}
    for span in spans:
        if span.id in by_id:
            raise TraceError(f"{where}, span {span.id!r:.60}: another span has the same id; remove one of them")
        if span.end < span.start:
            raise TraceError(f"{where}, span {span.id!r:.60}: it ends {span.start - span.end} ns before it starts")
        by_id[span.id] = replace(span, name=f"{ENVIRONMENT} (agent)") if span.name == ENVIRONMENT else span
    if not any(span.kind in ("agent", "model") for span in spans):
        return None
    return _Tree(by_id, where).trace(trace_id, task_id, system)


class _Tree:
    """The spans that become events, as a tree, and the events and edges made from them."""

    def __init__(self, by_id: Mapping[str, Span], where: str) -> None:
        self.by_id, self.where = by_id, where
        kept = {span.id for span in by_id.values() if span.kind != "other" and not self._repeats(span)}
        self.spans = sorted((by_id[name] for name in kept), key=lambda span: (span.start, -span.end))
        self.around = {span.id: self._outside(span, kept) for span in self.spans}  # the agent or tool; "": none
        full = {*self.around.values()}
        for run in [span for span in self.spans if span.kind == "agent" and span.id not in full]:
            name = next(name for n in itertools.count() if (name := f"{run.id}/{n}") not in by_id)
            self.around[name] = run.id
            self.spans.append(replace(run, id=name, kind="model"))  # a remote agent is one call
        self.inside: defaultdict[str, list[Span]] = defaultdict(list)
        for span in self.spans:
            self.inside[self.around[span.id]].append(span)
        self.lanes = self._lanes()
        self.roles = {lane: self.by_id[run].role for run, lane in self.lanes.items()}
        self.events: list[dict[str, Any]] = []
        self.edges: dict[tuple[str, str], None] = {}  # ordered, without repetitions
        self.first: dict[str, list[dict[str, Any]]] = {}  # the first events of a span
        self.last: dict[str, list[dict[str, Any]]] = {}

    def _ancestors(self, span: Span) -> Iterator[Span]:
        """Yield the spans around a span, the nearest first."""
        seen = {span.id}
        while (parent := self.by_id.get(span.parent)) is not None:
            if parent.id in seen:
                raise TraceError(f"{self.where}, span {parent.id!r:.60}: its parents lead back to itself")
            if len(seen) > DEEPEST:
                raise TraceError(f"{self.where}, span {span.id!r:.60}: it is inside of more than {DEEPEST} spans")
            seen.add(parent.id)
            yield parent
            span = parent

    def _repeats(self, span: Span) -> bool:
        """Return whether a span around records the same call, because two libraries recorded it."""
        outer = next((other for other in self._ancestors(span) if other.kind != "other"), None)
        if outer is None or outer.kind != span.kind:
            return False
        return span.kind == "model" or outer.name == span.name

    def _outside(self, span: Span, kept: Collection[str]) -> str:
        """Return the id of the nearest agent or tool around a span; "" if there is none."""
        found = (other.id for other in self._ancestors(span) if other.kind in ("agent", "tool") and other.id in kept)
        return next(found, "")

    def _lanes(self) -> dict[str, str]:
        """Return the agent of each run: runs of one name that overlap are different agents."""
        lanes: dict[str, str] = {}
        ends: defaultdict[str, list[int]] = defaultdict(list)  # by name: the end of the last run of each agent
        for run in self.spans:
            if run.kind == "agent":
                known = ends[run.name]
                number = next((n for n, end in enumerate(known) if end <= run.start), len(known))
                known[number : number + 1] = [run.end]
                lanes[run.id] = f"{run.name} #{number + 1}" if number else run.name
        return lanes

    def trace(self, trace_id: str, task_id: str, system: str) -> Trace:
        """Return the trace."""
        tops = self.inside[""]
        for span in tops:
            self._play(span, "")
        handed = self._hand_over()
        if self._read() or len(tops) - handed <= 1:
            results = [event for span in _latest(tops) for event in self.last[span.id]]
            self._join(results, [self._add("aggregate", ENVIRONMENT, max(event["t"] for event in results))])
        self.events.sort(key=lambda event: event["t"])  # stable: at one time, the order of the tree
        places = {event["id"]: place for place, event in enumerate(self.events)}
        edges = [
            (self.events[places[source]], self.events[places[event]])
            for source, event in self.edges
            if places[source] < places[event]  # the clocks of machines differ
        ]
        origin = self.events[0]["t"]
        for place, event in enumerate(self.events):
            event |= {"id": f"e{place}", "t": (event["t"] - origin) / 1e9}
        messages = [event for event in self.events if event["type"] == "message" and event["agent"] != ENVIRONMENT]
        return {
            "trace_id": trace_id,
            "task_id": task_id,
            "system": system,
            "topology": "hierarchical" if any(event["type"] == "spawn" for event in self.events) else "unknown",
            "events": self.events,
            "edges": [{"src": src["id"], "dst": dst["id"], "type": _type(src, dst)} for src, dst in edges],
            "rewards": {name: value for span in self.by_id.values() for name, value in span.rewards.items()},
            "costs": {
                "tokens": tokens_in(messages),
                "tool_calls": sum(event["type"] == "tool_call" for event in self.events),
                "messages": len(messages),
                "wall_clock_s": self.events[-1]["t"],
            },
        }

    def _play(self, span: Span, outer: str) -> None:
        """Add the events and edges of a span and of the spans inside of it; `outer` is the agent around it."""
        lane, inside = self.lanes.get(span.id), self.inside[span.id]
        agent = lane or outer or (span.name if span.kind == "model" else "") or "agent"
        begin = end = None
        if lane and outer:
            begin = self._add("spawn", outer, span.start, to=lane, role=span.role)
        elif span.kind == "tool":
            begin = self._add("tool_call", agent, span.start, tool=span.name)
            if span.inputs is not None:
                begin["content"] = {"arguments": "\n".join(span.inputs)}
        elif span.kind == "model":
            begin = self._add("message", ENVIRONMENT, span.start, to=agent)
        for child in inside:
            self._play(child, agent)
        if lane and outer:
            end = self._add("return", lane, span.end, **{"from": lane, "to": outer})
        elif span.kind == "tool":
            end = self._add("tool_result", agent, span.end, tool=span.name)
            if span.output is not None:
                end["content"] = {"result": span.output}
        elif span.kind == "model":
            end = self._add("message", agent, span.end, role=self.roles.get(agent, span.role or agent), **span.fields)
            if span.output is not None:
                end["content"] = span.output
        elif span.kind == "handoff":
            end = self._add(DECISION, agent, span.end, decision="handoff", to=span.name)
        elif span.kind == "guardrail":
            end = self._add("safety_event", agent, span.end, **span.fields)
        starts: list[dict[str, Any]] = []
        for child, before in zip(inside, _predecessors(inside), strict=True):
            self._join((event for other in before for event in self.last[other.id]), self.first[child.id])
            starts += [] if before else self.first[child.id]
        ends = [event for child in _latest(inside) for event in self.last[child.id]]
        self.first[span.id] = [begin] if begin else starts or [event for event in [end] if event]
        self.last[span.id] = [end] if end else ends
        if begin:
            self._join([begin], starts or self.last[span.id])
        if end:
            self._join(ends, [end])

    def _add(self, type_: str, agent: str, time: int, **fields: Any) -> dict[str, Any]:
        event = {"id": f"n{len(self.events)}", "t": time, "type": type_, "agent": agent, **fields}
        self.events.append(event)
        return event

    def _join(self, sources: Iterable[dict[str, Any]], events: Collection[dict[str, Any]]) -> None:
        """Add edges from each source to each event."""
        self.edges |= {(source["id"], event["id"]): None for source in sources for event in events}

    def _hand_over(self) -> int:
        """Add edges from handoffs to runs; return the number of their targets that are not inside of an agent."""
        runs = [span for span in self.spans if span.kind == "agent"]
        reached: set[str] = set()
        for handoff in (span for span in self.spans if span.kind == "handoff"):
            later = (run for run in runs if run.name == handoff.name and run.start >= handoff.end)
            if (run := next(later, None)) is not None:
                self._join(self.last[handoff.id], self.first[run.id])
                reached |= {run.id} if not self.around[run.id] else set()
        return len(reached)

    def _read(self) -> bool:
        """Add the new inputs of each call, with edges from the texts in them; return whether all calls have texts."""
        calls = sorted((span for span in self.spans if span.kind == "model"), key=lambda span: span.start)
        sources = sorted((span for span in self.spans if span.output is not None), key=lambda span: span.end)
        sources = [span for span in sources if span.kind in ("model", "tool")]
        seen: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # inputs by run and agent
        said: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # outputs
        for call in calls:
            if call.inputs is None:
                continue
            run, [observation], [message] = self.around[call.id], self.first[call.id], self.last[call.id]
            key = run, message["agent"]
            new = [text for text in dict.fromkeys(call.inputs) if text not in seen[key]]
            observation["content"] = "\n\n".join(text for text in new if text not in said[key])
            seen[key] |= {*call.inputs}
            said[key] |= {call.output or ""}
            for source in sources:
                if source.end > call.start:
                    break
                elsewhere = not run or self.around[source.id] != run
                if elsewhere and any(_contains(text, source.output or "") for text in new):
                    self._join(self.last[source.id], [message])
        return all(call.inputs is not None and call.output is not None for call in calls)


def _latest(spans: Iterable[Span]) -> list[Span]:
    """Return the last span, and all spans that end after its start."""
    spans = [*spans]
    last = max(spans, key=lambda span: span.start, default=None)
    return [span for span in spans if span is last or (last is not None and span.end > last.start)]


def _predecessors(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Yield for each span, in order of start, the spans that ended before it without another span in between."""
    running: list[tuple[int, int, Span]] = []
    ended: list[Span] = []
    for number, span in enumerate(spans):
        while running and running[0][0] <= span.start:
            ended.append(heapq.heappop(running)[2])
        ended = _latest(ended)
        yield ended
        heapq.heappush(running, (span.end, number, span))


def _contains(text: str, part: str) -> bool:
    """Return whether a text contains another one as whole words."""
    part = part.strip()
    place = text.find(part) if part else -1
    while place >= 0:
        around = text[place - 1 : place] + part[0], part[-1] + text[place + len(part) : place + len(part) + 1]
        if not any(len(pair) == 2 and pair.isalnum() for pair in around):
            return True
        place = text.find(part, place + 1)
    return False


def _type(source: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    """Return the type of an edge."""
    match source["type"], event["type"]:
        case _, "aggregate":
            return "aggregate"
        case (("spawn" | "return" as kind), _):
            return kind
        case _, "spawn":
            return "spawn"
        case "tool_call", "tool_result":
            return "return"
        case _, "tool_call":
            return "tool_dependency"
        case "message", "message":
            return "message"
        case _:
            return "causal"
