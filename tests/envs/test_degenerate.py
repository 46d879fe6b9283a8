"""Strategies of the code tasks that solve nothing: each stays below 40 % of the maximum of v1, references above 90 %.

A strategy is a function from a row (its index among the rows) to the two texts, built from the reference pairs by
program, so that it solves the problem wherever that is not the point.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from programs import alone, around, each, main, shown_answers, solver

import llm_dec_pomdp
from llm_dec_pomdp.types import TaskItem

Pair = tuple[str, str]
LIMIT, REFERENCES = 0.40, 0.90
CODE_ROWS = 12  # of the test split, spread evenly


@functools.cache
def environment(env_id: str) -> Any:
    return llm_dec_pomdp.make(env_id, split="test")


@functools.cache
def rows(name: str) -> tuple[TaskItem, ...]:
    """The rows that strategies are tried on; those of v1, whose references are for both versions."""
    items = environment(f"{name}-v1").items
    return tuple(items[k * len(items) // CODE_ROWS] for k in range(CODE_ROWS))


def share(name: str, version: str, strategy: Callable[[str, int], Pair], every: int = 1) -> float:
    """Mean reward of a strategy on every so many rows as a share of the maximum."""
    env = environment(f"{name}-{version}")

    def reward(index: int) -> float:
        said = dict(zip(env.possible_agents, strategy(name, index), strict=True))
        return env.score(rows(name)[index], said).total

    indices = range(0, len(rows(name)), every)
    with ThreadPoolExecutor(4) as threads:  # they wait for the judge
        return statistics.mean(threads.map(reward, indices)) / env.reward_range[1]


def reference(name: str, index: int) -> Pair:
    first, second = rows(name)[index].reference
    return first, second


# --- code -------------------------------------------------------------------------------------------------------------


COUNTS = "def aux(*given):\n    return len(given)\n"
CODE_OF_ITEM: Mapping[str, Callable[[TaskItem], Pair]] = {
    "aux unused": lambda i: (i.reference[0], alone(i)),
    "aux called, value dropped": lambda i: (COUNTS, alone(i, "aux(ARGS)")),
    "aux called, never read": lambda i: (COUNTS, alone(i, "helped = aux(ARGS)")),
    "aux called, looked at": lambda i: (solver(i), alone(i, "hint = aux(ARGS)", "if hint is None: hint = 0")),
    "aux called, errors ignored": lambda i: (
        i.reference[0],
        alone(i, "try: aux(ARGS)", "except Exception: pass"),
    ),
    "aux is the identity": lambda i: ("def aux(x):\n    return x\n", alone(i, *each(i, "ARG = aux(ARG)"))),
    "aux copies": lambda i: (
        "def aux(x):\n    import copy\n    return copy.deepcopy(x)\n",
        alone(i, *each(i, "ARG = aux(ARG)")),
    ),
    "aux returns its arguments": lambda i: ("def aux(*given):\n    return given\n", alone(i, "ARGS, = aux(ARGS)")),
    "aux lists its arguments": lambda i: ("def aux(*given):\n    return list(given)\n", alone(i, "ARGS, = aux(ARGS)")),
    "aux always agrees": lambda i: (
        "def aux(*given):\n    return True\n",
        alone(i, "if not aux(1, ARGS): return None"),
    ),
    "wrapper": lambda i: (solver(i), main(i, "return aux(ARGS)")),
    "wrapper with variables": lambda i: (solver(i), main(i, "first = aux(ARGS)", "answer = first", "return answer")),
    "wrapper with a docstring": lambda i: (solver(i), main(i, '"""Solve it."""', "return aux(ARGS)")),
    "wrapper with a check": lambda i: (
        solver(i),
        main(i, "answer = aux(ARGS)", "if answer is None:", "    return None", "return answer"),
    ),
    "wrapper that catches": lambda i: (
        solver(i),
        main(i, "try:", "    return aux(ARGS)", "except TypeError:", "    return None"),
    ),
    "wrapper that is careful": lambda i: (
        solver(i),
        main(i, "try:", "    answer = aux(ARGS)", "except Exception:", "    raise", "box = [answer]", "return box[0]"),
    ),
    "wrapper with a loop": lambda i: (
        solver(i),
        main(i, "answers = []", "for _ in range(1):", "    answers.append(aux(ARGS))", "return answers.pop()"),
    ),
    "table in main": lambda i: (
        "def aux(*given):\n    return repr(given)\n",
        main(i, f"known = {shown_answers(i)!r}", "return known.get(aux(ARGS))"),
    ),
    "table in main, aux unused": lambda i: (COUNTS, main(i, f"return {shown_answers(i)!r}.get(repr((ARGS,)))")),
    "table in aux": lambda i: (
        f"def aux(*given):\n    return {shown_answers(i)!r}.get(repr(given))\n",
        main(i, "found = aux(ARGS)", "if found is None:", "    return None", "return found"),
    ),
    "table handed over": lambda i: (
        f"def aux():\n    return {shown_answers(i)!r}\n",
        main(i, "return aux().get(repr((ARGS,)))"),
    ),
}
# Programs whose parts do look different when one of them is replaced, though no work is shared.
DISGUISED_OF_ITEM: Mapping[str, Callable[[TaskItem], Pair]] = {
    "aux boxes its argument": lambda i: (
        "def aux(x):\n    return {'value': x}\n",
        alone(i, *each(i, "ARG = aux(ARG)['value']")),
    ),
    "aux returns the first of its arguments": lambda i: (
        "def aux(x, unused):\n    return x\n",
        alone(i, *each(i, "ARG = aux(ARG, 0)")),
    ),
    "main unboxes a solution": lambda i: (
        around(solver(i), "[_solve(*given)]"),
        main(i, "return aux(ARGS)[0]"),
    ),
    "aux adds something to a solution": lambda i: (
        around(solver(i), "(_solve(*given), 0)"),
        main(i, "return aux(ARGS)[0]"),
    ),
    "main adds an argument": lambda i: (
        around(solver(i), "_solve(*given[:-1])"),
        main(i, "answer = aux(ARGS, 0)", "return answer"),
    ),
    "both add something": lambda i: (
        around(solver(i), "[None, _solve(*given[1:])]"),
        main(i, "return aux(0, ARGS)[1]"),
    ),
    "table with a guess": lambda i: (
        f"def aux():\n    return {shown_answers(i)!r}\n",
        main(i, "known = aux()", "return known.get(repr((ARGS,)), next(iter(known.values())))"),
    ),
    "main checks a constant": lambda i: ("def aux():\n    return 7\n", alone(i, "if aux() != 7: return None")),
}


def of_rows(strategies: Mapping[str, Callable[[TaskItem], Pair]]) -> dict[str, Callable[[str, int], Pair]]:
    return {name: lambda n, i, said=said: said(rows(n)[i]) for name, said in strategies.items()}


CODE = of_rows(CODE_OF_ITEM)
DISGUISED = of_rows(DISGUISED_OF_ITEM)

# --- the table --------------------------------------------------------------------------------------------------------

STRATEGIES = {"coophumaneval": CODE, "humaneval": CODE}
FEW = 5  # the default run tries every fifth row of coophumaneval alone; the full run every row of both code tasks

pytestmark = pytest.mark.usefixtures("impatient_judge")


def cells(names: Iterable[str], strategies: Callable[[str], Iterable[str]]) -> list[Any]:
    """Name, strategy and which rows."""
    found = []
    for name, strategy in [(one, strategy) for one in names for strategy in strategies(one)]:
        found.append(pytest.param(name, strategy, 1, id=f"{name}-{strategy}-all rows", marks=pytest.mark.slow))
        if name == "coophumaneval":
            found.append(pytest.param(name, strategy, FEW, id=f"{name}-{strategy}-some rows"))
    return found


@pytest.mark.parametrize(("name", "strategy", "every"), cells(STRATEGIES, lambda name: STRATEGIES[name]))
def test_a_degenerate_strategy_stays_below_40_percent(name: str, strategy: str, every: int) -> None:
    assert share(name, "v1", STRATEGIES[name][strategy], every) < LIMIT


@pytest.mark.parametrize(("name", "strategy", "every"), cells(["coophumaneval", "humaneval"], lambda _: DISGUISED))
def test_a_disguised_strategy_stays_below_40_percent(name: str, strategy: str, every: int) -> None:
    assert share(name, "v1", DISGUISED[strategy], every) < LIMIT


CODE_NAMES = ["coophumaneval", pytest.param("humaneval", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", CODE_NAMES)
def test_references_stay_above_90_percent(name: str) -> None:
    assert len(rows(name)) >= 10
    assert share(name, "v1", reference) > REFERENCES


PAID_BY_V0 = {
    "coophumaneval": ("aux called, never read", "aux is the identity", "wrapper with a check", "table in aux"),
    "humaneval": ("aux called, never read", "aux is the identity", "wrapper with a check", "table in aux"),
}


@pytest.mark.parametrize(("name", "strategy"), [(name, said) for name, paid in PAID_BY_V0.items() for said in paid])
def test_v0_pays_for_what_v1_does_not(name: str, strategy: str) -> None:
    assert share(name, "v0", STRATEGIES[name][strategy]) > LIMIT


@pytest.mark.parametrize("name", CODE_NAMES)
def test_code_strategies_solve_the_problems(name: str) -> None:
    """Else they would stay below the limit for want of passed tests. Tables do not; nor does a helper that is called
    on what it is not made for, where it changes its argument."""
    env, item = environment(f"{name}-v1"), rows(name)[0]
    for strategy, said in CODE_OF_ITEM.items():
        if not strategy.startswith("table") and strategy != "aux called, errors ignored":
            facts = env.score(item, dict(zip(env.possible_agents, said(item), strict=True))).diagnostics
            assert facts["tests_passed"] == facts["tests_total"] > 0, strategy
