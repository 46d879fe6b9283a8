"""Logs of other systems become traces, and traces become spans.

The logs are recorded runs with scripted models: `openai_agents.jsonl` of the OpenAI Agents SDK 0.24 (docs/traces.md has
the processor that wrote it), `otel.json` of Pydantic AI 2.68 with OpenTelemetry.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playing import EXAMPLE, played

from llm_dec_pomdp.episodes import Trace, check_graph, read_openai_agents, read_otel, stats, to_otel, write_otel
from llm_dec_pomdp.storage.reading import FileError

LOGS = Path(__file__).parent / "logs"
OTEL, AGENTS = LOGS / "otel.json", LOGS / "openai_agents.jsonl"


def again(trace: Trace, folder: Path) -> Trace:
    """A trace that was written as spans and read."""
    (folder / "spans.json").write_text(json.dumps(to_otel(trace)), encoding="utf-8")
    [read] = read_otel(folder / "spans.json")
    check_graph(read)
    return read


def of_agents(trace: Trace, kind: str) -> list[tuple[Any, ...]]:
    """Time, agent and further fields of all events of a type that agents caused."""
    found = [event for event in trace["events"] if event["type"] == kind and event["agent"] != "environment"]
    return [(e["t"], e["agent"], e.get("content"), e.get("tool"), e.get("to")) for e in found]


def spans_of(*about: dict[str, Any]) -> dict[str, Any]:
    """A document of spans: name, start and end in seconds, parent, and attributes of `gen_ai`."""
    spans: list[dict[str, Any]] = []
    for number, span in enumerate(about):
        values = {
            f"gen_ai.{key}": {"stringValue": value} if isinstance(value, str) else {"intValue": str(value)}
            for key, value in span.get("values", {}).items()
        }
        spans.append(
            {
                "traceId": "t",
                "spanId": f"s{number}",
                "parentSpanId": span.get("parent", ""),
                "startTimeUnixNano": str(int(span["start"] * 1e9)),
                "endTimeUnixNano": str(int(span["end"] * 1e9)),
                "attributes": [{"key": key, "value": value} for key, value in values.items()],
            }
        )
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


def call(
    agent: str, start: float, end: float, parent: str = "", texts: tuple[str, str] | None = None
) -> dict[str, Any]:
    """A call of a model."""
    values: dict[str, Any] = {"operation.name": "chat", "agent.name": agent, "usage.output_tokens": 10}
    if texts:
        for way, text in zip(("input", "output"), texts, strict=True):
            message = {"role": "user", "parts": [{"type": "text", "content": text}]}
            values[f"{way}.messages"] = json.dumps([message])
    return {"start": start, "end": end, "parent": parent, "values": values}


def imported(folder: Path, *about: dict[str, Any]) -> Trace:
    (folder / "log.json").write_text(json.dumps(spans_of(*about)), encoding="utf-8")
    [trace] = read_otel(folder / "log.json")
    check_graph(trace)
    return trace


def test_a_log_of_the_agents_sdk_has_its_sub_agents_tools_and_handoff() -> None:
    [trace] = read_openai_agents(AGENTS)
    check_graph(trace)
    assert [event[1:] for event in of_agents(trace, "spawn")] == [
        ("lead", None, None, "researcher"),
        ("lead", None, None, "researcher #2"),
    ]
    assert [event[2] for event in of_agents(trace, "message")][-1] == "Turin is larger than Lyon."
    assert [event["to"] for event in trace["events"] if event.get("decision") == "handoff"] == ["writer"]
    counted = stats(trace)
    assert (counted["tokens"], counted["tool calls"], counted["messages"]) == (46, 4, 7)
    assert counted["overhead"] == 41 / 46  # only the writer's five tokens are the result
    assert counted["utilisation"] == 1.0
    assert counted["parallelism"] > 1.1  # two researchers at once
    assert {name for name, value in counted.items() if math.isnan(value)} == {"reward", "score", "amplification"}


def test_a_log_of_opentelemetry_shows_who_was_not_read() -> None:
    [trace] = read_otel(OTEL)
    check_graph(trace)
    by_id = {event["id"]: event for event in trace["events"]}
    [result] = [event["id"] for event in trace["events"] if str(event.get("content")).startswith("Turin is")]
    read = {by_id[edge["src"]]["agent"] for edge in trace["edges"] if edge["dst"] == result}
    assert read == {"counter", "historian", "environment"}
    assert stats(trace)["utilisation"] == 3 / 4  # the program left out the guesser
    assert stats(trace)["tokens"] == 29


@pytest.mark.parametrize("log", [OTEL, AGENTS], ids=lambda path: path.name)
def test_spans_of_an_imported_trace_hold_all_but_decisions(log: Path, tmp_path: Path) -> None:
    [trace] = read_otel(log) if log is OTEL else read_openai_agents(log)
    read = again(trace, tmp_path)
    for kind in ("message", "spawn", "return", "tool_call", "tool_result"):
        assert of_agents(read, kind) == of_agents(trace, kind)
    assert {**read, "events": [], "edges": []} == {**trace, "events": [], "edges": []}
    if log is OTEL:  # without decisions, everything is there
        assert read == trace


@pytest.mark.parametrize(("env_id", "protocol"), [("tldr-v0", "discussion"), ("keys-v0", "parallel")])
def test_spans_of_an_episode_hold_its_messages_tokens_and_rewards(env_id: str, protocol: str, tmp_path: Path) -> None:
    _, trace = played(env_id, protocol)
    read = again(trace, tmp_path)

    def acted(of: Trace) -> list[dict[str, Any]]:
        found = [event for event in of["events"] if event["type"] == "message" and event["agent"] != "environment"]
        return sorted(found, key=lambda event: (event["t"], event["agent"]))

    messages, back = acted(trace), acted(read)
    for key in ("t", "agent", "role", "content", "truncated"):
        assert [e.get(key) for e in back] == [e.get(key) for e in messages]
    assert [e["usage"]["sampled"] for e in back] == [e["tokens"]["sampled"] for e in messages]
    assert (read["trace_id"], read["task_id"]) == (trace["trace_id"], trace["task_id"])
    assert (read["rewards"], read["costs"]) == (trace["rewards"], trace["costs"])
    assert stats(read)["redundancy"] == stats(trace)["redundancy"]


def test_traces_of_others_and_equal_traces_become_spans(tmp_path: Path) -> None:
    example = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    assert write_otel([example, example], tmp_path / "spans") == 2
    traces = [*read_otel(tmp_path / "spans")]
    assert [trace["trace_id"] for trace in traces] == ["demo-trace-001"] * 2
    assert of_agents(traces[0], "spawn")[0] == (0.0, "orchestrator", None, None, "planner_1")
    with pytest.raises(FileExistsError):
        write_otel([example], tmp_path / "spans")
    _, secret = played("tldr-v0")
    write_otel([secret], tmp_path / "bare", texts=False)
    assert secret["events"][1]["content"][:40] not in (tmp_path / "bare").read_text(encoding="utf-8")


def test_two_calls_at_once_are_parallel_and_runs_without_texts_have_no_result(tmp_path: Path) -> None:
    trace = imported(tmp_path, call("a", 0, 4), call("b", 0, 4), call("c", 4, 6))
    counted = stats(trace)
    assert counted["parallelism"] == 10 / 6
    assert all(math.isnan(counted[name]) for name in ("utilisation", "overhead", "redundancy"))
    words = [("go", "one"), ("go", "two"), ("someone said two", "three")]
    trace = imported(
        tmp_path,
        *(call(n, s, e, texts=w) for (n, s, e), w in zip([("a", 0, 4), ("b", 0, 4), ("c", 4, 6)], words, strict=True)),
    )
    assert stats(trace)["utilisation"] == 2 / 3  # "one" is a part of a word
    assert stats(trace)["overhead"] == 20 / 30


def test_a_call_that_two_libraries_recorded_counts_once(tmp_path: Path) -> None:
    run = {"start": 0, "end": 3, "values": {"operation.name": "invoke_agent", "agent.name": "a"}}
    trace = imported(tmp_path, run, {**run, "parent": "s0"}, call("a", 1, 2, "s1"), call("a", 1, 2, "s2"))
    assert stats(trace)["messages"] == 1
    assert stats(trace)["tokens"] == 10


def test_tokens_that_a_span_lacks_are_unknown(tmp_path: Path) -> None:
    silent = call("a", 0, 1)
    del silent["values"]["usage.output_tokens"]
    assert math.isnan(stats(imported(tmp_path, silent))["tokens"])


def test_a_remote_agent_is_one_call_and_a_parent_may_be_missing(tmp_path: Path) -> None:
    remote = {"operation.name": "invoke_agent", "agent.name": "b", "usage.output_tokens": 7}
    lead = {"start": 0, "end": 9, "values": {"operation.name": "invoke_agent", "agent.name": "a"}, "parent": "lost"}
    trace = imported(tmp_path, lead, call("a", 0, 1, "s0"), {"start": 2, "end": 5, "values": remote, "parent": "s0"})
    assert [event[:2] for event in of_agents(trace, "message")] == [(1.0, "a"), (5.0, "b")]
    assert trace["costs"]["tokens"] == 17
    assert trace["topology"] == "hierarchical"


def test_an_agent_may_be_called_environment_and_nested_spans_are_bounded(tmp_path: Path) -> None:
    assert stats(imported(tmp_path, call("environment", 0, 1)))["messages"] == 1
    chain = [{"start": 0, "end": 1, "parent": f"s{number - 1}"} for number in range(400)]
    with pytest.raises(FileError, match="inside of more than"):
        imported(tmp_path, *chain, call("a", 0, 1, "s399"))


def _set(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(span: dict[str, Any]) -> None:
        next(attribute for attribute in span["attributes"] if attribute["key"] == key)["value"] = value

    return change


WRONG: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a time that is no number": (lambda span: span.update(endTimeUnixNano="noon"), "endTimeUnixNano"),
    "a time of too many digits": (lambda span: span.update(endTimeUnixNano=10**400), "endTimeUnixNano"),
    "an end before the start": (lambda span: span.update(endTimeUnixNano="5"), "before it starts"),
    "a span in itself": (lambda span: span.update(parentSpanId=span["spanId"]), "lead back"),
    "no id of a trace": (lambda span: span.pop("traceId"), "traceId"),
    "negative tokens": (_set("gen_ai.usage.output_tokens", {"intValue": "-1"}), "output_tokens"),
    "messages that are no JSON": (_set("gen_ai.input.messages", {"stringValue": "[{"}), "gen_ai.input.messages"),
    "messages without parts": (_set("gen_ai.input.messages", {"stringValue": '[{"role": "user"}]'}), "parts"),
    "a value that is no AnyValue": (_set("gen_ai.agent.name", {"arrayValue": 3}), "AnyValue"),
    "a name that is no text": (_set("gen_ai.agent.name", {"intValue": "3"}), "gen_ai.agent.name"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_span_is_named(case: str, tmp_path: Path) -> None:
    change, words = WRONG[case]
    document = json.loads(OTEL.read_text(encoding="utf-8"))
    span = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    name = span["spanId"]
    change(span)
    (tmp_path / "log").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(FileError) as refused:
        list(read_otel(tmp_path / "log"))
    assert name in str(refused.value)
    assert words in str(refused.value)


def test_spans_with_the_same_id_are_refused(tmp_path: Path) -> None:
    lines = AGENTS.read_text(encoding="utf-8").splitlines()
    (tmp_path / "log").write_text("\n".join([*lines, lines[-1]]), encoding="utf-8")
    with pytest.raises(FileError, match=json.loads(lines[-1])["id"]):
        list(read_openai_agents(tmp_path / "log"))
