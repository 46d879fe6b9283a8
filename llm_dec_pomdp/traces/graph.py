"""From an episode to its graph: who was told what, who said what, what came of it, and what caused what.

The order of the events is that of the course of things: at every turn what agents are told, what they say, what
happened beside texts, and what was paid. The time of an event is in seconds of the models: agents of one turn speak in
parallel, turns follow each other. A message has an edge to the next thing that each agent says which has read it, and
to nobody else's. docs/traces.md has every key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..seeding import derive
from ..types import Completion, Episode, Event, Score, TaskItem, Turn
from .header import Header

Trace = dict[str, Any]
ENVIRONMENT = "environment"  # the lane of what no agent says
READ = "read"  # a kind of event that becomes an edge, and no event of the trace

_TYPES = {"spawn": "spawn", "despawn": "despawn", "call": "tool_call", "result": "tool_result", "return": "return"}
_INTO = {"tool_call": "tool_dependency", "message": "temporal"}  # type of the edge from what an agent did before


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
    graph = _Graph(header, item, token_ids=token_ids)
    graph.begin(episode, derive(episode.seed, "env") if seed is None else seed)
    for number, turn in enumerate(episode.turns):
        graph.play(number, turn)
    final = episode.final
    rewards: dict[str, float] = {"team": episode.total, **(final.components if final else {}), **graph.paid}
    measured = {"score": final.total if final else math.nan, "turns": len(episode.turns)}
    return {
        "trace_id": f"{header.environment}/{header.protocol}/{item.id}/{episode.seed}",
        "task_id": item.id,
        "system": "llm_dec_pomdp",
        "topology": header.topology,
        "events": graph.events,
        "edges": graph.edges,
        "rewards": {name: value for name, value in rewards.items() if math.isfinite(value)},
        "costs": {**graph.counts, "wall_clock_s": graph.clock},
        "metrics": {name: value for name, value in measured.items() if math.isfinite(value)},
    }


class _Graph:
    """The events and edges so far.

    Args:
        header: What is played.
        item: The task.
        token_ids: Keep token ids and log-probabilities.

    Attributes:
        clock: Seconds since the beginning.
        counts: What it cost, in tokens that were sampled, tool calls, and messages of agents.
        paid: The sum of what every agent was paid, where agents are paid individually.
    """

    def __init__(self, header: Header, item: TaskItem, *, token_ids: bool) -> None:
        self.events: list[dict[str, Any]] = []
        self.edges: list[dict[str, str]] = []
        self.clock = 0.0
        self.counts = {"tokens": 0, "tool_calls": 0, "messages": 0}
        self.paid: dict[str, float] = {}
        self._header, self._item, self._token_ids = header, item, token_ids
        self._latest: dict[str, dict[str, Any]] = {}  # what an agent did last
        self._said: dict[str, dict[str, Any]] = {}  # what it said last
        self._waiting: dict[str, list[tuple[str, str]]] = {}  # edges into what an agent does next: from, type
        self._reads: dict[str, list[str]] = {}  # messages that stand in what an agent is told next
        self._spawner: dict[str, str] = {}
        self._before = ("e0", "temporal")  # what the next turn follows, and how

    def begin(self, episode: Episode, seed: int) -> None:
        """The event of the header."""
        content, named = self._header.task(self._item)
        run = {
            **self._header.shared,
            "task": {"id": self._item.id, "digest": named},
            "seed": seed,
            "text_seed": episode.seed,
            "share": episode.share,
            "terminated": episode.terminated,
        }
        event = {"id": "e0", "t": 0.0, "type": "orchestrator_decision", "agent": ENVIRONMENT}
        self.events.append({**event, "decision": "start", "header": run, "content": content})

    def play(self, number: int, turn: Turn) -> None:
        """The events of a turn."""
        started = self.clock
        for agent, text in (*turn.told.items(), *turn.observations.items()):
            self._tell(number, agent, text)
        for agent, completion in turn.actions.items():
            self.clock = started + completion.seconds
            self._say(number, agent, completion)
        self.clock = started + max((c.seconds for c in turn.actions.values()), default=0.0)
        for event in turn.events:
            self._happen(number, event)
        self._pay(number, turn)

    def _tell(self, number: int, agent: str, text: str) -> None:
        event = self._add(number, "message", ENVIRONMENT, content=text, to=agent)
        if agent in self._reads:
            event["reads"] = self._reads.pop(agent)
        self._edge(self._before[0], event, self._before[1])
        self._waiting.setdefault(agent, []).append((event["id"], "message"))

    def _say(self, number: int, agent: str, said: Completion) -> None:
        event = self._add(number, "message", agent, content=said.text, role=self._header.players[agent].role)
        if said.prompt_ids or said.token_ids:
            event["tokens"] = {"prompt": len(said.prompt_ids), "sampled": len(said.token_ids)}
        if said.seconds:
            event["seconds"] = said.seconds
        if said.truncated:
            event["truncated"] = True
        if self._token_ids:
            event["prompt_ids"], event["token_ids"] = list(said.prompt_ids), list(said.token_ids)
            event["logprobs"] = [_number(value) for value in said.logprobs]
        self._follow(event)
        self._said[agent] = event
        self.counts["tokens"] += len(said.token_ids)
        self.counts["messages"] += 1

    def _happen(self, number: int, what: Event) -> None:
        if what.kind == READ:
            self._read(what.agent, what.details.get("of", ""))
            return
        kind = _TYPES.get(what.kind, "orchestrator_decision")
        by = what.details.get("by", ENVIRONMENT) if kind == "spawn" else what.agent
        event = self._add(number, kind, by, content=dict(what.details), kind=what.kind)
        if kind == "spawn":
            event["role"], event["to"] = what.details.get("role", ""), what.agent
            if by in self._latest:
                self._edge(self._latest[by]["id"], event, "causal")
            self._spawner[what.agent] = by
            self._waiting.setdefault(what.agent, []).append((event["id"], "spawn"))
            return
        if kind in ("tool_call", "tool_result"):
            event["tool"] = what.details.get("tool", "tool")
            self.counts["tool_calls"] += kind == "tool_call"
        elif kind == "return":
            to = self._spawner.get(what.agent, ENVIRONMENT)
            event["from"], event["to"] = what.agent, to
            self._waiting.setdefault(to, []).append((event["id"], "return"))
        elif kind == "orchestrator_decision":
            event["decision"] = what.kind
        self._follow(event)

    def _read(self, reader: str, writer: str) -> None:
        message = self._said.get(writer)
        if message is None or reader in message.get("read_by", ()):
            return
        message.setdefault("read_by", []).append(reader)
        self._reads.setdefault(reader, []).append(message["id"])
        self._waiting.setdefault(reader, []).append((message["id"], "message"))

    def _pay(self, number: int, turn: Turn) -> None:
        event = self._add(number, "aggregate", ENVIRONMENT, reward=_number(turn.reward))
        if turn.rewards:
            event["rewards"] = {agent: _number(value) for agent, value in turn.rewards.items()}
            for agent, value in turn.rewards.items():
                self.paid[agent] = self.paid.get(agent, 0.0) + value
        if turn.score is not None:
            event |= _score(turn.score)
        for agent in turn.actions:
            self._edge(self._said[agent]["id"], event, "aggregate")
        if not turn.actions:
            self._edge(self._before[0], event, "temporal")
        self._before = (event["id"], "causal")

    # --- events and edges --------------------------------------------------------------------------------------------

    def _add(self, number: int, type_: str, agent: str, **more: Any) -> dict[str, Any]:
        place = f"e{len(self.events)}"
        event = {"id": place, "t": self.clock, "type": type_, "agent": agent, "turn": number, **more}
        self.events.append(event)
        return event

    def _edge(self, source: str, event: Mapping[str, Any], kind: str) -> None:
        self.edges.append({"src": source, "dst": event["id"], "type": kind})

    def _follow(self, event: dict[str, Any]) -> None:
        """Link what an agent does to what it did before, and to what it was waiting for."""
        agent = event["agent"]
        before, waiting = self._latest.get(agent), self._waiting.pop(agent, [])
        for source, kind in waiting:
            self._edge(source, event, kind)
        if before is not None and before["id"] not in (source for source, _ in waiting):
            self._edge(before["id"], event, _own_edge(before["type"], event["type"]))
        self._latest[agent] = event


def _own_edge(before: str, after: str) -> str:
    """The type of the edge between two things that one agent did."""
    if before == "tool_call" and after == "tool_result":
        return "return"
    return _INTO.get(after, "causal") if before == "message" else "causal"


def _score(score: Score) -> dict[str, Any]:
    parts: Sequence[Mapping[str, float]] = (score.components, score.diagnostics)
    components, diagnostics = ({name: _number(value) for name, value in part.items()} for part in parts)
    event: dict[str, Any] = {
        "score": {"total": _number(score.total), "components": components, "diagnostics": diagnostics}
    }
    if score.notes:
        event["content"] = dict(score.notes)
    return event


def _number(value: float) -> float | None:
    """JSON has no word for what is not finite."""
    return value if math.isfinite(value) else None
