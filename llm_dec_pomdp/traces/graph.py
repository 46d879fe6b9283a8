"""From an episode to its graph: who was told what, who said what, what came of it, and what caused what.

The order of the events is that of the course of things: at every turn what agents are told, what they say, what
happened beside texts, and what was paid. The time of an event is in seconds of the models: agents of one turn speak in
parallel, turns follow each other. A message has an edge to the next thing that each agent says which has read it, and
to nobody else's. docs/traces.md has every key.

Events and edges are written down as JSON at once: to build them as dictionaries first takes longer than all the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii as quoted
from math import isfinite
from typing import Any

from ..seeding import derive
from ..types import Completion, Episode, Event, Score, TaskItem, Turn
from .header import Header, encode

Trace = dict[str, Any]
"""A trace as JSON: keys of the schema, `events` in order, `edges` between them (docs/traces.md)."""
ENVIRONMENT = "environment"  # the lane of what no agent says
READ = "read"  # a kind of event that becomes an edge, and no event of the trace

_TYPES = {"spawn": "spawn", "despawn": "despawn", "call": "tool_call", "result": "tool_result", "return": "return"}
_INTO = {"tool_call": "tool_dependency", "message": "temporal"}  # type of the edge from what an agent did before
_ENVIRONMENT = quoted(ENVIRONMENT)


def from_episode(
    episode: Episode, header: Header, item: TaskItem, *, seed: int | None = None, token_ids: bool = False
) -> Trace:
    """An episode as a trace, losslessly, with its texts inline.

    Args:
        episode: As a rollout played it.
        header: What was played, and by whom.
        item: The task.
        seed: That `reset` was given; when left out, what `Trajectories(chance="own")`, `Tree` and `Crossed` give. For
            trajectories of shared chance it is `derive(seed of the task, "env")`.
        token_ids: Keep token ids and log-probabilities too, to train on.
    """
    return json.loads(line_of(episode, header, item, seed=seed, token_ids=token_ids))


def line_of(
    episode: Episode,
    header: Header,
    item: TaskItem,
    *,
    seed: int | None = None,
    token_ids: bool = False,
    folder: str = "",
    instead: Callable[[str | Mapping[str, Any]], str] | None = None,
) -> str:
    """An episode as a trace in JSON, without a line break, as a file has it.

    Args:
        episode, header, item, seed, token_ids: See `from_episode`.
        folder: What stands before the id of the trace.
        instead: Given a content, the field in JSON that stands in its place, a comma in front; None: the content.
    """
    graph = _Graph(header, token_ids, instead)
    graph.begin(episode, item, derive(episode.seed, "env") if seed is None else seed)
    for number, turn in enumerate(episode.turns):
        graph.play(number, turn)
    name = f"{folder}{header.environment}/{header.protocol}/{item.id}/{episode.seed}"
    return (
        f'{{"trace_id":{quoted(name)},"task_id":{quoted(item.id)},"system":"llm_dec_pomdp",'
        f'"topology":{quoted(header.topology)},"events":[{graph.events}],"edges":[{",".join(graph.edges)}],'
        f"{graph.sums(episode)}}}"
    )


class _Graph:
    """The events and edges so far, in JSON; an event is known by its number.

    Args:
        header: What is played.
        token_ids: Keep token ids and log-probabilities.
        instead: See `line_of`.

    Attributes:
        edges: Each in JSON.
        clock: Seconds since the beginning.
        tokens, tool_calls, messages: What it cost: tokens that were sampled, calls, messages of agents.
        paid: The sum of what every agent was paid, where agents are paid individually.
    """

    def __init__(
        self, header: Header, token_ids: bool, instead: Callable[[str | Mapping[str, Any]], str] | None
    ) -> None:
        self.edges: list[str] = []
        self.clock, self._now = 0.0, "0.0"  # and as JSON
        self.tokens = self.tool_calls = self.messages = 0
        self.paid: dict[str, float] = {}
        self._events: list[str] = []  # without the brace at their end, before which more may come
        self._header, self._token_ids, self._instead = header, token_ids, instead
        self._latest: dict[str, tuple[int, str]] = {}  # what an agent did last: event, type
        self._said: dict[str, int] = {}  # what it said last
        self._waiting: dict[str, list[tuple[int, str]]] = {}  # edges into what an agent does next: from, type
        self._reads: dict[str, list[str]] = {}  # messages that stand in what an agent is told next
        self._read_by: dict[int, list[str]] = {}  # who has read a message
        self._replaced: dict[int, str] = {}  # what stands in the place of a content
        self._spawner: dict[str, str] = {}
        self._before = (0, "temporal")  # what the next turn follows, and how

    @property
    def events(self) -> str:
        """The events, with commas between them."""
        events = self._events.copy()
        for number, readers in self._read_by.items():
            events[number] += f',"read_by":{encode(readers)}'
        for number, field in self._replaced.items():
            events[number] += field
        return "},".join(events) + "}"

    def begin(self, episode: Episode, item: TaskItem, seed: int) -> None:
        """The event of the header."""
        shared, content, as_json = self._header.of_task(item)
        terminated = "true" if episode.terminated else "false"
        run = f'"seed":{seed},"text_seed":{episode.seed},"share":{_number(episode.share)},"terminated":{terminated}'
        self._events.append(
            f'{{"id":"e0","t":0.0,"type":"orchestrator_decision","agent":{_ENVIRONMENT},"decision":"start",'
            f'"header":{shared[:-1]},{run}}}{self._content(content, as_json)}'
        )

    def sums(self, episode: Episode) -> str:
        """What was earned and what it cost."""
        final = episode.final
        rewards: dict[str, float] = {"team": episode.total, **(final.components if final else {}), **self.paid}
        paid = {name: value for name, value in rewards.items() if isfinite(value)}
        score = f'"score":{_number(final.total)},' if final and isfinite(final.total) else ""
        return (
            f'"rewards":{_object(paid, _number)},"costs":{{"tokens":{self.tokens},"tool_calls":{self.tool_calls},'
            f'"messages":{self.messages},"wall_clock_s":{self._now}}},"metrics":{{{score}"turns":{len(episode.turns)}}}'
        )

    def play(self, number: int, turn: Turn) -> None:
        """The events of a turn."""
        started = self.clock
        for agent, text in (*turn.told.items(), *turn.observations.items()):
            self._tell(number, agent, text)
        for agent, completion in turn.actions.items():
            self._set_clock(started + completion.seconds)
            self._say(number, agent, completion)
        self._set_clock(started + max([c.seconds for c in turn.actions.values()], default=0.0))
        for event in turn.events:
            self._happen(number, event)
        self._pay(number, turn)

    def _set_clock(self, seconds: float) -> None:
        self.clock, self._now = seconds, _number(seconds)

    def _tell(self, number: int, agent: str, text: str) -> None:
        more = f'{self._content(text)},"to":{quoted(agent)}'
        if agent in self._reads:
            more += f',"reads":{encode(self._reads.pop(agent))}'
        event = self._add(number, "message", _ENVIRONMENT, more)
        self._edge(self._before[0], event, self._before[1])
        self._waiting.setdefault(agent, []).append((event, "message"))

    def _say(self, number: int, agent: str, said: Completion) -> None:
        more = f'{self._content(said.text)},"role":{quoted(self._header.players[agent].role)}'
        if said.prompt_ids or said.token_ids:
            more += f',"tokens":{{"prompt":{len(said.prompt_ids)},"sampled":{len(said.token_ids)}}}'
        if said.seconds:
            more += f',"seconds":{_number(said.seconds)}'
        if said.truncated:
            more += ',"truncated":true'
        if self._token_ids:
            logprobs = ",".join(map(_number, said.logprobs))
            more += (
                f',"prompt_ids":{encode(said.prompt_ids)},"token_ids":{encode(said.token_ids)},"logprobs":[{logprobs}]'
            )
        event = self._add(number, "message", quoted(agent), more)
        self._follow(agent, event, "message")
        self._said[agent] = event
        self.tokens += len(said.token_ids)
        self.messages += 1

    def _happen(self, number: int, what: Event) -> None:
        if what.kind == READ:
            self._read(what.agent, what.details.get("of", ""))
            return
        type_ = _TYPES.get(what.kind, "orchestrator_decision")
        more = f'{self._content(what.details)},"kind":{quoted(what.kind)}'
        if type_ == "spawn":
            self._spawn(number, what, more)
            return
        if type_ in ("tool_call", "tool_result"):
            more += f',"tool":{quoted(what.details.get("tool", "tool"))}'
            self.tool_calls += type_ == "tool_call"
        elif type_ == "return":
            to = self._spawner.get(what.agent, ENVIRONMENT)
            more += f',"from":{quoted(what.agent)},"to":{quoted(to)}'
            self._waiting.setdefault(to, []).append((len(self._events), "return"))
        elif type_ == "orchestrator_decision":
            more += f',"decision":{quoted(what.kind)}'
        self._follow(what.agent, self._add(number, type_, quoted(what.agent), more), type_)

    def _spawn(self, number: int, what: Event, more: str) -> None:
        by, role = what.details.get("by", ENVIRONMENT), what.details.get("role", "")
        event = self._add(number, "spawn", quoted(by), f'{more},"role":{quoted(role)},"to":{quoted(what.agent)}')
        if by in self._latest:
            self._edge(self._latest[by][0], event, "causal")
        self._spawner[what.agent] = by
        self._waiting.setdefault(what.agent, []).append((event, "spawn"))

    def _read(self, reader: str, writer: str) -> None:
        message = self._said.get(writer)
        if message is None or reader in self._read_by.get(message, ()):
            return
        self._read_by.setdefault(message, []).append(reader)
        self._reads.setdefault(reader, []).append(f"e{message}")
        self._waiting.setdefault(reader, []).append((message, "message"))

    def _pay(self, number: int, turn: Turn) -> None:
        more = f',"reward":{_number(turn.reward)}'
        if turn.rewards:
            more += f',"rewards":{_object(turn.rewards, _number)}'
            for agent, value in turn.rewards.items():
                self.paid[agent] = self.paid.get(agent, 0.0) + value
        if turn.score is not None:
            more += _score(turn.score) + (self._content(turn.score.notes) if turn.score.notes else "")
        event = self._add(number, "aggregate", _ENVIRONMENT, more)
        for agent in turn.actions:
            self._edge(self._said[agent], event, "aggregate")
        if not turn.actions:
            self._edge(self._before[0], event, "temporal")
        self._before = (event, "causal")

    # --- events and edges --------------------------------------------------------------------------------------------

    def _add(self, number: int, type_: str, agent: str, more: str) -> int:
        event = len(self._events)
        self._events.append(f'{{"id":"e{event}","t":{self._now},"type":"{type_}","agent":{agent},"turn":{number}{more}')
        return event

    def _content(self, content: str | Mapping[str, Any], as_json: str = "") -> str:
        """The content of the event that is added next."""
        if self._instead is not None:
            self._replaced[len(self._events)] = self._instead(content)
            return ""
        return f',"content":{as_json or (quoted(content) if isinstance(content, str) else _object(content, encode))}'

    def _edge(self, source: int, event: int, kind: str) -> None:
        self.edges.append(f'{{"src":"e{source}","dst":"e{event}","type":"{kind}"}}')

    def _follow(self, agent: str, event: int, type_: str) -> None:
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


def _score(score: Score) -> str:
    parts = f'"components":{_object(score.components, _number)},"diagnostics":{_object(score.diagnostics, _number)}'
    return f',"score":{{"total":{_number(score.total)},{parts}}}'


def _object(values: Mapping[str, Any], as_json: Callable[[Any], str]) -> str:
    return "{" + ",".join([f"{quoted(name)}:{as_json(value)}" for name, value in values.items()]) + "}"


def _number(value: float) -> str:
    """JSON has no word for what is not finite."""
    if type(value) is float:  # which is nearly every one
        return repr(value) if isfinite(value) else "null"
    return encode(value if isfinite(value) else None)
