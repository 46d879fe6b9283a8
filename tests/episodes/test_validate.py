"""What is refused, in which words: mutations of the published example and of our own traces."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from playing import EXAMPLE, played

from llm_dec_pomdp.episodes import Trace, TraceError, check_graph, stats, validate
from llm_dec_pomdp.report.viewer.page import render
from llm_dec_pomdp.rollout import replay

Mutation = Callable[[Trace], Any]
NAMES_THE_PLACE = re.compile(r"^(event .+|edge \d+.*|field \S+.*|the trace): .+", re.DOTALL)


def example() -> Trace:
    return json.loads(EXAMPLE.read_text(encoding="utf-8"))


def test_the_published_example_is_valid() -> None:
    assert validate(example(), "schema") == []
    assert validate(example(), "replayable")[0].startswith("event 'e1'")  # nobody can play it again


ACCEPTED: dict[str, Mutation] = {
    "an event has a further key": lambda t: t["events"][0].update(mood="calm"),
    "ids stand there twice": lambda t: t["events"][1].update(id="e1"),
    "an edge into nothing": lambda t: t["edges"][0].update(dst="nowhere"),
    "a time that is no number": lambda t: t["events"][2].update(t=math.nan),
    "edges in a circle": lambda t: t["edges"].append({"src": "e8", "dst": "e1", "type": "causal"}),
}
REFUSED: dict[str, tuple[Mutation, str]] = {
    "a further key": (lambda t: t.update(mood="calm"), "the trace"),
    "an edge has a further key": (lambda t: t["edges"][1].update(weight=1), "edge 1"),
    "a reward that is true": (lambda t: t["rewards"].update(team=True), "field rewards.team"),
    "trust in words": (lambda t: t["events"][3].update(trusted="yes"), "event 'e4', field trusted"),
    "an event of type stop": (lambda t: t["events"][0].update(type="stop"), "event 'e1', field type"),
}


@pytest.mark.parametrize("mutate", ACCEPTED.values(), ids=ACCEPTED)
def test_the_published_schema_accepts(mutate: Mutation) -> None:
    trace = example()
    mutate(trace)
    assert validate(trace, "schema") == []


@pytest.mark.parametrize(("mutate", "place"), REFUSED.values(), ids=REFUSED)
def test_the_published_schema_refuses(mutate: Mutation, place: str) -> None:
    trace = example()
    mutate(trace)
    [problem] = validate(trace, "schema")
    assert problem.startswith(f"{place}: ")


# --- our own ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded() -> Trace:
    return played("keys-v0")[1]


def event_of(trace: Trace, kind: str, number: int = 0) -> dict[str, Any]:
    return [event for event in trace["events"] if event["type"] == kind][number]


NOT_REPLAYABLE: dict[str, tuple[Mutation, str]] = {
    "NaN": (lambda t: t["events"][2].update(t=math.nan), "event 'e2', field t: nan is"),
    "an id twice": (lambda t: t["events"][2].update(id="e1"), "event 'e1', field id: another event has it too"),
    "an edge into nothing": (lambda t: t["edges"][0].update(dst="x"), "edge 0, field dst: there is no event 'x'"),
    "a circle": (
        lambda t: t["edges"].append({"src": t["events"][1]["id"], "dst": "e0", "type": "causal"}),
        "field id: edges lead from it back to itself",
    ),
    "time backwards": (lambda t: t["events"][3].update(t=0.0), "event 'e3', field t: it is 0.0, and event 'e2', which"),
    "turns backwards": (
        lambda t: t["events"][1].update(turn=9),
        "event 'e2', field turn: it is 0",
    ),
    "early": (
        lambda t: event_of(t, "message", 1).update({"agent": "agent_1"}),
        "field agent: 'agent_1' acts before its spawn",
    ),
    "late": (
        lambda t: event_of(t, "tool_result").update({"type": "despawn"}),
        "field agent: 'agent_1' acts after its despawn",
    ),
    "a result of nothing": (
        lambda t: event_of(t, "tool_call").update(tool="x"),
        "which agent_1 has not called before",
    ),
    "a cost": (lambda t: t["costs"].update(tokens=7), "field costs.tokens: it is 7"),
    "no header": (lambda t: t["events"][0].pop("header"), "event 'e0': 'header' is a required property"),
    "a stranger": (lambda t: t["events"][1].update(to="me"), "event 'e1', field to: 'me' is no player of the header"),
    "another task": (lambda t: t["events"][0]["content"].update(prompt="x"), "event 'e0', field header.task.digest"),
    "a reference without a text": (
        lambda t: t["events"][1].update(content_ref="sha256:" + "0" * 64),
        "event 'e1', field content_ref: 'sha256:0",
    ),
    "ids too many": (
        lambda t: t["events"][2].update(token_ids=[1] * 50, logprobs=[0.0] * 50),
        "event 'e2', field token_ids: it has 50 entries",
    ),
}


@pytest.mark.parametrize(("mutate", "sentence"), NOT_REPLAYABLE.values(), ids=NOT_REPLAYABLE)
def test_what_no_run_can_have_produced_is_refused(recorded: Trace, mutate: Mutation, sentence: str) -> None:
    trace = copy.deepcopy(recorded)
    mutate(trace)
    assert validate(trace, "schema") == []
    problems = validate(trace, "replayable")
    assert any(sentence in problem for problem in problems), problems


CHANGED: dict[str, tuple[Mutation, str]] = {
    "an observation": (
        lambda t: t["events"][1].update(content="S e1"),
        "event 'e1', field content: recorded 'S e1', replayed",
    ),
    "the last bit of a component": (
        lambda t: event_of(t, "aggregate", -1)["score"]["components"].update(correct=math.nextafter(0.9, 1)),
        "field score.components.correct: recorded 0.9000000000000001, replayed 0.9",
    ),
    "the pay of an agent": (
        lambda t: event_of(t, "aggregate", -1)["rewards"].update(agent_1=0.0),
        "field rewards.agent_1",
    ),
    "a text": (lambda t: event_of(t, "message", 1).update(content="ANS"), "field type: recorded 'spawn', replayed"),
    "the end": (lambda t: t["events"][0]["header"].update(terminated=False), "field header.terminated: recorded False"),
    "an edge": (lambda t: t["edges"].pop(), "field edges"),
}


@pytest.mark.parametrize(("mutate", "sentence"), CHANGED.values(), ids=CHANGED)
def test_playing_again_names_the_first_difference(recorded: Trace, mutate: Mutation, sentence: str) -> None:
    trace = copy.deepcopy(recorded)
    mutate(trace)
    assert sentence in replay(trace)


# --- traces of others -------------------------------------------------------------------------------------------------

VALUES = (
    None,
    True,
    -1,
    0,
    3,
    1.5,
    -0.0,
    1e308,
    math.nan,
    math.inf,
    "",
    "e1",
    "agent_9",
    "\0\ud800",
    [],
    {},
    [[]],
    {"a": None},
)


OURS = ("reads", "tokens", "score", "reward", "header", "turn", "content", "token_ids", "kind", "content_ref")


@pytest.mark.every(3)
@pytest.mark.parametrize("key", OURS)
def test_others_may_put_anything_where_we_have_keys_of_our_own(key: str) -> None:
    """It is refused with its place, or counted and shown."""
    for value, place in itertools.product((*VALUES, {"sampled": "x"}, {"expert": "0"}), (0, 3)):
        trace = example()
        trace["events"][place][key] = copy.deepcopy(value)
        try:
            check_graph(trace)
        except TraceError as error:
            assert NAMES_THE_PLACE.match(str(error))
        else:
            assert all(isinstance(number, (int, float)) for number in stats(trace).values())
            assert render([trace])
