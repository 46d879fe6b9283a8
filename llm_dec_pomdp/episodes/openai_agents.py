"""Traces from spans of the OpenAI Agents SDK, as its tracing processors export them.

A file has one exported object in each line: the result of `export()` of a trace or a span. It may also be one document
`{"data": [...]}`, as the SDK sends it. https://openai.github.io/openai-agents-python/tracing/ (version 0.24)

| `span_data.type` | used for |
|---|---|
| `agent` | the agent |
| `generation` | a call of a model, with texts and tokens |
| `response` | a call of a model by the Responses API; the SDK exports its tokens, but no texts |
| `function` | a call of a tool |
| `handoff`, `guardrail` | a handoff, a guardrail that was triggered |
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NotRequired

import pydantic
from typing_extensions import TypedDict

from ..storage.reading import conform
from .header import TraceError
from .record import Trace
from .spans import Kind, Span, read_log, trace_of

_KINDS: dict[str, Kind] = {
    "agent": "agent",
    "generation": "model",
    "response": "model",
    "function": "tool",
    "handoff": "handoff",
    "guardrail": "guardrail",
}
_START = datetime(1970, 1, 1, tzinfo=UTC)
_Id = Annotated[str, pydantic.Field(min_length=1, max_length=200)]
_Tokens = Annotated[int, pydantic.Field(ge=0, lt=1 << 53)]


class _Usage(TypedDict):
    input_tokens: NotRequired[_Tokens | None]
    output_tokens: NotRequired[_Tokens | None]
    output_tokens_details: NotRequired[dict[str, Any] | None]


class _Data(TypedDict):
    type: str
    name: NotRequired[str | None]
    input: NotRequired[Any]
    output: NotRequired[Any]
    model: NotRequired[str | None]
    usage: NotRequired[_Usage | None]
    to_agent: NotRequired[str | None]
    triggered: NotRequired[bool]


class _Span(TypedDict):
    id: _Id
    trace_id: _Id
    parent_id: NotRequired[str | None]
    started_at: datetime
    ended_at: datetime
    span_data: _Data


class _Trace(TypedDict):
    id: _Id
    workflow_name: NotRequired[str | None]
    group_id: NotRequired[str | None]


class _Message(TypedDict):
    role: NotRequired[str]
    content: NotRequired[Any]
    tool_calls: NotRequired[list[dict[str, Any]] | None]


def read_openai_agents(path: Path) -> Iterator[Trace]:
    """Yield the traces of a file that the OpenAI Agents SDK exported.

    Raises:
        FileError: The file is not readable or not JSON.
        TraceError: A span is wrong; the message names it.
    """
    spans: defaultdict[str, list[Span]] = defaultdict(list)
    names: dict[str, _Trace] = {}
    for number, value in enumerate(read_log(path), 1):
        for item in conform(value["data"], list[dict[str, Any]], f"{path}, field data") if "data" in value else [value]:
            where = f"{path}, {item.get('object', 'object')} {item.get('id', number)!r:.60}"
            if item.get("object") == "trace":
                trace = conform(item, _Trace, where)
                names[trace["id"]] = trace
            elif item.get("object") == "trace.span":
                span = conform(item, _Span, where)
                spans[span["trace_id"]].append(_span(span, where))
            else:
                raise TraceError(
                    f"{where}: its field object is {item.get('object')!r:.60}, not 'trace' or 'trace.span'"
                )
    for trace_id, of_trace in spans.items():
        named = names.get(trace_id) or _Trace(id=trace_id)
        task, system = named.get("group_id") or trace_id, named.get("workflow_name") or "openai-agents"
        if (made := trace_of(of_trace, trace_id, task, system, where=str(path))) is not None:
            yield made


def _span(span: _Span, where: str) -> Span:
    data = span["span_data"]
    kind = _KINDS.get(data["type"], "other")
    name = (data.get("to_agent") if kind == "handoff" else data.get("name")) or kind
    inputs: tuple[str, ...] | None = None
    output: str | None = None
    fields: dict[str, Any] = {}
    if kind == "tool":
        inputs = None if data.get("input") is None else (_text(data.get("input")),)
        output = None if data.get("output") is None else _text(data.get("output"))
    elif kind == "model":
        if data.get("input") is not None:
            asked = conform(data.get("input"), list[_Message], f"{where}, field input")
            inputs = tuple(_said(message) for message in asked if message.get("role") not in ("system", "developer"))
        if data.get("output") is not None:
            answers = conform(data.get("output"), list[_Message], f"{where}, field output")
            output = "\n".join(map(_said, answers))
        usage = data.get("usage") or {}
        reasoning = (usage.get("output_tokens_details") or {}).get("reasoning_tokens")
        counts = {"prompt": usage.get("input_tokens"), "sampled": usage.get("output_tokens"), "reasoning": reasoning}
        fields = {"usage": counts, **({"model": data.get("model")} if data.get("model") else {})}
    elif kind == "guardrail":
        fields = {"content": {"guardrail": name}}
        kind = "guardrail" if data.get("triggered") else "other"
    start, end = (_nanoseconds(span[time]) for time in ("started_at", "ended_at"))
    return Span(span["id"], span.get("parent_id") or "", start, end, kind, name, name, inputs, output, fields)


def _nanoseconds(time: datetime) -> int:
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (time - _START) // timedelta(microseconds=1) * 1000


def _said(message: _Message) -> str:
    """Return the text of a message and the calls in it."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]  # pyright: ignore[reportUnknownVariableType]
    texts = [_text(part.get("text") if isinstance(part, dict) else part) for part in parts]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    calls = [call.get("function") for call in message.get("tool_calls") or []]
    texts += [f"{call.get('name')}({_text(call.get('arguments'))})" for call in calls if isinstance(call, dict)]
    return "\n".join(filter(None, texts))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
