"""The reward of v1 on problems made by hand: each case has a value that follows from the rule.

Strategies that solve nothing are tried on real rows by `test_degenerate.py`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

import pytest
from programs import problem

from llm_dec_pomdp.envs import parsing
from llm_dec_pomdp.envs.coding.reward import Program
from llm_dec_pomdp.envs.coding.v1 import contribution, observer
from llm_dec_pomdp.envs.coding.v1.contribution import held_out
from llm_dec_pomdp.sandbox import Job, Verdict, default_pool
from llm_dec_pomdp.types import Score, TaskItem

FORMAL = 1.5  # structure 1.0 and syntax 0.5: what every program of two functions earns


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
AUX = "def aux(x):\n    return x // 2\n"
MAIN = "def main(x):\n    return 4 * aux(x) + 2 * (x % 2) + 1\n"
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
        "needs_aux": 0.75,  # main makes 1 of 0 with any even value
        "needs_main": 1.0,
        "needs_both": 0.75,
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
        "def main(x):\n    return aux(x // 2, 2 if x % 2 else 3)\n",
        problem("def main(x):\n    pass\n", "assert c(5) == 4", "assert c(2) == 3", "assert c(9) == 8"),
    ),
    "aux is recursive": (
        "def aux(x):\n    return aux(x + 2) - 1 if x < 0 else 1 + aux(x - 2) if x > 1 else 0\n",
        MAIN,
        TWICE,
    ),
}


LAST = "return 4 * half + 2 * (x % 2) + 1"
FALLS_BACK = {
    "when it raises": ("try:", "    half = aux(x)", "except Exception:", "    half = x // 2", LAST),
    "when it is None": ("half = aux(x)", "if half is None:", "    half = x // 2", LAST),
    "in both cases": (
        "try:",
        "    half = aux(x)",
        "except Exception:",
        "    half = None",
        "half = x // 2 if half is None else half",
        LAST,
    ),
    "on any empty value": ("half = aux(x)", "if not half:", "    half = x // 2", LAST),
}
FROM_2_ON = problem("def main(x):\n    pass\n", "assert c(2) == 5", "assert c(0) == 1", "assert c(3) == 7")
BOTH |= {f"main falls back {when}": (AUX, function("main(x)", *body), FROM_2_ON) for when, body in FALLS_BACK.items()}
BOTH["main falls back on the first value"] = (AUX, function("main(x)", *FALLS_BACK["on any empty value"]), TWICE)


@pytest.mark.parametrize(("aux", "main", "item"), BOTH.values(), ids=BOTH)
def test_ways_of_working_together_earn_the_maximum(aux: str, main: str, item: TaskItem) -> None:
    assert judged(aux, main, item).total == 4.0


def test_a_helper_that_only_makes_main_fall_back_earns_nothing() -> None:
    score = judged("def aux(x):\n    return 1 // 0\n", function("main(x)", *FALLS_BACK["in both cases"]))
    assert score.total == FORMAL
    assert (score.diagnostics["tests_passed"], score.diagnostics["needs_aux"]) == (4.0, 0.0)


# --- aux does not matter ----------------------------------------------------------------------------------------------

IDLE: dict[str, tuple[str, str]] = {
    "a type that does not matter": (AUX, "def main(x):\n    return 2 * x + len(str(type(aux(x)))) * 0 + 1\n"),
    "called where it is never reached": (
        AUX,
        "def main(x):\n    if x > 999:\n        return aux(x)\n    return 2 * x + 1\n",
    ),
    "identity": ("def aux(x):\n    return x\n", "def main(x):\n    return 2 * aux(x) + 1\n"),
    "identity of a keyword": ("def aux(x=0):\n    return x\n", "def main(x):\n    return 2 * aux(x=x) + 1\n"),
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
    assert score.diagnostics.get("needs_aux", 0.0) == 0.0
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
    assert score.diagnostics["needs_aux"] == 0.0
    assert score.total == FORMAL


def test_a_helper_that_spoils_the_argument_does_not_matter() -> None:
    item = problem("def main(xs):\n    pass\n", "assert c([1]) == [1]", "assert c([3, 1, 2]) == [1, 2, 3]")
    aux = "def aux(xs):\n    return xs.pop() if len(xs) == 3 else 0\n"
    score = judged(aux, "def main(xs):\n    aux(xs)\n    return sorted(xs)\n", item)
    assert (score.diagnostics["tests_passed"], score.diagnostics["needs_aux"]) == (1.0, 0.0)
    assert score.total == FORMAL


# --- main does not matter ---------------------------------------------------------------------------------------------

WRAPPERS: dict[str, tuple[str, Sequence[str], TaskItem]] = {
    "plain": (SOLVED, ["return aux(x)"], TWICE),
    "argument check": (SOLVED, ["if x is None:", "    return 0", "return aux(x)"], TWICE),
    "try and raise": (SOLVED, ["try:", "    y = aux(x)", "except ValueError:", "    raise", "return y"], TWICE),
    "condition that always holds": (SOLVED, ["if x == x:", "    return aux(x)", "return 0"], TWICE),
    "arithmetic of nothing": (SOLVED, ["return int(aux(x) + 0)"], TWICE),
    "inner function": (SOLVED, ["def ask(y):", "    return aux(y)", "return ask(x)"], TWICE),
    "unused work": (SOLVED, ["y = 2 * x", "z = y + 1", "return aux(x)"], TWICE),
    "the first of a pair": ("def aux(x):\n    return 2 * x + 1, 0\n", ["return aux(x)[0]"], TWICE),
    "the last of a list": ("def aux(x):\n    return [0, 0, 2 * x + 1]\n", ["return aux(x)[-1]"], TWICE),
    "the last of a dictionary": (
        "def aux(x):\n    return {'pad': 0, 'answer': 2 * x + 1}\n",
        ["return aux(x)['answer']"],
        TWICE,
    ),
    "out of a list": ("def aux(x):\n    return [2 * x + 1]\n", ["return aux(x)[0]"], TWICE),
    "out of a tuple": ("def aux(x):\n    return (2 * x + 1,)\n", ["y, = aux(x)", "return y"], TWICE),
    "out of a dictionary": ("def aux(x):\n    return {'y': 2 * x + 1}\n", ["return aux(x)['y']"], TWICE),
    "out of a set": ("def aux(x):\n    return {2 * x + 1}\n", ["return aux(x).pop()"], TWICE),
    "with another argument": ("def aux(x, unused):\n    return 2 * x + 1\n", ["return aux(x, 0)"], TWICE),
    "with another argument by name": ("def aux(x, y=1):\n    return 2 * x + 1\n", ["return aux(y=5, x=x)"], TWICE),
    "a part, with another argument": (
        "def aux(x, unused):\n    return 2 * x + 1, 0\n",
        ["return aux(x, None)[0]"],
        TWICE,
    ),
    "sorting what is sorted": (SOLVED_UNIQUE, ["return list(sorted(sorted(aux(x))))"], UNIQUE),
    "copying": (SOLVED_UNIQUE, ["return [y for y in aux(list(x))]"], UNIQUE),
    "doing everything again": (SOLVED_UNIQUE, ["return sorted(set(aux(x)))"], UNIQUE),
    "a case that needs no helper": (SOLVED_UNIQUE, ["if not x:", "    return []", "return aux(x)"], UNIQUE),
}


@pytest.mark.every(3)
@pytest.mark.parametrize(("aux", "body", "item"), WRAPPERS.values(), ids=WRAPPERS)
def test_handing_on_what_the_helper_returns_earns_nothing_beyond_form(
    aux: str, body: Sequence[str], item: TaskItem
) -> None:
    score = judged(aux, function("main(x)", *body), item)
    assert (score.diagnostics["tests_passed"], score.diagnostics["needs_main"]) == (4.0, 0.0)
    assert score.total == FORMAL


# --- how much is paid -------------------------------------------------------------------------------------------------


def test_pay_is_by_the_share_of_asserts_that_are_not_shown_beyond_guessing() -> None:
    """Right for x >= 0: of the asserts that are not shown, two of three; one constant answer would pass one."""
    score = judged("def aux(x):\n    return x // 2 if x >= 0 else 99\n", MAIN)
    assert (score.diagnostics["held_out_passed"], score.diagnostics["held_out_total"]) == (2.0, 3.0)
    assert score.diagnostics["tests_passed"] == 3.0
    assert score.total == pytest.approx(FORMAL + 2.5 * (2 / 3 - 1 / 3) / (1 - 1 / 3))


def test_answers_looked_up_from_the_examples_earn_nothing_beyond_form() -> None:
    score = judged("def aux(x):\n    return x == 2\n", "def main(x):\n    return 5 if aux(x) else None\n")
    assert (score.diagnostics["tests_passed"], score.diagnostics["held_out_passed"]) == (1.0, 0.0)
    assert score.total == FORMAL


@pytest.mark.parametrize("prompt", ["# main(0) is 1, main(3) is 7, main(5) is 11\n", "# no example\n"])
def test_where_all_or_no_asserts_are_shown_all_of_them_count(prompt: str) -> None:
    item = problem(prompt, "assert c(0) == 1", "assert c(3) == 7", "assert c(5) == 11")
    assert held_out(item) == ""
    score = judged(AUX, MAIN, item)
    assert score.total == 4.0
    assert score.diagnostics["held_out_total"] == score.diagnostics["tests_total"] == 3.0


def test_an_assert_in_a_loop_is_worth_the_share_of_its_rounds() -> None:
    item = problem(
        'def main(x):\n    """main(2) is 5."""\n',
        "assert c(2) == 5",
        "for i in range(7):",
        "    assert c(i) == 2 * i + 1",
    )
    score = judged("def aux(x):\n    return x // 2 if x < 4 else 9\n", MAIN, item)
    assert (score.diagnostics["tests_total"], score.diagnostics["held_out_total"]) == (2.0, 1.0)
    assert score.diagnostics["tests_passed"] == pytest.approx(1 + 4 / 7)
    assert score.diagnostics["held_out_passed"] == pytest.approx(4 / 7)
    assert score.total == pytest.approx(FORMAL + 2.5 * 4 / 7)


def test_nothing_passed_pays_nothing() -> None:
    score = judged(AUX, "def main(x):\n    return aux(x) - 1\n")
    assert (score.total, score.diagnostics["held_out_passed"]) == (FORMAL, 0.0)
    assert "needs_aux" not in score.diagnostics


@pytest.mark.parametrize(
    ("aux", "main", "total"),
    [(AUX, "", 0.4), ("", MAIN, 1.1), (AUX, "def main(x):\n    return (x\n", 1.0)],
    ids=["only aux", "aux missing", "syntax error"],
)
def test_the_first_levels_are_those_of_v0(aux: str, main: str, total: float) -> None:
    assert judged(aux, main).total == pytest.approx(total)


@pytest.mark.slow
def test_what_matters_is_seen_beyond_the_executions_that_a_verdict_lists() -> None:
    item = problem("def main(x):\n    pass\n", "for i in range(1_100):", "    assert c(i) == 2 * i + 1")
    main = "def main(x):\n    return 2 * x + 1 if x < 950 else 4 * aux(x) + 2 * (x % 2) + 1\n"
    assert judged(AUX, main, item).total == 4.0


# --- the judge --------------------------------------------------------------------------------------------------------


def test_what_is_run() -> None:
    """The program on all asserts and on those not shown; then, beside the observer, the asserts that held, by mode."""
    calls: list[Sequence[Job]] = []

    def record(jobs: Sequence[Job]) -> Sequence[Verdict]:
        calls.append(jobs)
        return default_pool().run(jobs)

    program = Program(AUX.replace("// 2", "// 2 if x != 3 else 9"), MAIN)
    contribution.score(TWICE, program, record)
    assert [len(jobs) for jobs in calls] == [2, 1]
    assert [job.solution for job in calls[0]] == [f"{program.aux}\n\n{program.main}"] * 2
    assert [job.check.count("assert") for job in calls[0]] == [4, 3]
    assert calls[1][0].check.count("assert") == 3 * len(observer.MODES)


def test_nothing_is_parsed_while_another_thread_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bool] = []
    parse = ast.parse

    def watched(*args: object, **kwargs: object) -> object:
        held.append(parsing._PARSING.locked())
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


@pytest.mark.parametrize("lost", range(3))
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
