"""The tool layer: how calls are read, what functions become, and what a toolbox answers."""

from __future__ import annotations

import json
import pickle
import time
from typing import Any, Literal

import pytest

from llm_dec_pomdp.envs.tools import Kit, Limits, Toolbox, ToolState, function, read_calls
from llm_dec_pomdp.envs.tools.calls import MOST
from llm_dec_pomdp.envs.tools.function import kit, of_schema

FRESH = ToolState()


def book(city: str, day: int, seats: int = 1, where: Literal["window", "aisle"] = "aisle") -> str:
    """Book seats
    on a train.

    Args:
        city: Where to.
        day: Day of the month,
            from 1.
    """
    return f"{seats} to {city} on {day}, {where}"


def push(state: tuple[str, ...], item: str) -> tuple[tuple[str, ...], int]:
    """Put something on the pile."""
    return (*state, item), len(state) + 1


def asked(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def answers_to(text: str, box: Toolbox, state: ToolState = FRESH, agent: str = "agent_0") -> list[str]:
    return [a.answer for a in box.answer(state, agent, box.calls(agent, text))[1]]


BOX = Toolbox([Kit("train", (function(book),)), kit("pile", push, initial=())])


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        'I think.\n<tool_call>{"name": "f", "arguments": {"a": 1, "b": "x"}}</tool_call>',
        '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1, \\"b\\": \\"x\\"}"}',
        'So:\n```json\n{"name": "f", "parameters": {"a": 1, "b": "x"}}\n```\nthat is it',
        '[{"name": "f", "arguments": {"a": 1, "b": "x"}}]',
        'f(a=1, b="x")',
        "[f(a=1, b='x')]",
        "```tool_code\nf(a=1, b='x')\n```",
        "~~~\nf(a=1, b='x')\n~~~",
        "```python\nprint(\n```\nNo:\n```python\nf(a=1, b='x')",
        "Let me see.\n  f(a=1, b='x')\nThen I know.",
    ],
)
def test_every_form_of_a_call_is_read(text: str) -> None:
    [call] = read_calls(text, known=["f"])
    assert (call.name, call.arguments, call.problem) == ("f", {"a": 1, "b": "x"}, "")


def test_a_text_of_which_python_warns_is_read_without_a_warning() -> None:
    [call] = read_calls(r"f(a='\d')")  # an escape that Python does not know
    assert call.arguments == {"a": r"\d"}


@pytest.mark.parametrize("text", ["{}", "So:\n```python\n{}\n```\nthat is it"])
def test_a_fence_in_an_argument_does_not_cut_a_call(text: str) -> None:
    content = "Use it:\n\n```\nimport f\n```\n"
    [call] = read_calls(text.replace("{}", f'write(path="a.md", content="""{content}""")'))
    assert call.arguments == {"path": "a.md", "content": content}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just words",
        "a (bracket)",
        "print",
        "g(1) is what I would call",
        '{"a": 1}',
        "[1, 2]",
        "def f(x):\n    return x",
        "(" * 60_000,
    ],
)
def test_other_text_is_no_call(text: str) -> None:
    assert read_calls(text, known=["f"]) == ()


def test_several_calls_keep_their_order() -> None:
    calls = read_calls("[g(), f(1, b=(2, 3)), f(a=true)]", known=["f"])
    assert [(c.name, c.places, dict(c.arguments)) for c in calls] == [
        ("g", (), {}),
        ("f", (1,), {"b": [2, 3]}),
        ("f", (), {"a": True}),
    ]


@pytest.mark.parametrize(
    "inside",
    ["{", "[" * 5000, '{"name": 1}', '{"name": "f", "arguments": [1]}', '{"name": "f", "arguments": {"a": NaN}}'],
)
def test_what_is_marked_and_cannot_be_read_is_a_call_with_a_problem(inside: str) -> None:
    [call] = read_calls(f"<tool_call>{inside}</tool_call>")
    assert call.problem


