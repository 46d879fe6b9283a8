"""The course of an episode: who was told, who spoke, what happened, in which order, without any text or number.

All that a trace has beside texts and numbers follows from it: the events, their ids, and what caused what. Many
episodes take the same course, so its JSON is made once, with gaps for the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as quoted

from ..types import Episode

ENVIRONMENT = "environment"  # the lane of what no agent says
READ = "read"  # a kind of event that becomes an edge, and no event of the trace
TYPES = {"spawn": "spawn", "despawn": "despawn", "call": "tool_call", "result": "tool_result", "return": "return"}
_INTO = {"tool_call": "tool_dependency", "message": "temporal"}  # type of the edge from what an agent did before
_OTHER = {"spawn": "by", READ: "of"}  # where an event names a second agent
_GAP = "\0"  # in no JSON
_KEPT = 256  # courses whose JSON is kept, of about 10 kB each

Happening = tuple[str, str, str]
"""Kind of an event, its agent, and the other agent where there is one."""
Names = tuple[str, ...]
Course = tuple[tuple[Names, Names, Names, tuple[Happening, ...]], ...]
"""For each turn the agents that were told something without being asked, were asked, and spoke, and what happened."""


def course_of(episode: Episode) -> Course:
    """The course that an episode took."""
    return tuple(
        [
            (
                tuple(turn.told),
                tuple(turn.observations),
                tuple(turn.actions),
                tuple(
                    [
                        (e.kind, e.agent, e.details.get(_OTHER[e.kind], ENVIRONMENT) if e.kind in _OTHER else "")
                        for e in turn.events
                    ]
                ),
            )
            for turn in episode.turns
        ]
    )


@functools.lru_cache(maxsize=_KEPT)
def parts_of(course: Course, roles: tuple[tuple[str, str], ...], topology: str) -> Sequence[str]:
    """The JSON of a trace in parts, between which its texts and numbers stand.

    A gap each for the id of the trace, that of its task, and the rest of the header's event; then two for each event,
    its time and the rest of it; then what was earned, tokens, seconds, and the score. `roles` are pairs of agent and
    role.
    """
    graph = _Graph(dict(roles))
    for number, turn in enumerate(course):
        graph.play(number, *turn)
    return (
        f'{{"trace_id":{_GAP},"task_id":{_GAP},"system":"llm_dec_pomdp","topology":{quoted(topology)},'
        f'"events":[{graph.events}],"edges":[{",".join(graph.edges)}],"rewards":{_GAP},"costs":{{"tokens":{_GAP},'
        f'"tool_calls":{graph.tool_calls},"messages":{graph.messages},"wall_clock_s":{_GAP}}},'
        f'"metrics":{{{_GAP}"turns":{len(course)}}}}}'
    ).split(_GAP)


class _Graph:
    """The events and edges so far, in JSON."""

    def __init__(self, roles: dict[str, str]) -> None:
        self.edges: list[str] = []
        self.tool_calls = self.messages = 0  # how many there were; messages of agents only
        start = f'"type":"orchestrator_decision","agent":"{ENVIRONMENT}","decision":"start"{_GAP}'
        self._events = [f'{{"id":"e0","t":0.0,{start}']  # the brace at the end is missing, as of all of them
        self._roles = roles
        self._latest: dict[str, tuple[str, str]] = {}  # what an agent did last: event, type
        self._said: dict[str, str] = {}  # what it said last
        self._waiting: dict[str, list[tuple[str, str]]] = {}  # edges into what an agent does next: from, type
        self._reads: dict[str, list[str]] = {}  # messages that stand in what an agent is told next
        self._read_by: dict[str, list[str]] = {}  # who has read a message
        self._spawner: dict[str, str] = {}
        self._before = ("e0", "temporal")  # what the next turn follows, and how

    @property
    def events(self) -> str:
        """The events, with commas between them."""
        events = self._events.copy()
        for message, readers in self._read_by.items():
            events[int(message[1:])] += f',"read_by":[{",".join(map(quoted, readers))}]'
        return "},".join(events) + "}"

    def play(self, number: int, told: Names, asked: Names, spoke: Names, happened: Sequence[Happening]) -> None:
        """The events of a turn."""
        for agent in (*told, *asked):
            self._tell(number, agent)
        for agent in spoke:
            event = self._add(number, "message", agent, role=self._roles[agent])
            self._follow(agent, event, "message")
            self._said[agent] = event
            self.messages += 1
        for kind, agent, other in happened:
            self._happen(number, kind, agent, other)
        self._pay(number, spoke)

    def _tell(self, number: int, agent: str) -> None:
        event = self._add(number, "message", ENVIRONMENT, to=agent)
        if agent in self._reads:
            self._events[-1] += f',"reads":[{",".join(map(quoted, self._reads.pop(agent)))}]'
        self._edge(self._before[0], event, self._before[1])
        self._wait(agent, event, "message")

    def _happen(self, number: int, kind: str, agent: str, other: str) -> None:
        type_ = TYPES.get(kind, "orchestrator_decision")
        if kind == READ:
            self._read(agent, other)
        elif type_ == "spawn":
            self._spawn(number, agent, other)
        else:
            self._do(number, kind, agent, type_)

    def _do(self, number: int, kind: str, agent: str, type_: str) -> None:
        more: dict[str, str] = {"kind": kind}
        if type_ == "orchestrator_decision":
            more["decision"] = kind
        elif type_ == "return":
            more |= {"from": agent, "to": self._spawner.get(agent, ENVIRONMENT)}
        event = self._add(number, type_, agent, **more)
        self.tool_calls += type_ == "tool_call"
        if type_ == "return":
            self._wait(more["to"], event, "return")
        self._follow(agent, event, type_)

    def _spawn(self, number: int, agent: str, by: str) -> None:
        event = self._add(number, "spawn", by, kind="spawn", to=agent)
        if by in self._latest:
            self._edge(self._latest[by][0], event, "causal")
        self._spawner[agent] = by
        self._wait(agent, event, "spawn")

    def _read(self, reader: str, writer: str) -> None:
        message = self._said.get(writer)
        if message is None or reader in self._read_by.get(message, ()):
            return
        self._read_by.setdefault(message, []).append(reader)
        self._reads.setdefault(reader, []).append(message)
        self._wait(reader, message, "message")

    def _pay(self, number: int, spoke: Names) -> None:
        event = self._add(number, "aggregate", ENVIRONMENT)
        for agent in spoke:
            self._edge(self._said[agent], event, "aggregate")
        if not spoke:
            self._edge(self._before[0], event, "temporal")
        self._before = (event, "causal")

    # --- events and edges --------------------------------------------------------------------------------------------

    def _add(self, number: int, type_: str, agent: str, **more: str) -> str:
        """Add an event; its id. `more` are further fields."""
        event = f"e{len(self._events)}"
        fields = "".join([f',"{name}":{quoted(value)}' for name, value in more.items()])
        self._events.append(
            f'{{"id":"{event}","t":{_GAP},"type":"{type_}","agent":{quoted(agent)},"turn":{number}{_GAP}{fields}'
        )
        return event

    def _edge(self, source: str, event: str, kind: str) -> None:
        self.edges.append(f'{{"src":"{source}","dst":"{event}","type":"{kind}"}}')

    def _wait(self, agent: str, event: str, kind: str) -> None:
        """What an agent does next follows from an event."""
        self._waiting.setdefault(agent, []).append((event, kind))

    def _follow(self, agent: str, event: str, type_: str) -> None:
        """Link what an agent does to what it did before, and to what it was waiting for."""
        before, waiting = self._latest.get(agent), self._waiting.pop(agent, ())
        for source, kind in waiting:
            self._edge(source, event, kind)
        if before is not None and before[0] not in [source for source, _ in waiting]:
            self._edge(before[0], event, _own_edge(before[1], type_))
        self._latest[agent] = event, type_


def _own_edge(before: str, after: str) -> str:
    """The type of the edge between two things that one agent did."""
    if before == "tool_call" and after == "tool_result":
        return "return"
    return _INTO.get(after, "causal") if before == "message" else "causal"
