"""The statistics, on graphs that are worked out by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from playing import EXAMPLE, played

from llm_dec_pomdp.agents import Scripted
from llm_dec_pomdp.episodes import Trace, stats
from llm_dec_pomdp.episodes.stats import redundancy


def graph(events: list[dict[str, Any]], edges: list[tuple[str, str]]) -> Trace:
    """A trace of others, from events and pairs of ids."""
    return {
        "trace_id": "x",
        "task_id": "y",
        "events": events,
        "edges": [{"src": src, "dst": dst, "type": "causal"} for src, dst in edges],
        "rewards": {},
        "costs": {"tokens": 5, "wall_clock_s": 6},
    }


def event(name: str, t: float, agent: str, kind: str = "message", **more: Any) -> dict[str, Any]:
    return {"id": name, "t": t, "type": kind, "agent": agent, **more}


def test_of_the_published_example() -> None:
    counted = stats(json.loads(EXAMPLE.read_text(encoding="utf-8")))
    assert counted["reward"] == 1.0
    assert counted["tokens"] == 12000
    assert counted["utilisation"] == 1.0
    # One after the other 1 + 2 + 1 + 1 + 1 + 1 + 1 seconds (two agents are spawned by one decision), 7 in all.
    assert counted["parallelism"] == 8 / 7
    assert math.isnan(counted["overhead"])  # no event says how many tokens it has


def test_two_who_work_at_once_are_twice_as_fast() -> None:
    events = [event("s", 0, "lead"), event("a", 4, "one"), event("b", 4, "two"), event("r", 4, "lead", "aggregate")]
    assert stats(graph(events, [("s", "a"), ("s", "b"), ("a", "r"), ("b", "r")]))["parallelism"] == 2.0


def test_who_leads_to_no_result_is_of_no_use() -> None:
    events = [event("s", 0, "lead"), event("a", 1, "one"), event("b", 1, "two"), event("r", 2, "lead", "aggregate")]
    assert stats(graph(events, [("s", "a"), ("s", "b"), ("a", "r")]))["utilisation"] == 2 / 3
    assert math.isnan(stats(graph(events[:3], []))["utilisation"])


def test_drafts_are_overhead() -> None:
    _, trace = played("tldr-v0", "discussion")
    tokens = [e["tokens"]["sampled"] for e in trace["events"] if "tokens" in e]
    assert stats(trace)["overhead"] == sum(tokens[:2]) / sum(tokens)
    assert stats(played("tldr-v0")[1])["overhead"] == 0.0


def test_four_of_five_words_in_common_are_a_repetition() -> None:
    def words(*texts: str) -> list[frozenset[str]]:
        return [frozenset(text) for text in texts]

    assert redundancy(words("abcd", "efgh")) == 0.0
    assert redundancy(words("abcd", "abcde")) == 0.5  # 4 of 5
    assert redundancy(words("abc", "abcd")) == 0.0  # 3 of 4
    assert redundancy(words("abcde", "vwxyz", "abcde", "abcd")) == 0.5
    assert math.isnan(redundancy([]))


def test_repetitions_are_those_that_every_pair_compared_would_give() -> None:
    import random

    rng = random.Random(0)
    texts = [frozenset(rng.sample("abcdefghij", rng.randint(3, 9))) for _ in range(120)]
    pairs = [
        any(len(words & other) >= 0.8 * len(words | other) for other in texts[:n]) for n, words in enumerate(texts)
    ]
    assert redundancy(texts) == sum(pairs) / len(pairs)


def test_a_wrong_report_is_amplified_where_its_claim_is_said_again() -> None:
    def say(agent: str, history: Any) -> str:
        if agent != "agent_0":
            return "It was Bogus Person."
        if len(history) == 1:
            return 'ask("reader", "Who taught Greta Stakel?")'
        return "Bogus Person" if len(history) > 3 else 'ask("reader", "Where was Bogus Person born?")'

    _, trace = played("research-v0", policy=Scripted(say))
    assert [e["content"]["expert"] for e in trace["events"] if e["type"] == "return"] == ["0", "0"]
    # Said first in one report (the other's subtask has it); later in main's question, the second report, the answer.
    assert stats(trace)["amplification"] == pytest.approx(3.0)