@pytest.mark.parametrize(
    "arguments",
    [
        '["x"]',
        "null",
        "1",
        '"no JSON"',
        '"[1]"',
        '"' + "[" * 20_000 + '"',
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": ' + "[" * 60 + "]" * 60 + "}",
    ],
)
@pytest.mark.parametrize("form", ["{}", "[{}]", "```json\n{}\n```", "<tool_call>{}</tool_call>"])
def test_arguments_that_cannot_be_read_are_a_problem_of_their_call(form: str, arguments: str) -> None:
    wrong, fine = f'{{"name": "f", "arguments": {arguments}}}', '{"name": "g", "arguments": {}}'
    [call] = read_calls(form.replace("{}", wrong))
    assert call.problem
    listed = read_calls(form.replace("{}", f"{wrong}, {fine}")) if "[" in form else ()
    assert [call.name for call in listed] == (["", "g"] if "[" in form else [])


@pytest.mark.parametrize("value", ["x", "{1, 2}", "1e999", "[" * 60 + "]" * 60])
@pytest.mark.parametrize("text", ["f(a={})", "[f(a=1), f(a={})]"])
def test_the_problem_of_a_call_is_the_same_in_every_process(text: str, value: str) -> None:
    *_, call = read_calls(text.replace("{}", value), known=["f"])
    assert call.problem
    assert " at 0x" not in call.problem


@pytest.mark.parametrize("text", ["f(a=1)\n" * 100_000, "<tool_call>{}</tool_call>" * 100_000, f"[{'f(),' * 5000}f()]"])
def test_the_first_calls_of_a_text_are_read(text: str) -> None:
    assert len(read_calls(text, known=["f"])) == MOST


# --- functions --------------------------------------------------------------------------------------------------------


def test_a_function_becomes_a_tool() -> None:
    tool = function(book).tool
    assert (tool.name, tool.description) == ("book", "Book seats on a train.")
    assert tool.json_schema["required"] == ["city", "day"]
    assert tool.json_schema["properties"] == {
        "city": {"type": "string", "description": "Where to."},
        "day": {"type": "integer", "description": "Day of the month, from 1."},
        "seats": {"type": "integer", "default": 1},
        "where": {"type": "string", "enum": ["window", "aisle"], "default": "aisle"},
    }


def untyped(city) -> str:  # type: ignore[no-untyped-def]
    """Say."""
    return city


def silent(city: str) -> str:
    return city


def several(*cities: str) -> str:
    """Say."""
    return cities[0]


def objects(thing: threading_like) -> str:  # type: ignore[name-defined]  # noqa: F821
    """Say."""
    return ""


@pytest.mark.parametrize(
    ("call", "named"), [(untyped, "city"), (silent, "silent"), (several, "cities"), (objects, "objects")]
)
def test_what_cannot_be_a_tool_is_named(call: Any, named: str) -> None:
    with pytest.raises(TypeError, match=named):
        function(call)


def test_names_stand_once_and_schemas_are_schemas() -> None:
    with pytest.raises(ValueError, match="book"):
        kit("twice", book, book)
    with pytest.raises(ValueError, match="pile"):
        Toolbox([kit("pile", push, initial=()), kit("pile", book)])
    with pytest.raises(ValueError, match="weather"):
        of_schema("weather", "", {"type": "objekt"}, lambda s, a: (s, ""))
    with pytest.raises(TypeError, match="mutable"):
        kit("mutable", push, initial=[])
    with pytest.raises(ValueError, match="bok"):
        Toolbox([kit("train", book)], limits={"bok": Limits()})
    with pytest.raises(ValueError, match="characters"):
        Limits(characters=0)


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('book("Rome", 3)', "1 to Rome on 3, aisle"),
        (asked("book", city="Rome", day=3, where="window"), "1 to Rome on 3, window"),
        (asked("book", tow="Rome", day=3), "unknown argument 'tow' of book; it takes city, day, seats, where"),
        (asked("book", city="Rome"), "the argument 'day' of book is missing; it takes city, day, seats, where"),
        (asked("bok", city="Rome"), "there is no tool 'bok'; did you mean book?"),
        ('book("Rome", city="Oslo", day=1)', "the argument 'city' of book is given twice"),
        ("book(1, 2, 3, 4, 5)", "book takes 4 arguments, and 5 are given"),
    ],
)
def test_wrong_calls_are_answered_in_words(text: str, answer: str) -> None:
    assert answers_to(text, BOX) == [answer]


