"""The reward of v1 on problems made by hand: each case has a value that follows from the rule."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.coding import reward as plain
from llm_dec_pomdp.envs.coding.reward import Program
from llm_dec_pomdp.envs.coding.v1 import reward
from llm_dec_pomdp.envs.coding.v1.reward import examples, guessable, held_out, shown
from llm_dec_pomdp.sandbox import Job, Verdict, default_pool
from llm_dec_pomdp.types import Score, TaskItem

FORMAL = 1.5  # structure 1.0 and syntax 0.5


def problem(prompt: str, *asserts: str) -> TaskItem:
    """Return a problem; `main` is its entry point, and `c` in its tests."""
    test = "def check(c):\n" + "".join(f"    {line}\n" for line in asserts)
    return TaskItem("t", prompt, fields={"entry_point": "main", "test": test})


TWICE = problem(
    'def main(x):\n    """Return twice x, plus one.\n\n    >>> main(2)\n    5\n    """\n',
    "assert c(0) == 1",
    "assert c(2) == 5",
    "assert c(3) == 7",
    "assert c(-4) == -7",
)
AUX = "def aux(x):\n    return x // 2\n"
MAIN = "def main(x):\n    return 4 * aux(x) + 2 * (x % 2) + 1\n"
SOLVED = "def aux(x):\n    return 2 * x + 1\n"


def scored(aux: str, main: str, item: TaskItem = TWICE) -> Score:
    return reward.score(item, Program.find(aux, main, "main"), default_pool().run)


def main(*body: str) -> str:
    return "def main(x):\n" + "".join(f"    {line}\n" for line in body)


# --- cooperation ------------------------------------------------------------------------------------------------------


def test_a_pair_whose_tests_need_the_helper_receives_the_maximum() -> None:
    score = scored(AUX, MAIN)
    assert dict(score.components) == {"structure": 1.0, "syntax": 0.5, "tests": 1.0, "cooperation": 1.5}
    assert dict(score.diagnostics) == {
        "tests_passed": 4.0,
        "tests_total": 4.0,
        "held_out_passed": 3.0,
        "held_out_total": 3.0,
        "needs_aux": 1.0,
    }


NOT_NEEDED = {
    "aux is not called": main("return 2 * x + 1"),
    "its value is dropped": main("aux(x)", "return 2 * x + 1"),
    "its errors are ignored": main("try: aux(x)", "except Exception: pass", "return 2 * x + 1"),
    "main falls back": main("half = aux(x)", "if half is None: half = x // 2", "return 4 * half + 2 * (x % 2) + 1"),
}


@pytest.mark.parametrize("main", NOT_NEEDED.values(), ids=NOT_NEEDED)
def test_a_helper_without_which_all_tests_pass_receives_nothing_for_cooperation(main: str) -> None:
    score = scored(AUX, main)
    assert (score.total, score.diagnostics["needs_aux"]) == (FORMAL + 1.0, 0.0)


def test_a_thin_wrapper_receives_a_third_of_the_cooperation() -> None:
    assert scored(SOLVED, main("return aux(x)")).components["cooperation"] == 0.5


def test_a_helper_may_be_passed_as_a_function() -> None:
    item = problem("def main(xs):\n    pass\n", "assert c([1, 2]) == 5", "assert c([3]) == 9")
    assert scored("def aux(x):\n    return x * x\n", "def main(xs):\n    return sum(map(aux, xs))\n", item).total == 4.0


def test_a_fifth_of_the_passed_asserts_that_need_the_helper_counts_as_all() -> None:
    item = problem("def main(x):\n    pass\n", *(f"assert c({x}) == {x + 1}" for x in range(10)))
    parts = [
        scored("def aux(x):\n    return x + 1\n", main(f"return aux(x) if x < {n} else x + 1"), item).components
        for n in (1, 2, 10)
    ]
    assert [part["cooperation"] for part in parts] == pytest.approx([0.75, 1.5, 1.5])


@pytest.mark.parametrize(
    ("aux", "main"),
    [
        ("def aux(x):\n    return x\n", main("return 2 * aux(x) + 1")),
        ("def aux():\n    return 7\n", main("return 2 * x + 1 if aux() == 7 else None")),
    ],
    ids=["identity", "a constant that is checked"],
)
def test_work_is_not_weighed(aux: str, main: str) -> None:
    """The manual states this limit."""
    assert scored(aux, main).total == 4.0


# --- tests ------------------------------------------------------------------------------------------------------------


def test_tests_count_by_the_share_of_asserts_that_are_not_shown_beyond_guessing() -> None:
    """Right for x >= 0: of the asserts that are not shown two of three pass, and one constant answer passes one."""
    score = scored("def aux(x):\n    return x // 2 if x >= 0 else 99\n", MAIN)
    assert (score.diagnostics["held_out_passed"], score.diagnostics["held_out_total"]) == (2.0, 3.0)
    assert score.diagnostics["tests_passed"] == 3.0
    assert score.total == pytest.approx(FORMAL + 2.5 * (2 / 3 - 1 / 3) / (1 - 1 / 3))


def test_answers_looked_up_from_the_examples_receive_nothing_beyond_form() -> None:
    score = scored("def aux(x):\n    return x == 2\n", main("return 5 if aux(x) else None"))
    assert (score.diagnostics["tests_passed"], score.diagnostics["held_out_passed"]) == (1.0, 0.0)
    assert score.total == FORMAL


def test_an_assert_in_a_loop_is_worth_the_share_of_its_executions() -> None:
    item = problem(
        'def main(x):\n    """main(2) is 5."""\n',
        "assert c(2) == 5",
        "for i in range(7):",
        "    assert c(i) == 2 * i + 1",
    )
    score = scored("def aux(x):\n    return x // 2 if x < 4 else 9\n", MAIN, item)
    assert (score.diagnostics["tests_total"], score.diagnostics["held_out_total"]) == (2.0, 1.0)
    assert score.diagnostics["held_out_passed"] == pytest.approx(4 / 7)


# --- the sandbox ------------------------------------------------------------------------------------------------------


def test_two_programs_run_and_none_before_the_first_levels_are_reached() -> None:
    run: list[Job] = []

    def record(jobs: Sequence[Job]) -> Sequence[Verdict]:
        run.extend(jobs)
        return default_pool().run(jobs)

    assert reward.score(TWICE, Program("", ""), record).total == 0.0
    assert reward.score(TWICE, Program(AUX, "def main(x):\n    return (x\n"), record).total == 1.0
    assert reward.score(TWICE, Program("", MAIN), record).total == pytest.approx(1.1)
    assert len(run) == 1
    reward.score(TWICE, Program(AUX, MAIN), record)
    assert len(run) == 3


@pytest.mark.parametrize("lost", range(2))
def test_a_sandbox_that_failed_on_any_program_makes_the_reward_nan(lost: int) -> None:
    def lossy(jobs: Sequence[Job]) -> Sequence[Verdict]:
        verdicts = list(default_pool().run(jobs))
        verdicts[lost] = Verdict("infra_error")
        return verdicts

    score = reward.score(TWICE, Program(AUX, MAIN), lossy)
    assert math.isnan(score.total)
    assert math.isnan(score.components["tests"])
    assert not score.scorable


@pytest.mark.parametrize("outcome", ["timeout", "died", "load_error", "unsupported"])
def test_a_failure_of_the_program_is_a_reward(outcome: str) -> None:
    verdict = Verdict(outcome, total=4, shares=(0.0,) * 4)  # type: ignore[arg-type]
    assert reward.score(TWICE, Program(AUX, MAIN), lambda jobs: [verdict] * len(jobs)).total == FORMAL


# --- asserts that the problem shows, and constant answers -------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", set()),
        ("f is a function", set()),
        (">>> f(1, 2)\n3", {"(1, 2)"}),
        ("e.g. f( 1,2 ) == 3 and f([ 1 ,2])", {"(1, 2)", "([1, 2])"}),
        ('f("a)b") gives "(" and f((1, 2), [3]) too', {"('a)b')", "((1, 2), [3])"}),
        ("f(f(1)) is 2", {"(f(1))", "(1)"}),
        ("f(x=1)", {"(x=1)"}),
        ("half(1) and f_2(1)", set()),
        ("def f(x: int) -> int:", set()),
        ("f(1, 2 is never closed", set()),
        (">>> numbers = [1, 2]\n>>> f(numbers)", {"([1, 2])", "(numbers)"}),
        (">>> x = unknown\n>>> y = {[]: 1}\n", set()),
    ],
)
def test_examples_are_arguments_in_normal_form(text: str, found: set[str]) -> None:
    assert examples(text, "f") == found


@pytest.mark.parametrize(
    ("claim", "value"),
    [
        ("candidate(1, 2) == 3", True),
        ("c( 1,2 )", True),
        ("not candidate(1, 2)", True),
        ("abs(candidate(1, 2) - 3) < 1e-6", True),
        ('candidate("a") == 1', True),
        ("candidate(2, 1) == 3", False),
        ("candidate(1, 2, 3) == 3", False),
        ("candidate(x) == 2", False),
    ],
)
def test_an_assert_is_shown_when_its_arguments_are(claim: str, value: bool) -> None:
    assert shown(ast.parse(claim, mode="eval").body, frozenset({"(1, 2)", "('a')"})) is value


def test_held_out_asserts_have_the_numbers_that_the_sandbox_gives_them() -> None:
    item = problem(
        'def main(x):\n    """main(2) is 5."""\n',
        "assert True, 'always'",
        "assert c(2) == 5",
        "for i in range(3):",
        "    assert c(i) == 2 * i + 1",
        "    assert c(2) == 5",
        "assert c(9) == 0",
    )
    assert {number: ast.unparse(claim) for number, claim in held_out(item).items()} == {
        1: "c(i) == 2 * i + 1",
        3: "c(9) == 0",
    }
    [verdict] = default_pool().run([plain.job(item, main("return 2 * x + 1"))])
    assert verdict.shares == (1.0, 1.0, 1.0, 0.0)


@pytest.mark.parametrize("prompt", ["# main(0) is 1, main(3) is 7\n", "# no example\n"])
def test_where_all_or_no_asserts_are_shown_all_are_held_out(prompt: str) -> None:
    assert [*held_out(problem(prompt, "assert c(0) == 1", "assert c(3) == 7"))] == [0, 1]


@pytest.mark.parametrize(
    ("claims", "count"),
    [
        (["c(1) == 1", "c(2) == 1", "c(3) == 2"], 2),
        (["c(1) == True", "c(2) is True", "c(3)", "not c(4)"], 3),
        (["c(1) == [1]", "c(2) == [1]"], 2),
        (["abs(c(1) - 2) < 1", "c(2) > 1", "c(1) == f(1)"], 0),
        ([], 0),
    ],
)
def test_the_best_constant_answer_passes_so_many_asserts(claims: list[str], count: int) -> None:
    assert guessable([ast.parse(claim, mode="eval").body for claim in claims]) == count


def test_the_published_rows_show_138_of_their_419_asserts(shared_data: Path) -> None:
    items = llm_dec_pomdp.make(
        "coophumaneval-v0", tasks=shared_data / "data" / "coophumaneval.jsonl", split="all"
    ).items
    total = visible = 0
    for item in items:
        calls = examples(item.prompt, item.fields["entry_point"])
        claims = [node.test for node in ast.walk(ast.parse(item.fields["test"])) if isinstance(node, ast.Assert)]
        total += len(claims)
        visible += sum(shown(claim, calls) for claim in claims)
    assert (len(items), visible, total) == (82, 138, 419)
