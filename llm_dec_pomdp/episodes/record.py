"""Conversion of episodes to traces.

A trace follows the published schema (arXiv:2605.02801): events in chronological order, and edges between them. Each
turn has the observations of the agents, their actions, other events of the task, and the reward. The time of an event
counts the seconds of sampling: agents of one turn act in parallel, and turns follow each other. A message has an edge
to the next action of each agent that has read it. docs/traces.md describes every key. `restore.to_episode` is the
inverse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..envs.wrappers.injection import INJECTION, ORDER, occurs
from ..seeding import derive
from ..types import Completion, Episode, Event, TaskItem, Turn
from .header import HUMAN, Header, Player

Trace = dict[str, Any]
"""A trace as JSON: keys of the schema, `events` in order, `edges` between them (docs/traces.md)."""
ENVIRONMENT = "environment"  # the lane of events without an agent
READ = "read"  # a kind of event that becomes an edge in place of an event
DECISION = "orchestrator_decision"  # type of all kinds that are not in TYPES
TYPES = {
    "spawn": "spawn",
    "despawn": "despawn",
    "call": "tool_call",
    "result": "tool_result",
    "return": "return",
    INJECTION: "safety_event",
    ORDER: "human_intervention",
}
FLOW = "safety_flow"  # type of the edges along which an untrusted text spreads
_INTO = {"tool_call": "tool_dependency", "message": "temporal"}  # type of the edge from a message to the next event


def from_episode(
    episode: Episode, header: Header, item: TaskItem, *, seed: int | None = None, token_ids: bool = False
) -> Trace:
    """Convert an episode to a trace without loss, with its texts inline.

    Args:
        episode: The episode of a rollout.
        header: Header of the evaluation.
        item: The task.
        seed: Seed of the reset. Default: the seed that `Trajectories(chance="own")`, `Tree` and `Crossed` use. For
            trajectories with shared chance give `derive(seed of the task, "env")`.
        token_ids: Also keep token ids and log-probabilities, for training.

    Returns:
        A trace as JSON values.
    """
    happened = (event for turn in episode.turns for event in turn.events)
    entered = [event for event in happened if event.kind in (INJECTION, ORDER) and "demand" in event.details]
    graph = _Graph(header.players, entered, token_ids=token_ids)
    run, content = header.of_task(item)
    extra = {
        "seed": derive(episode.seed, "env") if seed is None else seed,
        "text_seed": episode.seed,
        "share": _plain(episode.share),
        "terminated": episode.terminated,
    }
    graph.add(DECISION, ENVIRONMENT, decision="start", header=run | extra, content=content)
    for number, turn in enumerate(episode.turns):
        graph.play(number, turn)
    return {
        "trace_id": f"{header.environment}/{header.protocol}/{item.id}/{episode.seed}",
        "task_id": item.id,
        "system": "llm_dec_pomdp",
        "topology": header.topology,
        "events": graph.events,
        "edges": graph.edges,
        "rewards": _earned(episode),
        "costs": {
            "tokens": tokens_in(graph.events),
            "tool_calls": sum(event["type"] == "tool_call" for event in graph.events),
            "messages": sum(len(turn.actions) for turn in episode.turns),
            "wall_clock_s": graph.now,
        },
        "metrics": _score_of(episode) | {"turns": len(episode.turns)},
    }


class _Graph:
    """The events and edges of an episode while it is converted."""

    def __init__(self, players: Mapping[str, Player], entered: Sequence[Event], *, token_ids: bool) -> None:
        self.events: list[dict[str, Any]] = []
        self.edges: list[dict[str, str]] = []
        self.now = 0.0  # seconds
        self._players, self._token_ids = players, token_ids
        self._entered = entered  # events of injections and orders
        self._carrier = ""  # the first observation that contains an injected text or an order
        self._exposed: set[str] = set()  # agents that an untrusted text has reached
        self._tainted: set[str] = set()  # messages in which these agents repeat its demand
        self._latest: dict[str, tuple[str, str]] = {}  # agent -> its last event: id, type
        self._messages: dict[str, dict[str, Any]] = {}  # agent -> its last message
        self._waiting: dict[str, list[tuple[str, str]]] = {}  # agent -> edges to its next event: source, type
        self._reads: dict[str, list[str]] = {}  # agent -> messages in its next observation
        self._spawner: dict[str, str] = {}
        self._before = ("e0", "temporal")  # source and type of the edges to the next turn

    def add(self, type_: str, agent: str, t: float | None = None, **fields: Any) -> dict[str, Any]:
        """Add an event, at time `t` in seconds, or now."""
        time = _plain(self.now if t is None else t)
        event = {"id": f"e{len(self.events)}", "t": time, "type": type_, "agent": agent, **fields}
        self.events.append(event)
        return event

    def play(self, number: int, turn: Turn) -> None:
        """Add the events of a turn."""
        for agent, text in (*turn.unasked_observations.items(), *turn.observations.items()):
            self._tell(number, agent, text)
        for agent, completion in turn.actions.items():
            fields = {
                "content": completion.text,
                **_sampled(completion, token_ids=self._token_ids),
                "role": self._players[agent].role,
            }
            then = self.now + completion.seconds
            if self._players[agent].model == HUMAN:
                self._wait(agent, self.add("human_intervention", agent, then, turn=number)["id"], "causal")
            event = self.add("message", agent, then, turn=number, **fields)
            self._follow(agent, event["id"], "message")
            self._messages[agent] = event
            if agent in self._exposed and any(occurs(e.details["demand"], completion.text) for e in self._entered):
                self._tainted.add(event["id"])
        self.now += max((completion.seconds for completion in turn.actions.values()), default=0.0)
        for happened in turn.events:
            self._happen(number, happened)
        event = self.add("aggregate", ENVIRONMENT, turn=number, **_paid(turn))
        for agent in turn.actions:
            self._edge(self._messages[agent]["id"], event["id"], "aggregate")
        if not turn.actions:
            self._edge(self._before[0], event["id"], "temporal")
        self._before = (event["id"], "causal")

    def _tell(self, number: int, agent: str, text: str) -> None:
        event = self.add("message", ENVIRONMENT, turn=number, content=text, to=agent)
        if agent in self._reads:
            event["reads"] = self._reads.pop(agent)
        self._edge(self._before[0], event["id"], self._before[1])
        kinds = [happened.kind for happened in self._entered if happened.details["text"] in text]
        if kinds:
            self._carrier = self._carrier or event["id"]
        if INJECTION in kinds:
            event["trusted"] = False
        self._wait(agent, event["id"], FLOW if INJECTION in kinds else "message")

    def _happen(self, number: int, happened: Event) -> None:
        kind, agent, details = happened.kind, happened.agent, dict(happened.details)
        type_ = TYPES.get(kind, DECISION)
        if kind == READ:
            self._read(agent, details.get("of", ENVIRONMENT))
            return
        fields: dict[str, Any] = {"turn": number, "content": details}
        if type_ == "spawn":
            self._spawn(agent, details.get("by", ENVIRONMENT), fields | {"role": details.get("role", "")})
            return
        if type_ in ("tool_call", "tool_result"):
            fields["tool"] = details.get("tool", "tool")
        fields["kind"] = kind
        if happened in self._entered:
            event = self.add(type_, agent, **fields, trusted=kind == ORDER)
            if self._carrier:
                self._edge(self._carrier, event["id"], FLOW if kind == INJECTION else "causal")
            return
        if type_ == DECISION:
            fields["decision"] = kind
        elif type_ == "return":
            fields |= {"from": agent, "to": self._spawner.get(agent, ENVIRONMENT)}
        event = self.add(type_, agent, **fields)
        if type_ == "return":
            self._wait(fields["to"], event["id"], "return")
        self._follow(agent, event["id"], type_)

    def _spawn(self, agent: str, by: str, fields: Mapping[str, Any]) -> None:
        event = self.add("spawn", by, **fields, kind="spawn", to=agent)
        if by in self._latest:
            self._edge(self._latest[by][0], event["id"], "causal")
        self._spawner[agent] = by
        self._wait(agent, event["id"], "spawn")

    def _read(self, reader: str, writer: str) -> None:
        message = self._messages.get(writer)
        if message is None or reader in message.get("read_by", ()):
            return
        message.setdefault("read_by", []).append(reader)
        self._reads.setdefault(reader, []).append(message["id"])
        self._wait(reader, message["id"], FLOW if message["id"] in self._tainted else "message")

    # --- edges --------------------------------------------------------------------------------------------------------

    def _edge(self, source: str, event: str, kind: str) -> None:
        self.edges.append({"src": source, "dst": event, "type": kind})

    def _wait(self, agent: str, event: str, kind: str) -> None:
        """Add an edge from an event to the next event of an agent, once that exists."""
        if kind == FLOW:
            self._exposed.add(agent)
        self._waiting.setdefault(agent, []).append((event, kind))

    def _follow(self, agent: str, event: str, type_: str) -> None:
        """Add edges to an event of an agent: from its previous event, and those that `_wait` stored."""
        before, waiting = self._latest.get(agent), self._waiting.pop(agent, ())
        for source, kind in waiting:
            self._edge(source, event, kind)
        if before is not None and before[0] not in [source for source, _ in waiting]:
            self._edge(before[0], event, _own_edge(before[1], type_))
        self._latest[agent] = event, type_


def _own_edge(before: str, after: str) -> str:
    """Return the type of the edge between two consecutive events of one agent."""
    if before == "tool_call" and after == "tool_result":
        return "return"
    return _INTO.get(after, "causal") if before == "message" else "causal"


def _sampled(completion: Completion, *, token_ids: bool) -> dict[str, Any]:
    """Return the fields of a completion except its text."""
    known: dict[str, Any] = {}
    if completion.prompt_ids or completion.token_ids:
        known["tokens"] = {"prompt": len(completion.prompt_ids), "sampled": len(completion.token_ids)}
        if completion.thought_ids:
            known["tokens"]["thought"] = completion.thought_ids
    if completion.usage is not None:
        known["usage"] = {name: _plain(count) for name, count in completion.usage._asdict().items()}
    if completion.seconds:
        known["seconds"] = _plain(completion.seconds)
    if completion.truncated:
        known["truncated"] = True
    if completion.thought:
        known["thought"] = completion.thought
    if token_ids:
        ids = {"prompt_ids": list(completion.prompt_ids), "token_ids": list(completion.token_ids)}
        known |= ids | {"logprobs": [_plain(logprob) for logprob in completion.logprobs]}
    return known


def tokens_in(events: Iterable[Mapping[str, Any]]) -> int:
    """Return the sum of the known numbers of sampled tokens of events; unknown numbers count as 0."""
    counted: list[Any] = [event.get("usage", event.get("tokens", {})).get("sampled") for event in events]
    return sum(count for count in counted if count is not None)


def _paid(turn: Turn) -> dict[str, Any]:
    """Return the reward and the score of a turn as fields of its event."""
    paid: dict[str, Any] = {"reward": _plain(turn.reward)}
    if turn.rewards:
        paid["rewards"] = _all_plain(turn.rewards)
    if (score := turn.score) is not None:
        parts = {"components": _all_plain(score.components), "diagnostics": _all_plain(score.diagnostics)}
        paid["score"] = {"total": _plain(score.total), **parts}
        if score.notes:
            paid["content"] = dict(score.notes)
    return paid


def _earned(episode: Episode) -> dict[str, float]:
    """Return the return of the team, the parts of the last score and the returns of agents, if they are finite."""
    earned = {"team": episode.total} | (dict(episode.final.components) if episode.final else {})
    rewards: dict[str, float] = {}
    for turn in episode.turns:
        for agent, value in turn.rewards.items():
            rewards[agent] = rewards.get(agent, 0.0) + value
    return {name: _plain(value) for name, value in (earned | rewards).items() if math.isfinite(value)}


def _score_of(episode: Episode) -> dict[str, float]:
    final = episode.final
    return {"score": _plain(final.total)} if final and math.isfinite(final.total) else {}


def _all_plain(values: Mapping[str, float]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: float) -> Any:
    """Return a number for JSON: None if it is not finite."""
    if type(value) is float or isinstance(value, int):
        return value if math.isfinite(value) else None
    return _plain(float(value))