@pytest.mark.parametrize("day", ["3", 3.5, True, None, [3]])
def test_values_have_the_types_of_the_function(day: Any) -> None:
    [answer] = answers_to(asked("book", city="Rome", day=day), BOX)
    assert answer.startswith("the argument 'day' of book is ")


def test_a_schema_checks_arguments_too() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    box = Toolbox([Kit("k", (of_schema("half", "Half.", schema, lambda state, a: (state, a["n"] / 2)),))])
    assert answers_to("[half(n=3), half(n=0), half()]", box) == [
        "1.5",
        "the argument 'n' of half is 0: 0 is less than the minimum of 1",
        "the arguments of half are wrong: 'n' is a required property; it takes n",
    ]


def raises(text: str) -> str:
    """Fail."""
    raise KeyError(text)


def hangs() -> str:
    """Wait."""
    time.sleep(30)
    return ""


def floods() -> str:
    """Flood."""
    return "x" * 10_000_000


def wrong() -> Any:
    """Give an object."""
    return object()


def test_tools_that_misbehave_are_answers() -> None:
    box = Toolbox([kit("bad", raises, hangs, floods, wrong)], limits={"hangs": Limits(seconds=0.05)})
    failed, long, odd, late, idle = answers_to("[raises('x'), floods(), wrong(), hangs(), wrong()]", box)
    assert failed == "raises failed: KeyError: 'x'"
    assert late == "hangs took longer than 0.05 seconds"
    assert long.endswith("[cut: 9998000 more characters]") and len(long) < 2100
    assert odd == "wrong failed: it returned a object, which is no text and no JSON"
    assert idle.startswith("not run")


def test_state_is_a_value_and_each_call_has_its_answer() -> None:
    state, answers = BOX.answer(ToolState(), "agent_0", BOX.calls("agent_0", "[push('a'), push('b'), nothing()]"))
    assert [a.answer for a in answers[:2]] == ["1", "2"]
    assert BOX.message(answers).text.count("<tool_response>") == 3
    assert answers_to("push('c')", BOX, state, "agent_1") == ["3"]  # shared by the team
    assert answers_to("push('c')", BOX) == ["1"]
    again = pickle.loads(pickle.dumps(BOX))
    assert answers_to("push('c')", again, state) == ["3"]


def test_kits_may_be_private_and_only_for_some() -> None:
    box = Toolbox([kit("pile", push, initial=(), private=True), kit("train", book)], users={"train": ["agent_1"]})
    state, _ = box.answer(ToolState(), "agent_0", box.calls("agent_0", "push('a')"))
    assert answers_to("push('b')", box, state, "agent_1") == ["1"]
    assert [tool.name for tool in box.tools("agent_0")] == ["push"]
    assert answers_to(asked("book", city="Rome", day=1), box)[0].startswith("there is no tool 'book'")


def test_limits_and_prices() -> None:
    box = Toolbox([kit("train", book)], limits={"book": Limits(calls=1, price=0.25)})
    state, answers = box.answer(ToolState(), "agent_0", box.calls("agent_0", "[book('Rome', 1), book('Rome', 2)]"))
    assert [(a.valid, a.price) for a in answers] == [(True, 0.25), (False, 0.0)]
    assert answers_to("book('Rome', 3)", box, state, "agent_1") == ["1 to Rome on 3, aisle"]
    many = answers_to("[" + ", ".join(["book('Rome', 1)"] * 20) + "]", Toolbox([kit("train", book)]))
    assert many[15] == "1 to Rome on 1, aisle" and many[16].startswith("not run")


def price(item: str) -> str:
    """Look up a price."""
    return {"lamp": "5"}[item]


def test_an_exception_of_a_tool_is_an_answer_to_the_agent_and_one_warning_with_its_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    box = Toolbox([kit("shop", price)])
    for _ in range(2):
        assert answers_to(asked("price", item="chair"), box) == ["price failed: KeyError: 'chair'"]
    [warning] = [record.getMessage() for record in caplog.records]
    assert f"test_tools.py:{price.__code__.co_firstlineno + 2}, in price" in warning
