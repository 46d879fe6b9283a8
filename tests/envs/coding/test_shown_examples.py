"""What the text of a problem shows of its tests, and how much of the rest can be guessed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from programs import problem

import llm_dec_pomdp
from llm_dec_pomdp.envs.coding.v1.contribution import examples, guessable, held_out, shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", set()),
        ("f is a function", set()),
        (">>> f(1, 2)\n3", {"f(1, 2)"}),
        ("e.g. f( 1,2 ) == 3 and f([ 1 ,2])", {"f(1, 2)", "f([1, 2])"}),
        ('f("a)b") gives "(" and f((1, 2), [3]) too', {"f('a)b')", "f((1, 2), [3])"}),
        ("f(f(1)) is 2", {"f(f(1))", "f(1)"}),
        ("f(x=1)", {"f(x=1)"}),
        ("half(1) and f_2(1)", set()),
        ("def f(x: int) -> int:", set()),
        ("f(1, 2 is never closed", set()),
        (">>> numbers = [1, 2]\n>>> f(numbers)", {"f([1, 2])", "f(numbers)"}),
        (">>> x = unknown\n", set()),
        ("f(...) is called", {"f(...)"}),
    ],
)
def test_examples_are_calls_in_normal_form(text: str, found: set[str]) -> None:
    assert examples(text, "f") == found


@pytest.mark.parametrize(
    ("assertion", "value"),
    [
        ("candidate(1, 2) == 3", True),
        ("c( 1,2 )", True),
        ("f(1, 2) == 3", True),
        ("not candidate(1, 2)", True),
        ("abs(candidate(1, 2) - 3) < 1e-6", True),
        ("candidate('a') == 1", True),
        ('candidate("a") == 1', True),
        ("candidate(2, 1) == 3", False),
        ("candidate(1, 2, 3) == 3", False),
        ("candidate(1) == 2", False),
        ("candidate(x) == 2", False),
        ("True", False),
    ],
)
def test_an_assert_is_shown_when_its_arguments_are(assertion: str, value: bool) -> None:
    [statement] = ast.parse(f"assert {assertion}").body
    assert isinstance(statement, ast.Assert)
    assert shown(statement, frozenset({"f(1, 2)", "f('a')"})) is value


def test_shown_asserts_are_cut_out_and_everything_else_stays() -> None:
    item = problem(
        'def main(x):\n    """main(2) is 5."""\n',
        "offset = 1",
        "assert True, 'always'",
        "assert c(2) == 5",
        "for i in range(3):",
        "    assert c(i) == 2 * i + offset",
        "    assert c(2) == 5",
    )
    assert held_out(item).splitlines() == [
        "def check(c):",
        "    offset = 1",
        "    assert True, 'always'",
        "    pass",
        "    for i in range(3):",
        "        assert c(i) == 2 * i + offset",
        "        pass",
    ]


def test_tests_that_do_not_parse_hold_nothing_out() -> None:
    assert held_out(problem('def main(x):\n    """main(2) is 5."""\n', "assert c(2) == (5")) == ""


def test_138_of_the_419_published_asserts_are_shown(shared_data: Path) -> None:
    path = shared_data / "data" / "coophumaneval.jsonl"
    items = llm_dec_pomdp.make("coophumaneval-v0", tasks=path, split="all").items
    assert len(items) == 82
    total = visible = 0
    for item in items:
        calls = examples(item.prompt, item.fields["entry_point"])
        asserts = [node for node in ast.walk(ast.parse(item.fields["test"])) if isinstance(node, ast.Assert)]
        total += len(asserts)
        visible += sum(shown(node, calls) for node in asserts)
    assert (visible, total) == (138, 419)


@pytest.mark.parametrize(
    ("asserts", "count"),
    [
        (["c(1) == 1", "c(2) == 1", "c(3) == 2"], 2),
        (["c(1) == True", "c(2) is True", "c(3)", "not c(4)"], 3),
        (["c(1) == [1]", "c(2) == [1]"], 2),
        (["abs(c(1) - 2) < 1", "c(2) > 1", "c(1) == f(1)"], 0),
        ([], 0),
    ],
)
def test_how_much_a_constant_answer_would_pass(asserts: list[str], count: int) -> None:
    body = "".join(f"    assert {line}\n" for line in asserts) or "    pass\n"
    assert guessable(f"def check(c):\n{body}") == count
