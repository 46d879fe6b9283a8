"""Schemas of other programs: what is refused of them, and checks that end whatever they and the arguments are."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from llm_dec_pomdp.envs.tools import Call, Function, Kit, Limits, Toolbox, ToolState
from llm_dec_pomdp.envs.tools.function import of_schema


def box(schema: Any) -> Toolbox:
    tool = of_schema("weigh", "Weigh.", schema, lambda state, arguments: (state, "done"))
    return Toolbox([Kit("scales", (tool,))], limits={"weigh": Limits(seconds=0)})


def answer(tools: Toolbox, arguments: dict[str, Any]) -> str:
    _, [answered] = tools.answer(ToolState(), "agent_0", [Call("weigh", arguments)])
    return answered.answer


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


DEEP: dict[str, Any] = {}
for _ in range(60):
    DEEP = {"not": DEEP}


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (None, "NoneType"),
        ([1], "list"),
        ({"type": "string"}, "'string'"),
        ({"properties": 5}, "5 is not"),
        (of(a=5), "5 is not"),
        (of(a={"const": object()}), "no JSON"),
        (of(a=DEEP), "50 levels"),
        (of(a={"enum": ["x" * 70_000]}), "65536"),
        (of(**{f"a{number}": {} for number in range(501)}), "501 arguments"),
        (of(**{"a\x1b[31m": {}}), r"'a\\x1b\[31m'"),
        (of(**{"a\u202eb": {}}), r"'a\\u202eb'"),
        (of(**{"": {}}), "''"),
        (of(a={"$ref": "http://127.0.0.1:9/x.json"}), "'http://127.0.0.1:9/x.json'"),
        (of(a={"$ref": "file:///etc/hostname"}), "'file:///etc/hostname'"),
        (of(a={"anyOf": [{"$dynamicRef": "other.json#/x"}]}), "'other.json#/x'"),
        (of(a={"$id": "file:///etc/", "$ref": "#/x"}), "'file:///etc/'"),
        (of(a={"$ref": "#/$defs/none"}), "'#/\\$defs/none'"),
        ({**of(a={"$ref": "#/title"}), "title": "x"}, "'#/title'"),
        ({**of(a={"$ref": "#/more/x"}), "more": {"x": {"minimum": "a"}}}, "'#/more/x'"),
        (of(a={"$schema": "http://json-schema.org/draft-03/schema", "pattern": "(a+)+$"}), "draft-03"),
        (of(a={"pattern": "(?=a)b"}), "lookaround"),
        (of(a={"pattern": r"(a)\1"}), "backreferences"),
        (of(a={"pattern": "("}), r"'\('"),
        (of(a={"pattern": "^((a{0,99}){99}){9}$"}), "repeats too much"),
        (of(a={"pattern": "(a{99,}){99,}"}), "repeats too much"),
        (of(a={"pattern": "(?x)(a) {99}"}), "repeats too much"),
        ({"patternProperties": {"(?!x)": {}}}, "lookaround"),
        ({"$defs": {"patternProperties": {"(?!x)": {}}}}, "lookaround"),  # a reference may lead there
        ({"unevaluatedProperties": False}, "unevaluatedProperties"),
    ],
)
def test_what_cannot_be_checked_is_refused_by_name(schema: Any, named: str) -> None:
    with pytest.raises(ValueError, match=rf"'weigh'.*{named}"):
        box(schema)


def test_a_long_description_is_refused_and_one_that_commands_a_terminal_made_visible() -> None:
    with pytest.raises(ValueError, match=r"'weigh'.*9000"):
        of_schema("weigh", "x" * 9000, of(), lambda state, arguments: (state, ""))
    assert of_schema("weigh", "a\x1b[31m", of(), lambda state, arguments: (state, "")).tool.description == "a\\x1b[31m"


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({**of(n={"$ref": "#/$defs/n"}), "$defs": {"n": {"type": "integer"}}}, {"n": 1}, {"n": "x"}),
        (of(day={"pattern": r"^\d{4}-\d{2}-\d{2}$"}), {"day": "2024-02-03"}, {"day": "today"}),
        (of(ip={"pattern": r"^(\d{1,3}\.){3}\d{1,3}$"}), {"ip": "127.0.0.1"}, {"ip": "localhost"}),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "http://x/y", **of(n={"minimum": 1})},
            {"n": 1},
            {"n": 0},
        ),
        ({"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}, {"n1": 1}, {"n1": "x"}),
        ({"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}, {"n1": 1}, {"m": 1}),
        ({**of(n={}), "additionalProperties": {"type": "integer"}}, {"n": "x", "m": 1}, {"m": "x"}),
        (of(n={"uniqueItems": True}), {"n": [1, [1], {"a": 1, "b": 2}]}, {"n": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]}),
        (of(n=True, m=False), {"n": 1}, {"m": 1}),
    ],
)
def test_arguments_are_checked(schema: Any, good: dict[str, Any], bad: dict[str, Any]) -> None:
    tools = box(schema)
    assert answer(tools, good) == "done"
    assert answer(tools, bad).startswith(("the argument", "the arguments"))


BRANCHES = {f"d{depth}": {"allOf": [{"$ref": f"#/$defs/d{depth + 1}"}] * 2} for depth in range(60)}


@pytest.mark.parametrize(
    ("schema", "arguments", "expected"),
    [
        (of(a={"pattern": "^(a+)+$"}), {"a": "a" * 5000 + "b"}, "'a' of weigh is"),
        (of(a={"pattern": "(.{0,90}x){15}!"}), {"a": "xa" * 500_000}, "too long"),
        (of(a={"items": {"pattern": "(.{0,90}x){15}!|y"}}), {"a": ["y" * 1000] * 1000}, "too long"),
        ({**of(a={"$ref": "#/$defs/d0"}), "$defs": {**BRANCHES, "d60": True}}, {"a": 1}, "too long"),
        (of(a={"$ref": "#/properties/a"}), {"a": 1}, "too long"),
        ({"not": {"$ref": "#"}}, {"a": 1}, "too long"),
        ({"if": {"$ref": "#"}, "then": {"$ref": "#"}}, {"a": 1}, "too long"),
        (of(a={"uniqueItems": True}), {"a": [{"n": n} for n in range(50_000)]}, "done"),
    ],
    ids=["nested repetition", "long text", "many texts", "branches", "circle", "negation", "condition", "many items"],
)
def test_a_check_ends(schema: Any, arguments: dict[str, Any], expected: str) -> None:
    assert expected in answer(box(schema), arguments)


def test_the_time_of_a_call_holds_for_the_check_of_its_arguments_too() -> None:
    tool = of_schema("weigh", "Weigh.", of(), lambda state, arguments: (state, "done"))
    never = threading.Event()
    slow = Function(tool.tool, tool.run, lambda arguments: never.wait() and arguments)
    tools = Toolbox([Kit("scales", (slow,))], limits={"weigh": Limits(seconds=0.05)})
    assert answer(tools, {}) == "weigh took longer than 0.05 seconds"
    never.set()
