"""Strategies of the code tasks that solve nothing: each stays below 40 % of the maximum of v1, references above 90 %.

A strategy builds its two texts from the reference pair by program, so that it solves the problem wherever that is not
the point.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from programs import Strategy, alone, around, each, main, share, shown_answers, solver, solves, spread

LIMIT = 0.40
NAMES = ["coophumaneval", pytest.param("humaneval", marks=pytest.mark.slow)]
ROWS = 12  # of the test split
FEW = 5  # the default run tries every fifth row of coophumaneval alone; the full run every row of both code tasks

# --- strategies -------------------------------------------------------------------------------------------------------

COUNTS = "def aux(*given):\n    return len(given)\n"
CODE: Mapping[str, Strategy] = {
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
DISGUISED: Mapping[str, Strategy] = {
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


# --- the table --------------------------------------------------------------------------------------------------------


def cells() -> list[Any]:
    """Name, strategy and which rows."""
    found = []
    for name, strategy in itertools.product(("coophumaneval", "humaneval"), (*CODE, *DISGUISED)):
        found.append(pytest.param(name, strategy, 1, id=f"{name}-{strategy}-all rows", marks=pytest.mark.slow))
        if name == "coophumaneval":
            found.append(pytest.param(name, strategy, FEW, id=f"{name}-{strategy}-some rows"))
    return found


@pytest.mark.every(2)
@pytest.mark.parametrize(("name", "strategy", "every"), cells())
def test_a_degenerate_strategy_stays_below_40_percent(name: str, strategy: str, every: int) -> None:
    rows = spread(f"{name}-v1", ROWS)[::every]
    assert share(f"{name}-v1", {**CODE, **DISGUISED}[strategy], rows) < LIMIT


@pytest.mark.parametrize("name", ["coophumaneval", "humaneval"])
@pytest.mark.parametrize(
    "strategy", ["aux called, never read", "aux is the identity", "wrapper with a check", "table in aux"]
)
def test_v0_pays_for_what_v1_does_not(name: str, strategy: str) -> None:
    """On rows of v1, whose references are for both versions."""
    assert share(f"{name}-v0", CODE[strategy], spread(f"{name}-v1", ROWS)) > LIMIT


@pytest.mark.parametrize("name", NAMES)
def test_code_strategies_solve_the_problems(name: str) -> None:
    """Else they would stay below the limit for want of passed tests. Tables do not; nor does a helper that is called
    on what it is not made for, where it changes its argument."""
    [item] = spread(f"{name}-v1", 1)
    for strategy, texts in CODE.items():
        if not strategy.startswith("table") and strategy != "aux called, errors ignored":
            assert solves(f"{name}-v1", texts, item), strategy
