"""Traces from and to spans of OpenTelemetry with its conventions for generative AI, as OTLP JSON.

https://opentelemetry.io/docs/specs/semconv/gen-ai/ (version 1.41). A file has one `resourceSpans` document, or one in
each line, as the collector's file exporter writes it. Attributes that are read:

| attribute of a span | used for |
|---|---|
| `gen_ai.operation.name` | `chat`, `generate_content`, `text_completion`, `invoke_agent`, `execute_tool` |
| `gen_ai.agent.name`, `gen_ai.agent.id` | the agent |
| `gen_ai.tool.name`, `gen_ai.tool.call.arguments`, `gen_ai.tool.call.result` | the tool |
| `gen_ai.input.messages`, `gen_ai.output.messages` | texts, also as JSON in a string; system messages are left out |
| `gen_ai.usage.input_tokens`, `gen_ai.usage.output_tokens`, `gen_ai.usage.reasoning.output_tokens` | tokens |
| `gen_ai.response.model`, `gen_ai.request.model` | the model |
| `gen_ai.response.finish_reasons` | whether the text was cut (`length`) |
| `gen_ai.conversation.id` | `task_id`, if a trace has only one |
| event `gen_ai.evaluation.result` with a name and a score | a reward |

`to_otel` writes the same attributes. Decisions, rewards of single turns and the header of a trace have no place there.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired, cast

import pydantic
from typing_extensions import TypedDict

from ..__about__ import __version__
from ..storage.files import replacing
from ..storage.reading import conform, parse
from ..storage.secrets import masked
from .header import TraceError, encode
from .record import ENVIRONMENT, Trace
from .spans import Kind, Span, read_log, trace_of

_KINDS: Mapping[str, Kind] = {
    "chat": "model",
    "generate_content": "model",
    "text_completion": "model",
    "invoke_agent": "agent",
    "execute_tool": "tool",
}
_Nanoseconds = Annotated[int, pydantic.Field(ge=0, lt=1 << 64)]
_Tokens = Annotated[int, pydantic.Field(ge=0, lt=1 << 53)]
_Id = Annotated[str, pydantic.Field(min_length=1, max_length=64)]


class _Attribute(TypedDict):
    key: str
    value: NotRequired[dict[str, Any]]


class _Event(TypedDict):
    attributes: NotRequired[list[_Attribute]]


class _Span(TypedDict):
    traceId: _Id
    spanId: _Id
    parentSpanId: NotRequired[str]
    startTimeUnixNano: _Nanoseconds
    endTimeUnixNano: _Nanoseconds
    attributes: NotRequired[list[_Attribute]]
    events: NotRequired[list[_Event]]


class _Resource(TypedDict):
    attributes: NotRequired[list[_Attribute]]


class _Scope(TypedDict):
    spans: NotRequired[list[Any]]


class _Resources(TypedDict):
    resource: NotRequired[_Resource]
    scopeSpans: NotRequired[list[_Scope]]


class _Document(TypedDict):
    resourceSpans: list[_Resources]


class _Message(TypedDict):
    role: str
    parts: list[dict[str, Any]]


_Known = TypedDict(
    "_Known",
    {
        "gen_ai.operation.name": str,
        "gen_ai.agent.name": str,
        "gen_ai.agent.id": str,
        "gen_ai.tool.name": str,
        "gen_ai.conversation.id": str,
        "gen_ai.request.model": str,
        "gen_ai.response.model": str,
        "gen_ai.response.finish_reasons": list[str],
        "gen_ai.usage.input_tokens": _Tokens,
        "gen_ai.usage.output_tokens": _Tokens,
        "gen_ai.usage.reasoning.output_tokens": _Tokens,
        "gen_ai.evaluation.name": str,
        "gen_ai.evaluation.score.value": pydantic.FiniteFloat,
    },
    total=False,
)
_LAST = 1e10  # seconds; times are nanoseconds of 64 bits
TRACE_ID = "llm_dec_pomdp.trace_id"  # attribute of the first span of an exported trace


# --- reading ----------------------------------------------------------------------------------------------------------


def read_otel(path: Path) -> Iterator[Trace]:
    """Yield the traces of an OTLP JSON file that have spans of agents or models.

    Raises:
        FileError: The file is not readable, not JSON or not OTLP.
        TraceError: A span is wrong; the message names it.
    """
    spans: defaultdict[str, list[Span]] = defaultdict(list)
    names: defaultdict[str, dict[str, str]] = defaultdict(dict)
    tasks: defaultdict[str, set[str]] = defaultdict(set)
    for number, value in enumerate(read_log(path), 1):
        where = f"{path}, document {number}"
        for resource in conform(value, _Document, where)["resourceSpans"]:
            service = _values(resource.get("resource", {}).get("attributes", []), where).get("service.name")
            for written in (span for scope in resource.get("scopeSpans", []) for span in scope.get("spans", [])):
                place = f"{path}, span {written.get('spanId')!r:.60}" if isinstance(written, dict) else where
                span = conform(written, _Span, place)
                attributes = _values(span.get("attributes", []), place)
                trace = span["traceId"]
                spans[trace].append(_span(span, attributes, place))
                found = {"system": service, "trace_id": attributes.get(TRACE_ID)}
                names[trace] |= {key: name for key, name in found.items() if isinstance(name, str) and name}
                tasks[trace] |= {attributes.get("gen_ai.conversation.id", "")} - {""}
    for trace, of_trace in spans.items():
        task = next(iter(tasks[trace])) if len(tasks[trace]) == 1 else trace
        named = {"trace_id": trace, "task_id": task, "system": "otel", **names[trace]}
        if (made := trace_of(of_trace, **named, where=str(path))) is not None:
            yield made


def _span(span: _Span, attributes: Mapping[str, Any], where: str) -> Span:
    """Return a span with the fields from its attributes."""
    known = _known(attributes, where)
    kind = _KINDS.get(known.get("gen_ai.operation.name", ""), "other")
    role = known.get("gen_ai.agent.name") or known.get("gen_ai.agent.id") or ("agent" if kind == "agent" else "")
    name = known.get("gen_ai.agent.id") or role
    inputs: tuple[str, ...] | None = None
    output: str | None = None
    fields: dict[str, Any] = {}
    if kind == "tool":
        name = known.get("gen_ai.tool.name") or "tool"
        if (arguments := attributes.get("gen_ai.tool.call.arguments")) is not None:
            inputs = (_text(arguments),)
        if (result := attributes.get("gen_ai.tool.call.result")) is not None:
            output = _text(result)
    elif kind != "other":
        if (messages := _messages(attributes, "gen_ai.input.messages", where)) is not None:
            inputs = tuple(_said(message) for message in messages if message["role"] not in ("system", "developer"))
        counts = ("input_tokens", "output_tokens", "reasoning.output_tokens")
        prompt, sampled, reasoning = (known.get(f"gen_ai.usage.{count}") for count in counts)
        fields["usage"] = {"prompt": prompt, "sampled": sampled, "reasoning": reasoning}
        if model := known.get("gen_ai.response.model") or known.get("gen_ai.request.model"):
            fields["model"] = model
        if "length" in known.get("gen_ai.response.finish_reasons", ()):
            fields["truncated"] = True
        if (messages := _messages(attributes, "gen_ai.output.messages", where)) is not None:
            output = "\n".join(map(_said, messages))
            if thought := "\n".join(_said(message, "reasoning") for message in messages).strip():
                fields["thought"] = thought
    rewards: dict[str, float] = {}
    for event in span.get("events", []):
        scored = _known(_values(event.get("attributes", []), where), where)
        if (score := scored.get("gen_ai.evaluation.score.value")) is not None:
            rewards[scored.get("gen_ai.evaluation.name", "score")] = score
    times = span["startTimeUnixNano"], span["endTimeUnixNano"]
    return Span(span["spanId"], span.get("parentSpanId", ""), *times, kind, name, role, inputs, output, fields, rewards)


def _known(attributes: Mapping[str, Any], where: str) -> _Known:
    return conform({key: attributes[key] for key in _Known.__annotations__ if key in attributes}, _Known, where)


def _values(attributes: Sequence[_Attribute], where: str) -> dict[str, Any]:
    """Return the values of attributes by key."""
    try:
        return {attribute["key"]: _value(attribute.get("value", {})) for attribute in attributes}
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"{where}: an attribute is no AnyValue of OTLP ({error}); correct or remove it") from None


def _value(value: Mapping[str, Any]) -> Any:
    """Return an AnyValue of OTLP as a plain value."""
    for kind, held in value.items():
        match kind:
            case "intValue":
                return int(held)
            case "arrayValue":
                return [_value(inner) for inner in held.get("values", [])]
            case "kvlistValue":
                return {inner["key"]: _value(inner.get("value", {})) for inner in held.get("values", [])}
            case _:
                return held
    return None


def _messages(attributes: Mapping[str, Any], name: str, where: str) -> list[_Message] | None:
    """Return the messages in an attribute, which are values or JSON text; None if it is missing."""
    if (written := attributes.get(name)) is None:
        return None
    value = parse(written, f"{where}, field {name}") if isinstance(written, str) else written
    return conform(value, list[_Message], f"{where}, field {name}")


def _said(message: _Message, kind: str = "") -> str:
    """Return the texts, calls and results in a message, or the parts of one kind."""
    texts: list[str] = []
    for part in message["parts"]:
        match part.get("type"):
            case "text" | "reasoning" as found if found == (kind or "text"):
                texts.append(_text(part.get("content")))
            case "tool_call" if not kind:
                texts.append(f"{part.get('name')}({_text(part.get('arguments'))})")
            case "tool_call_response" if not kind:
                texts.append(_text(part.get("response", part.get("result"))))
            case _:
                pass
    return "\n".join(filter(None, texts))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


# --- writing ----------------------------------------------------------------------------------------------------------


def to_otel(trace: Trace, number: int = 0) -> dict[str, Any]:
    """Convert a trace to OTLP JSON: its agents, messages, calls of tools, tokens and rewards.

    Times begin at 0, the first of January 1970, because a trace has no date.

    Args:
        trace: A trace that `check_graph` accepts.
        number: Position in its file, which gives equal traces different ids.

    Returns:
        A document with one `resourceSpans`.

    Raises:
        TraceError: A time is too large; the message names the event.
    """
    name = hashlib.sha256(f"{number} {encode(trace)}".encode()).hexdigest()[:32]
    spans: list[dict[str, Any]] = []

    def add(operation: str, named: str, start: float, around: Mapping[str, Any], **attributes: Any) -> dict[str, Any]:
        span = {
            "traceId": name,
            "spanId": f"{name[:8]}{len(spans):08x}",
            "parentSpanId": around.get("spanId", ""),
            "name": f"{operation} {named}",
            "kind": 1,  # internal
            "startTimeUnixNano": start,
            "endTimeUnixNano": start,
            "attributes": {"gen_ai.operation.name": operation, **attributes},
        }
        spans.append(span)
        return span

    def run_of(agent: str, time: float, around: Mapping[str, Any]) -> dict[str, Any]:
        """Return the open run of an agent, or a new one."""
        if agent not in runs:
            runs[agent] = add("invoke_agent", roles.get(agent, agent), time, around, **_agent(agent, roles))
        return runs[agent]

    system = trace.get("system", "trace")
    about = {"gen_ai.workflow.name": system, "gen_ai.conversation.id": trace["task_id"], TRACE_ID: trace["trace_id"]}
    root = add("invoke_workflow", system, 0.0, {}, **about)
    runs: dict[str, dict[str, Any]] = {}
    roles = {
        event.get("to", "") if event["type"] == "spawn" else event["agent"]: event["role"]
        for event in trace["events"]
        if event.get("role")
    }
    causes = {edge["dst"]: edge["src"] for edge in trace["edges"]}
    tools: dict[str, dict[str, Any]] = {}  # by event
    observed: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)  # observations of the next action, by agent
    called: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)  # open calls by tool
    for event in sorted(trace["events"], key=lambda event: event["t"]):
        agent, kind, time, tool = event["agent"], event["type"], event["t"], event.get("tool", "tool")
        if time > _LAST:
            raise TraceError(f"event {event['id']!r:.60}, field t: it is {time}, and a span ends at most at {_LAST}")
        root["endTimeUnixNano"] = time
        if kind == "message" and agent == ENVIRONMENT:
            observed[event.get("to", "agent")].append(event)
        elif kind == "message":
            before = observed.pop(agent, [])
            spent = event.get("seconds")
            start = max(time - spent, 0.0) if isinstance(spent, (int, float)) else time
            start = min([start, *(observation["t"] for observation in before)])
            add(
                "chat",
                roles.get(agent, agent),
                start,
                run_of(agent, start, root),
                **_agent(agent, roles),
                **_call(event, before),
            )["endTimeUnixNano"] = time
        elif kind == "spawn" and "to" in event:
            runs.pop(event["to"], None)
            caller = root if agent == ENVIRONMENT else run_of(agent, time, root)
            run_of(event["to"], time, tools.get(causes.get(event["id"], ""), caller))
        elif kind == "return" and agent in runs:
            runs.pop(agent)["endTimeUnixNano"] = time
        elif kind == "tool_call":
            given = {"gen_ai.tool.call.arguments": _only(event["content"], "arguments")} if "content" in event else {}
            span = add("execute_tool", tool, time, run_of(agent, time, root), **{"gen_ai.tool.name": tool, **given})
            tools[event["id"]] = span
            called[tool].append(span)
        elif kind == "tool_result" and called[tool]:
            span = called[tool].pop(0)
            span["endTimeUnixNano"] = time
            if "content" in event:
                span["attributes"]["gen_ai.tool.call.result"] = _only(event["content"], "result")
        if agent in runs:
            runs[agent]["endTimeUnixNano"] = time
    scores: list[dict[str, Any]] = [
        {
            "name": "gen_ai.evaluation.result",
            "timeUnixNano": root["endTimeUnixNano"],
            "attributes": {"gen_ai.evaluation.name": reward, "gen_ai.evaluation.score.value": float(value)},
        }
        for reward, value in trace["rewards"].items()
    ]
    root["events"] = scores
    for item in (*spans, *scores):
        item |= {key: str(round(float(value) * 1e9)) for key, value in item.items() if key.endswith("UnixNano")}
        item["attributes"] = [{"key": key, "value": _any_value(value)} for key, value in item["attributes"].items()]
    resource = {"attributes": [{"key": "service.name", "value": _any_value(system)}]}
    scope = {"scope": {"name": "llm_dec_pomdp", "version": __version__}, "spans": spans}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def write_otel(traces: Iterable[Trace], path: Path, *, texts: bool = True) -> int:
    """Write traces to a new file, one document of OTLP JSON in each line, and return their number.

    Args:
        traces: Traces that `check_graph` accepts.
        path: Path of a file that does not exist yet.
        texts: Include the observations, thoughts and actions of agents, and the arguments and results of tools.

    Raises:
        FileExistsError: The file exists.
    """
    if path.exists():
        raise FileExistsError(f"{str(path)!r} exists already; give a new file, or remove it")
    count = 0
    with replacing(path) as place, place.open("wb") as file:
        for count, trace in enumerate(traces, 1):
            if not texts:
                events = [
                    {k: v for k, v in event.items() if k not in ("content", "thought")} for event in trace["events"]
                ]
                trace = {**trace, "events": events}
            file.write(masked(encode(to_otel(trace, count)).encode("ascii")) + b"\n")
    return count


def _agent(agent: str, roles: Mapping[str, str]) -> dict[str, str]:
    return {"gen_ai.agent.name": roles.get(agent, agent), "gen_ai.agent.id": agent}


def _call(event: Mapping[str, Any], before: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the attributes of an action, with the observations before it."""
    texts = [_text(observation["content"]) for observation in before if "content" in observation]
    inputs = [{"role": "user", "parts": [{"type": "text", "content": text}]} for text in texts]
    reason = "length" if event.get("truncated") else "stop"
    parts = [{"type": "reasoning", "content": _text(event["thought"])}] if "thought" in event else []
    parts.append({"type": "text", "content": _text(event.get("content"))})
    counted = event.get("usage", event.get("tokens"))
    usage = cast("dict[str, Any]", counted) if isinstance(counted, dict) else {}
    counts = {"input_tokens": "prompt", "output_tokens": "sampled", "reasoning.output_tokens": "reasoning"}
    attributes: dict[str, Any] = {
        "gen_ai.response.model": _text(event["model"]) if "model" in event else None,
        "gen_ai.response.finish_reasons": [reason],
        **{f"gen_ai.usage.{n}": usage[key] for n, key in counts.items() if isinstance(usage.get(key), int)},
        "gen_ai.input.messages": json.dumps(inputs) if texts else None,
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts, "finish_reason": reason}]),
    }
    if "content" not in event:
        del attributes["gen_ai.output.messages"]
    return {key: value for key, value in attributes.items() if value is not None}


def _only(content: Any, key: str) -> str:
    """Return the text of a content that has only this key, else the content as JSON."""
    return _text(content[key] if isinstance(content, dict) and {*content} == {key} else content)  # pyright: ignore[reportUnknownArgumentType]


def _any_value(value: Any) -> dict[str, Any]:
    match value:
        case float():
            return {"doubleValue": value}
        case int():
            return {"intValue": str(value)}
        case list():
            return {"arrayValue": {"values": [_any_value(inner) for inner in cast("list[Any]", value)]}}
        case _:
            return {"stringValue": value}
