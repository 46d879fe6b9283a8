"""The four cooperation schemes on hand-made programs, and programs that nearly show them."""

from __future__ import annotations

import pytest

from llm_dec_pomdp.envs.coding.reward import Program
from llm_dec_pomdp.envs.coding.schemes import SCHEMES, classify
from llm_dec_pomdp.types import TaskItem

SUM = TaskItem(
    "sum",
    "def main(xs):\n    '''Sum of the squares of the even numbers.'''\n",
    fields={
        "entry_point": "main",
        "test": "def check(candidate):\n"
        "    assert candidate([1, 2, 3, 4]) == 20\n"
        "    assert candidate([2]) == 4\n"
        "    assert candidate([6, 8, 1]) == 100\n"
        "    for x in range(3):\n        assert candidate([2 * x, 2 * x]) == 8 * x * x\n",
    },
)
WORD = TaskItem(
    "word",
    "def main(s):\n    '''Palindromes in capitals, everything else backwards.'''\n",
    fields={
        "entry_point": "main",
        "test": "def check(candidate):\n    assert candidate('abc') == 'cba'\n    assert candidate('aba') == 'ABA'\n",
    },
)
EVENS = "def aux(xs):\n    return [x for x in xs if x % 2 == 0]\n"
SQUARE = "def aux(x):\n    return x * x if x % 2 == 0 else 0\n"
WHOLE = "def aux(xs):\n    return sum(x * x for x in xs if x % 2 == 0)\n"
PALINDROME = "def aux(s):\n    return s == s[::-1]\n"


def schemes(item: TaskItem, aux: str, main: str) -> set[str]:
    return set(classify(item, Program(aux, main)))


SHOWN = [
    pytest.param(
        SUM,
        "def aux(xs):\n    raise ValueError\n",
        "def main(xs):\n    try:\n        return aux(xs)\n    except Exception:\n"
        "        return sum(x * x for x in xs if x % 2 == 0)\n",
        {"fallback"},
        id="fallback when aux raises",
    ),
    pytest.param(
        SUM,
        WHOLE,
        "def main(xs):\n    found = aux(xs)\n    if found is None:\n"
        "        return sum(x * x for x in xs if x % 2 == 0)\n    return found\n",
        {"fallback"},
        id="fallback when aux returns None",
    ),
    pytest.param(
        SUM,
        EVENS,
        "def main(xs):\n    total = 0\n    for x in aux(xs):\n        total += x * x\n    return total\n",
        {"decorator"},
        id="decorator by a loop",
    ),
    pytest.param(
        SUM, EVENS, "def main(xs):\n    return sum(x ** 2 for x in aux(xs))\n", {"decorator"}, id="decorator in a line"
    ),
    pytest.param(
        SUM,
        EVENS,
        "def main(xs):\n    try:\n        evens = aux(xs)\n    except Exception:\n"
        "        evens = [x for x in xs if x % 2 == 0]\n    return sum(x * x for x in evens)\n",
        {"decorator", "fallback"},
        id="decorator that survives",
    ),
    pytest.param(
        SUM,
        SQUARE,
        "def main(xs):\n    return sum(aux(x) for x in xs)\n",
        {"coordinator"},
        id="coordinator by elements",
    ),
    pytest.param(
        SUM, SQUARE, "def main(xs):\n    return sum(map(aux, xs))\n", {"coordinator"}, id="coordinator by map"
    ),
    pytest.param(
        SUM,
        WHOLE,
        "def main(xs):\n    half = len(xs) // 2\n    return aux(xs[:half]) + aux(xs[half:])\n",
        {"coordinator"},
        id="coordinator by halves",
    ),
    pytest.param(
        SUM,
        "def aux(x):\n    return x % 2 == 0\n",
        "def main(xs):\n    total = 0\n    for x in xs:\n        if aux(x):\n            total += x * x\n"
        "    return total\n",
        {"coordinator"},
        id="coordinator that asks about every element",
    ),
    pytest.param(
        WORD,
        PALINDROME,
        "def main(s):\n    if aux(s):\n        return s.upper()\n    return s[::-1]\n",
        {"strategy filter"},
        id="strategy filter",
    ),
    pytest.param(
        WORD,
        "def aux(s):\n    return 'same' if s == s[::-1] else 'other'\n",
        "def main(s):\n    kind = aux(s)\n    return s.upper() if kind == 'same' else s[::-1]\n",
        {"strategy filter"},
        id="strategy filter by a name",
    ),
]

MISSED = [
    pytest.param(SUM, WHOLE, "def main(xs):\n    return aux(xs)\n", id="a wrapper"),
    pytest.param(
        SUM, WHOLE, "def main(xs):\n    xs = list(xs)\n    value = aux(xs)\n    return value\n", id="dressed up"
    ),
    pytest.param(SUM, WHOLE, "def main(xs):\n    return sum(x * x for x in xs if x % 2 == 0)\n", id="aux not called"),
    pytest.param(
        SUM,
        EVENS,
        "def main(xs):\n    evens = aux(xs)\n    return sum(x * x for x in xs if x % 2 == 0)\n",
        id="the value is not used",
    ),
    pytest.param(
        SUM,
        WHOLE,
        "def main(xs):\n    try:\n        return aux(xs)\n    except Exception as error:\n        raise error\n",
        id="the handler raises again",
    ),
    pytest.param(
        SUM,
        WHOLE,
        "def main(xs):\n    try:\n        return aux(xs)\n    except Exception:\n        return 0\n",
        id="the handler gives up",
    ),
    pytest.param(
        SUM,
        WHOLE,
        "def main(xs):\n    try:\n        if len(xs) > 99:\n            return aux(xs)\n    except Exception:\n"
        "        pass\n    return sum(x * x for x in xs if x % 2 == 0)\n",
        id="aux is never reached",
    ),
    pytest.param(
        SUM,
        WHOLE,
        "def main(xs):\n    aux(xs)\n    return max(aux(xs), aux(xs))\n",
        id="the same call twice splits nothing",
    ),
    pytest.param(
        WORD,
        PALINDROME,
        "def main(s):\n    if aux(s):\n        kind = 1\n    else:\n        kind = 1\n"
        "    return s.upper() if s == s[::-1] else s[::-1]\n",
        id="both branches are the same",
    ),
    pytest.param(
        SUM,
        "def aux(xs):\n    return xs[0] ** 2 * (xs[0] % 2 == 0) + aux(xs[1:]) if xs else 0\n",
        "def main(xs):\n    return aux(xs)\n",
        id="aux calls itself on parts",
    ),
    pytest.param(SUM, EVENS, "def main(xs):\n    return len(aux(xs)) - 100\n", id="no assert passes"),
    pytest.param(SUM, EVENS, "def main(xs):\n    return sum(aux(xs)\n", id="a syntax error"),
    pytest.param(SUM, "", "def main(xs):\n    return sum(map(aux, xs))\n", id="no aux"),
]


@pytest.mark.parametrize(("item", "aux", "main", "expected"), SHOWN)
def test_a_scheme_is_recognised(item: TaskItem, aux: str, main: str, expected: set[str]) -> None:
    assert schemes(item, aux, main) == expected


@pytest.mark.parametrize(("item", "aux", "main"), MISSED)
def test_a_near_miss_is_none(item: TaskItem, aux: str, main: str) -> None:
    assert schemes(item, aux, main) == set()


def test_every_scheme_is_among_the_examples() -> None:
    assert set().union(*(case.values[3] for case in SHOWN)) == set(SCHEMES)  # type: ignore[arg-type]
