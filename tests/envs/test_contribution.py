"""The reward of v1 on problems made by hand: each case has a value that follows from the rule."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.coding import analysis, contribution
from llm_dec_pomdp.envs.coding.contribution import examples, held_out, shown
from llm_dec_pomdp.envs.coding.reward import Program
from llm_dec_pomdp.sandbox import Job, Verdict, default_pool
from llm_dec_pomdp.types import Score, TaskItem

FORMAL = 1.5  # structure 1.0 and syntax 0.5: what every program of two functions earns


def problem(prompt: str, *asserts: str) -> TaskItem:
    test = "def check(c):\n" + "".join(f"    {line}\n" for line in asserts)
    return TaskItem("t", prompt, fields={"entry_point": "main", "test": test})


TWICE = problem(
    'def main(x):\n    """Return twice x, plus one.\n\n    >>> main(2)\n    5\n    """\n',
    "assert c(0) == 1",
    "assert c(2) == 5",
    "assert c(3) == 7",
    "assert c(-4) == -7",
)
UNIQUE = problem(
    'def main(xs):\n    """The different words in order, e.g. main(["b", "a"]) is ["a", "b"]."""\n',
    'assert c(["b", "a"]) == ["a", "b"]',
    'assert c(["b", "a", "b"]) == ["a", "b"]',
    "assert c([]) == []",
    'assert c(["q", "q", "q", "c"]) == ["c", "q"]',
)
AUX = "def aux(x):\n    return 2 * x\n"
MAIN = "def main(x):\n    return aux(x) + 1\n"
SOLVED = "def aux(x):\n    return 2 * x + 1\n"
SOLVED_UNIQUE = "def aux(xs):\n    return sorted(set(xs))\n"


def judged(aux: str, main: str, item: TaskItem = TWICE) -> Score:
    return contribution.score(item, Program.find(aux, main, "main"), default_pool().run)


def function(head: str, *body: str) -> str:
    return f"def {head}:\n" + "".join(f"    {line}\n" for line in body)


# --- both matter ------------------------------------------------------------------------------------------------------


def test_a_pair_in_which_both_matter_earns_the_maximum() -> None:
    score = judged(AUX, MAIN)
    assert score.total == 4.0
    assert dict(score.components) == {"structure": 1.0, "syntax": 0.5, "tests": 1.0, "cooperation": 1.5}
    assert dict(score.diagnostics) == {
        "tests_passed": 4.0,
        "tests_total": 4.0,
        "held_out_passed": 3.0,
        "held_out_total": 3.0,
        "aux_matters": 1.0,
        "main_matters": 1.0,
    }


BOTH: dict[str, tuple[str, str, TaskItem]] = {
    "main splits the work": (
        "def aux(word):\n    return word.strip()\n",
        "def main(xs):\n    return sorted({aux(x) + '' for x in xs})\n",
        problem("def main(xs):\n    pass\n", 'assert c([" b", "a "]) == ["a", "b"]', 'assert c(["c "]) == ["c"]'),
    ),
    "aux decides a branch": (
        "def aux(x):\n    return x % 2 == 0\n",
        "def main(x):\n    return 'even' if aux(x) else 'odd'\n",
        problem("def main(x):\n    pass\n", *(f"assert c({x}) == {'odd' if x % 2 else 'even'!r}" for x in range(6))),
    ),
    "main orders what aux found": (
        "def aux(xs):\n    return set(xs)\n",
        "def main(xs):\n    return sorted(aux(xs))\n",
        UNIQUE,
    ),
    "main maps aux": (
        "def aux(x):\n    return x * x\n",
        "def main(xs):\n    return sum(map(aux, xs))\n",
        problem("def main(xs):\n    pass\n", "assert c([1, 2]) == 5", "assert c([3]) == 9", "assert c([]) == 0"),
    ),
    "aux chooses one of its arguments": (
        "def aux(a, b):\n    return a if len(a) >= len(b) else b\n",
        "def main(xs):\n    best = ''\n    for x in xs:\n        best = aux(best, x)\n    return best.upper()\n",
        problem("def main(xs):\n    pass\n", "assert c(['a', 'bcd', 'ef']) == 'BCD'", "assert c(['g', 'h']) == 'G'"),
    ),
    "main prepares what aux solves": (
        "def aux(xs):\n    return xs[0] if len(xs) % 2 else 0\n",
        "def main(xs):\n    return aux(sorted(xs))\n",
        problem("def main(xs):\n    pass\n", "assert c([3, 1, 2]) == 1", "assert c([5, 4]) == 0", "assert c([9]) == 9"),
    ),
    "main chooses what to ask for": (
        "def aux(x, by):\n    return x * by\n",
        "def main(x):\n    return aux(x, 2 if x % 2 else 3)\n",
        problem("def main(x):\n    pass\n", "assert c(1) == 2", "assert c(2) == 6", "assert c(3) == 6"),
    ),
    "aux is recursive": (
        "def aux(x):\n    return 0 if not x else (2 if x > 0 else -2) + aux(x - (1 if x > 0 else -1))\n",
        MAIN,
        TWICE,
    ),
}


@pytest.mark.parametrize(("aux", "main", "item"), BOTH.values(), ids=BOTH)
def test_ways_of_working_together_earn_the_maximum(aux: str, main: str, item: TaskItem) -> None:
    assert judged(aux, main, item).total == 4.0


FALLBACKS = {
    "when it raises": ("try:", "    twice = aux(x)", "except Exception:", "    twice = x + x", "return twice + 1"),
    "when it is None": ("twice = aux(x)", "if twice is None:", "    twice = x + x", "return twice + 1"),
    "in both cases": (
        "try:",
        "    twice = aux(x)",
        "except Exception:",
        "    twice = None",
        "return (x + x if twice is None else twice) + 1",
    ),
}


@pytest.mark.parametrize("body", FALLBACKS.values(), ids=FALLBACKS)
def test_a_main_that_falls_back_keeps_the_bonus_while_it_uses_a_sane_helper(body: Sequence[str]) -> None:
    assert judged(AUX, function("main(x)", *body)).total == 4.0


def test_a_main_that_falls_back_on_any_empty_value_keeps_the_bonus_too() -> None:
    item = problem("def main(x):\n    pass\n", "assert c(2) == 5", "assert c(0) == 1", "assert c(3) == 7")
    main = function("main(x)", "twice = aux(x)", "if not twice:", "    twice = x + x", "return twice + 1")
    assert judged(AUX, main, item).total == 4.0


def test_a_helper_that_only_makes_main_fall_back_earns_nothing() -> None:
    score = judged("def aux(x):\n    return 1 // 0\n", function("main(x)", *FALLBACKS["in both cases"]))
    assert score.total == FORMAL
    assert (score.diagnostics["tests_passed"], score.diagnostics["aux_matters"]) == (4.0, 0.0)


# --- aux does not matter ----------------------------------------------------------------------------------------------

IDLE: dict[str, tuple[str, str]] = {
    "unused": (AUX, "def main(x):\n    return 2 * x + 1\n"),
    "called and dropped": (AUX, "def main(x):\n    aux(x)\n    return 2 * x + 1\n"),
    "assigned and never read": (AUX, "def main(x):\n    y = aux(x)\n    return 2 * x + 1\n"),
    "read and overruled": (AUX, "def main(x):\n    y = aux(x)\n    y = x + x\n    return y + 1\n"),
    "looked at without effect": (
        AUX,
        "def main(x):\n    y = aux(x)\n    if y is None:\n        y = 0\n    return 2 * x + 1\n",
    ),
    "a type that does not matter": (AUX, "def main(x):\n    return 2 * x + len(str(type(aux(x)))) * 0 + 1\n"),
    "called where it is never reached": (
        AUX,
        "def main(x):\n    if x > 999:\n        return aux(x)\n    return 2 * x + 1\n",
    ),
    "identity": ("def aux(x):\n    return x\n", "def main(x):\n    return 2 * aux(x) + 1\n"),
    "identity by a detour": ("def aux(x):\n    return -(-x)\n", "def main(x):\n    return 2 * aux(x) + 1\n"),
    "identity of a keyword": ("def aux(x=0):\n    return x\n", "def main(x):\n    return 2 * aux(x=x) + 1\n"),
    "returns its arguments": (
        "def aux(*given):\n    return given\n",
        "def main(x):\n    (x,) = aux(x)\n    return 2 * x + 1\n",
    ),
    "returns its arguments in a list": (
        "def aux(*given):\n    return list(given)\n",
        "def main(x):\n    (x,) = aux(x)\n    return 2 * x + 1\n",
    ),
    "returns two of two arguments": (
        "def aux(a, b):\n    return a, b\n",
        "def main(x):\n    a, b = aux(x, x)\n    return a + b + 1\n",
    ),
    "returns the first of two arguments": (
        "def aux(a, b):\n    return a\n",
        "def main(x):\n    return 2 * aux(x, 0) + 1\n",
    ),
    "returns the last element of its argument": (
        "def aux(xs):\n    return xs[-1]\n",
        "def main(x):\n    return 2 * aux([0, x]) + 1\n",
    ),
    "a constant that is ignored": (
        "def aux(x):\n    return 7\n",
        "def main(x):\n    y = aux(x)\n    return 2 * x + 1\n",
    ),
    "a constant flag": (
        "def aux(*given):\n    return True\n",
        "def main(x):\n    if not aux(x, 1):\n        return None\n    return 2 * x + 1\n",
    ),
    "a constant that is needed": ("def aux():\n    return 1\n", "def main(x):\n    return 2 * x + aux()\n"),
    "its argument in a box": (
        "def aux(x):\n    return {'value': [x]}\n",
        "def main(x):\n    return 2 * aux(x)['value'][0] + 1\n",
    ),
    "a constant None": (
        "def aux(x):\n    return None\n",
        "def main(x):\n    y = aux(x)\n    return 2 * x + 1 if y is None else 0\n",
    ),
}


@pytest.mark.parametrize(("aux", "main"), IDLE.values(), ids=IDLE)
def test_a_helper_whose_value_does_not_matter_earns_nothing_beyond_form(aux: str, main: str) -> None:
    score = judged(aux, main)
    assert score.diagnostics["tests_passed"] == 4.0  # it solves the problem, and that is not enough
    assert score.diagnostics.get("aux_matters", 0.0) == 0.0
    assert score.total == FORMAL


HARMFUL = {
    "breaks an answer": (
        "def aux(x):\n    return x == 3\n",
        "def main(x):\n    return 0 if aux(x) is True else 2 * x + 1\n",
    ),
    "raises at times": ("def aux(x):\n    return 1 // (x - 3)\n", "def main(x):\n    aux(x)\n    return 2 * x + 1\n"),
}


@pytest.mark.parametrize(("aux", "main"), HARMFUL.values(), ids=HARMFUL)
def test_a_helper_that_only_does_harm_does_not_matter(aux: str, main: str) -> None:
    score = judged(aux, main)
    assert 0 < score.diagnostics["held_out_passed"] < score.diagnostics["held_out_total"]
    assert score.diagnostics["aux_matters"] == 0.0
    assert score.total == FORMAL


def test_a_helper_that_spoils_the_argument_does_not_matter() -> None:
    item = problem("def main(xs):\n    pass\n", "assert c([1]) == [1]", "assert c([3, 1, 2]) == [1, 2, 3]")
    aux = "def aux(xs):\n    return xs.pop() if len(xs) == 3 else 0\n"
    score = judged(aux, "def main(xs):\n    aux(xs)\n    return sorted(xs)\n", item)
    assert (score.diagnostics["tests_passed"], score.diagnostics["aux_matters"]) == (1.0, 0.0)
    assert score.total == FORMAL


# --- main does not matter ---------------------------------------------------------------------------------------------

WRAPPERS = {
    "plain": ("return aux(x)",),
    "temporary": ("y = aux(x)", "return y"),
    "temporaries": ("y = aux(x)", "z = y", "answer = z", "return answer"),
    "docstring": ('"""Return twice x, plus one."""', "return aux(x)"),
    "none check": ("y = aux(x)", "if y is None:", "    return None", "return y"),
    "none check with a default": ("y = aux(x)", "if y is None:", "    y = 0", "return y"),
    "argument check": ("if x is None:", "    return 0", "return aux(x)"),
    "try and except": ("try:", "    return aux(x)", "except Exception:", "    return None"),
    "try and raise": ("try:", "    y = aux(x)", "except ValueError:", "    raise", "return y"),
    "finally": ("try:", "    y = aux(x)", "finally:", "    pass", "return y"),
    "condition that always holds": ("if x == x:", "    return aux(x)", "return 0"),
    "loop of one": ("for _ in range(1):", "    y = aux(x)", "return y"),
    "arithmetic of nothing": ("return aux(x) + 0",),
    "conversion": ("return int(aux(x))",),
    "inner function": ("def ask(y):", "    return aux(y)", "return ask(x)"),
    "lambda": ("return (lambda y: aux(y))(x)",),
    "list of one": ("return [aux(y) for y in [x]][0]",),
    "unused work": ("y = 2 * x", "z = y + 1", "return aux(x)"),
    "assertion": ("y = aux(x)", "assert isinstance(y, int)", "return y"),
}


@pytest.mark.parametrize("body", WRAPPERS.values(), ids=WRAPPERS)
def test_a_wrapper_in_any_dress_earns_nothing_beyond_form(body: Sequence[str]) -> None:
    score = judged(SOLVED, function("main(x)", *body))
    assert (score.diagnostics["tests_passed"], score.diagnostics["main_matters"]) == (4.0, 0.0)
    assert score.total == FORMAL


HANDED_ON = {
    "the first of a pair": ("def aux(x):\n    return 2 * x + 1, 0\n", "return aux(x)[0]"),
    "the last of a list": ("def aux(x):\n    return [0, 0, 2 * x + 1]\n", "return aux(x)[-1]"),
    "the last of a dictionary": (
        "def aux(x):\n    return {'pad': 0, 'answer': 2 * x + 1}\n",
        "return aux(x)['answer']",
    ),
    "with another argument": ("def aux(x, unused):\n    return 2 * x + 1\n", "return aux(x, 0)"),
    "with another argument by name": ("def aux(x, y=1):\n    return 2 * x + 1\n", "return aux(y=5, x=x)"),
    "both": ("def aux(x, unused):\n    return 2 * x + 1, 0\n", "return aux(x, None)[0]"),
}


@pytest.mark.parametrize(("aux", "line"), HANDED_ON.values(), ids=HANDED_ON)
def test_handing_on_a_part_of_what_the_helper_returns_is_wrapping(aux: str, line: str) -> None:
    score = judged(aux, function("main(x)", line))
    assert (score.diagnostics["tests_passed"], score.diagnostics["main_matters"]) == (4.0, 0.0)
    assert score.total == FORMAL


@pytest.mark.parametrize(
    "body",
    [
        ("return sorted(aux(xs))",),
        ("return list(sorted(sorted(aux(xs))))",),
        ("return [x for x in aux(xs)]",),
        ("return aux(list(xs))",),
        ("return sorted(set(aux(xs)))",),
        ("if not xs:", "    return []", "return aux(xs)"),
    ],
)
def test_doing_again_what_the_helper_did_is_wrapping(body: Sequence[str]) -> None:
    score = judged(SOLVED_UNIQUE, function("main(xs)", *body), UNIQUE)
    assert (score.diagnostics["tests_passed"], score.diagnostics["main_matters"]) == (4.0, 0.0)
    assert score.total == FORMAL


def test_a_wrapper_earns_less_than_40_percent() -> None:
    assert judged(SOLVED, "def main(x):\n    return aux(x)\n").total < 0.4 * 4.0


# --- how much is paid -------------------------------------------------------------------------------------------------


def test_pay_is_by_the_share_of_asserts_that_are_not_shown_beyond_guessing() -> None:
    """Right for x >= 0: of the asserts that are not shown, two of three; one constant answer would pass one."""
    score = judged("def aux(x):\n    return 2 * x if x >= 0 else 99\n", MAIN)
    assert (score.diagnostics["held_out_passed"], score.diagnostics["held_out_total"]) == (2.0, 3.0)
    assert score.diagnostics["tests_passed"] == 3.0
    assert score.total == pytest.approx(FORMAL + 2.5 * (2 / 3 - 1 / 3) / (1 - 1 / 3))


HARD_CODED: dict[str, tuple[str, str]] = {
    "table in main": (
        "def aux(x):\n    return repr(x)\n",
        "def main(x):\n    return {'2': 5}.get(aux(x))\n",
    ),
    "table in aux": ("def aux(x):\n    return {2: 5}.get(x)\n", "def main(x):\n    y = aux(x)\n    return y\n"),
    "table handed over": ("def aux():\n    return {2: 5}\n", "def main(x):\n    return aux().get(x)\n"),
    "one branch": ("def aux(x):\n    return x == 2\n", "def main(x):\n    return 5 if aux(x) else None\n"),
}


@pytest.mark.parametrize(("aux", "main"), HARD_CODED.values(), ids=HARD_CODED)
def test_answers_looked_up_from_the_examples_earn_nothing_beyond_form(aux: str, main: str) -> None:
    score = judged(aux, main)
    assert (score.diagnostics["tests_passed"], score.diagnostics["held_out_passed"]) == (1.0, 0.0)
    assert score.total == FORMAL


def test_where_all_asserts_are_shown_all_of_them_count() -> None:
    item = problem('def main(x):\n    """main(0) is 1, main(3) is 7."""\n', "assert c(0) == 1", "assert c(3) == 7")
    assert held_out(item) == ""
    score = judged(AUX, MAIN, item)
    assert score.total == 4.0
    assert score.diagnostics["held_out_total"] == score.diagnostics["tests_total"] == 2.0


def test_where_no_assert_is_shown_all_of_them_count() -> None:
    item = problem("def main(x):\n    pass\n", "assert c(0) == 1", "assert c(3) == 7")
    assert held_out(item) == ""
    assert judged(AUX, MAIN, item).diagnostics["held_out_total"] == 2.0


def test_asserts_in_loops_count_once_per_round() -> None:
    item = problem(
        'def main(x):\n    """main(2) is 5."""\n',
        "assert c(2) == 5",
        "for i in range(7):",
        "    assert c(i) == 2 * i + 1",
    )
    score = judged("def aux(x):\n    return 2 * x if x < 4 else 0\n", MAIN, item)
    assert (score.diagnostics["tests_total"], score.diagnostics["held_out_total"]) == (8.0, 7.0)
    assert (score.diagnostics["tests_passed"], score.diagnostics["held_out_passed"]) == (5.0, 4.0)
    assert score.total == pytest.approx(FORMAL + 2.5 * 4 / 7)


def test_nothing_passed_pays_nothing() -> None:
    score = judged(AUX, "def main(x):\n    return aux(x) - 1\n")
    assert (score.total, score.diagnostics["held_out_passed"]) == (FORMAL, 0.0)
    assert "aux_matters" not in score.diagnostics


@pytest.mark.parametrize(
    ("aux", "main", "total"),
    [
        ("", "", 0.0),
        (AUX, "", 0.4),
        (AUX, "def main(x):\n    print(x)\n", 0.4),
        ("", MAIN, 1.1),
        (AUX, "def main(x):\n    return (x\n", 1.0),
        ("def aux(x):\n    return (x\n", MAIN, 1.0),
        ("", "def main(x):\n    return 2 * x + 1\n", 1.1),
    ],
    ids=["nothing", "only aux", "no return", "aux missing", "syntax error", "syntax error in aux", "alone"],
)
def test_the_first_levels_are_those_of_v0(aux: str, main: str, total: float) -> None:
    assert judged(aux, main).total == pytest.approx(total)


# --- the judge --------------------------------------------------------------------------------------------------------


def test_what_is_run() -> None:
    """The program on all asserts and on those not shown; then at once aux in four ways and main in three."""
    calls: list[Sequence[Job]] = []

    def record(jobs: Sequence[Job]) -> Sequence[Verdict]:
        calls.append(jobs)
        return default_pool().run(jobs)

    contribution.score(TWICE, Program(AUX, MAIN), record)
    assert [len(jobs) for jobs in calls] == [2, 7]
    assert [job.solution for job in calls[0]] == [f"{AUX}\n\n{MAIN}"] * 2
    assert [job.check.count("assert") for job in calls[0]] == [4, 3]
    assert all(job.check == TWICE.fields["test"] and AUX in job.solution for job in calls[1])
    assert [MAIN in job.solution for job in calls[1]] == [True] * 4 + [False] * 2 + [True]


def test_nothing_is_parsed_while_another_thread_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bool] = []
    parse = ast.parse

    def watched(*args: object, **kwargs: object) -> object:
        held.append(analysis._PARSING.locked())
        return parse(*args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(ast, "parse", watched)
    item = problem(
        "def main(xs):\n    pass\n>>> a = {[]: 1}\n>>> main([2])\n[2]\n", "assert c([2]) == [2]", "assert c([]) == []"
    )
    contribution.score(
        item,
        Program.find("def aux(x):\n    return x\n", "def main(x):\n    return aux(x)\n", "main"),
        default_pool().run,
    )
    assert len(held) > 5
    assert all(held)


def test_nothing_is_run_before_the_gates_are_passed() -> None:
    def refuse(jobs: Sequence[Job]) -> Sequence[Verdict]:
        raise AssertionError("nothing is to be run")

    assert contribution.score(TWICE, Program("", ""), refuse).total == 0.0
    assert contribution.score(TWICE, Program(AUX, "def main(x):\n    return (x\n"), refuse).total == 1.0


@pytest.mark.parametrize("lost", range(9))
def test_a_judge_that_failed_on_any_run_makes_the_reward_nan(lost: int) -> None:
    seen = 0

    def lossy(jobs: Sequence[Job]) -> Sequence[Verdict]:
        nonlocal seen
        verdicts = [Verdict("infra_error") if seen + i == lost else v for i, v in enumerate(default_pool().run(jobs))]
        seen += len(jobs)
        return verdicts

    score = contribution.score(TWICE, Program(AUX, MAIN), lossy)
    assert math.isnan(score.total)
    assert math.isnan(score.components["tests"])
    assert not score.scorable


@pytest.mark.parametrize("outcome", ["timeout", "died", "load_error", "unsupported"])
def test_what_is_the_programs_fault_is_no_nan(outcome: str) -> None:
    assert contribution.score(
        TWICE, Program(AUX, MAIN), lambda jobs: [Verdict(outcome, total=4)] * len(jobs)
    ).total == (  # type: ignore[arg-type]
        FORMAL
    )


# --- what a problem shows ---------------------------------------------------------------------------------------------


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
    assert contribution.guessable(f"def check(c):\n{body}") == count


@pytest.mark.parametrize("box", ["[VALUE]", "(VALUE,)", "{'answer': VALUE}", "{VALUE}"])
def test_a_main_that_only_unboxes_is_a_wrapper(box: str) -> None:
    aux = f"def aux(x):\n    return {box.replace('VALUE', '2 * x + 1')}\n"
    main = function("main(x)", "y = aux(x)", "return next(iter(y.values() if isinstance(y, dict) else y))")
    score = judged(aux, main)
    assert (score.diagnostics["tests_passed"], score.diagnostics["main_matters"]) == (4.0, 0.0)
