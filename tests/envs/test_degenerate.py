"""Strategies that solve nothing: each stays below 40 % of the maximum of v1, while the references stay above 90 %.

A strategy is a function from a row (its index among the rows) to the two texts. Those of the code tasks are built from
the reference pairs by program, so that they solve the problem wherever that is not the point.
"""

from __future__ import annotations

import ast
import doctest
import functools
import itertools
import random
import re
import statistics
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs.coding import analysis
from llm_dec_pomdp.envs.writing.text import lexicon
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
    if name in ("tldr", "arxiv"):
        return items
    return tuple(items[k * len(items) // CODE_ROWS] for k in range(CODE_ROWS))


def share(name: str, version: str, strategy: Callable[[str, int], Pair], every: int = 1) -> float:
    """Mean reward of a strategy on every so many rows as a share of the maximum."""
    env = environment(f"{name}-{version}")

    def reward(index: int) -> float:
        said = dict(zip(env.possible_agents, strategy(name, index), strict=True))
        return env.score(rows(name)[index], said).total

    indices = range(0, len(rows(name)), every)
    if not env.judges_code:
        return statistics.mean(map(reward, indices)) / env.reward_range[1]
    with ThreadPoolExecutor(4) as threads:  # they wait for the judge
        return statistics.mean(threads.map(reward, indices)) / env.reward_range[1]


def reference(name: str, index: int) -> Pair:
    first, second = rows(name)[index].reference
    return first, second


# --- writing ----------------------------------------------------------------------------------------------------------

LENGTHS = {"tldr": (30, 70), "arxiv": (130, 190)}  # words of both texts, within what the formula asks for


def fitted(name: str, first: list[str], second: list[str]) -> Pair:
    """The words of two texts, repeated to the lengths of the task."""
    return tuple(  # type: ignore[return-value]
        " ".join(itertools.islice(itertools.cycle(words), length))
        for words, length in zip((first, second), LENGTHS[name], strict=True)
    )


def source(name: str, index: int) -> list[str]:
    return rows(name)[index].prompt.split()


def dice(name: str, index: int) -> random.Random:
    return random.Random(f"{name} {index}")


def one_sentence(name: str, index: int) -> Pair:
    first, second = (re.split(r"(?<=[.!?])\s+", text)[0].split() for text in reference(name, index))
    return fitted(name, first, second)


def connectives(name: str, index: int) -> Pair:
    phrases = [phrase for category in lexicon()[0].values() for phrase in category]
    orders = [dice(name, index + shift).sample(phrases, len(phrases)) for shift in (0, 1000)]
    return fitted(name, *(" ".join(order).split() for order in orders))


def connectives_with_commas(name: str, index: int) -> Pair:
    return tuple(text.replace(" ", ", ") for text in connectives(name, index))  # type: ignore[return-value]


def connectives_as_sentences(name: str, index: int) -> Pair:
    return tuple(text.replace(" ", ". ") for text in connectives(name, index))  # type: ignore[return-value]


def copy_of_source(name: str, index: int) -> Pair:
    return fitted(name, source(name, index), source(name, index)[-LENGTHS[name][1] :])


def copy_of_beginning(name: str, index: int) -> Pair:
    return fitted(name, source(name, index), source(name, index))


def random_source_words(name: str, index: int) -> Pair:
    draw, (first, second) = dice(name, index), LENGTHS[name]
    return " ".join(draw.choices(source(name, index), k=first)), " ".join(draw.choices(source(name, index), k=second))


def shuffled_source(name: str, index: int) -> Pair:
    draw, words = dice(name, index), source(name, index)
    return fitted(name, draw.sample(words, len(words)), draw.sample(words, len(words)))


def shuffled_reference(name: str, index: int) -> Pair:
    draw = dice(name, index)
    return tuple(" ".join(draw.sample(t.split(), len(t.split()))) for t in reference(name, index))  # type: ignore[return-value]


def with_commas(pair: Pair, every: int) -> Pair:
    """A comma after every so many words, which breaks up whatever is looked for between commas."""
    return tuple(  # type: ignore[return-value]
        " ".join(word + "," * (i % every == every - 1) for i, word in enumerate(text.split())) for text in pair
    )


def dashes(name: str, index: int) -> Pair:
    """Two sentences, filled up with what is only a word to `str.split`."""
    first, second = (" ".join(text.split()[:12]) for text in reference(name, index))
    return f"{first} {'- ' * LENGTHS[name][0]}", f"{second} {'- ' * LENGTHS[name][1]}"


def something_else(name: str, index: int) -> Pair:
    return reference(name, (index + 1) % len(rows(name)))


WRITING: Mapping[str, Callable[[str, int], Pair]] = {
    "one sentence repeated": one_sentence,
    "list of connectives": connectives,
    "list of connectives with commas": connectives_with_commas,
    "connectives as sentences": connectives_as_sentences,
    "copy of the source": copy_of_source,
    "copy of its beginning twice": copy_of_beginning,
    "random source words": random_source_words,
    "shuffled source": shuffled_source,
    "shuffled source with commas": lambda n, i: with_commas(shuffled_source(n, i), 1),
    "copy with commas": lambda n, i: with_commas(copy_of_source(n, i), 3),
    "shuffled reference with commas": lambda n, i: with_commas(shuffled_reference(n, i), 2),
    "shuffled reference": shuffled_reference,
    "filled up with dashes": dashes,
    "something else": something_else,
    "half about something else": lambda n, i: (reference(n, i)[0], something_else(n, i)[1]),
    "empty elaboration": lambda n, i: (reference(n, i)[0], ""),
    "empty summary": lambda n, i: ("", reference(n, i)[1]),
    "first is the second's beginning": lambda n, i: (
        " ".join(reference(n, i)[1].split()[: LENGTHS[n][0]]),
        reference(n, i)[1],
    ),
    "second is the first repeated": lambda n, i: fitted(n, reference(n, i)[0].split(), reference(n, i)[0].split()),
}

# --- code -------------------------------------------------------------------------------------------------------------


def definition(text: str) -> ast.FunctionDef:
    return next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))


def renamed(text: str, old: str, new: str) -> ast.FunctionDef:
    """A function in which a name, which may be its own, is another."""
    function = definition(text)
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new
    function.name = new if function.name == old else function.name
    return function


def alone(item: TaskItem, *first: str) -> str:
    """A main function that solves everything, after some lines; the reference helper is an inner function of it."""
    helper, function = renamed(item.reference[0], "aux", "_own"), renamed(item.reference[1], "aux", "_own")
    before = ast.parse("\n".join(first).replace("ARGS", arguments(item))).body
    function.body = [*before, helper, *analysis.without_docstring(function.body)]
    return ast.unparse(ast.fix_missing_locations(function)) + "\n"


def solver(item: TaskItem) -> str:
    """A helper that solves everything."""
    return ast.unparse(renamed(alone(item), item.fields["entry_point"], "aux")) + "\n"


def arguments(item: TaskItem) -> str:
    return ", ".join(argument.arg for argument in definition(item.reference[1]).args.args)


def main(item: TaskItem, *lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines).replace("ARGS", arguments(item))
    return f"def {item.fields['entry_point']}({arguments(item)}):\n{body}"


def shown_answers(item: TaskItem) -> dict[str, object]:
    """Answers of the examples in a problem's text, by the arguments as text."""
    found: dict[str, object] = {}
    for example in doctest.DocTestParser().get_examples(item.prompt):
        call = ast.parse(example.source.strip()).body[0]
        if isinstance(call, ast.Expr) and isinstance(call.value, ast.Call):
            values = tuple(ast.literal_eval(argument) for argument in call.value.args)
            found[repr(values)] = ast.literal_eval(example.want.replace('"""', "").strip() or "None")
    return found


def each(item: TaskItem, form: str) -> list[str]:
    """One line per argument."""
    return [form.replace("ARG", name) for name in arguments(item).split(", ")]


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


def around(helper: str, value: str) -> str:
    """A helper that returns what is made of the value of another one, `_solve`, for the arguments `given`."""
    inner = ast.unparse(renamed(helper, "aux", "_solve"))
    return "def aux(*given):\n" + "".join(f"    {line}\n" for line in inner.splitlines()) + f"    return {value}\n"


def of_rows(strategies: Mapping[str, Callable[[TaskItem], Pair]]) -> dict[str, Callable[[str, int], Pair]]:
    return {name: lambda n, i, said=said: said(rows(n)[i]) for name, said in strategies.items()}


CODE = of_rows(CODE_OF_ITEM)
DISGUISED = of_rows(DISGUISED_OF_ITEM)

# --- the table --------------------------------------------------------------------------------------------------------

STRATEGIES = {"tldr": WRITING, "arxiv": WRITING, "coophumaneval": CODE, "humaneval": CODE}
FEW = 5  # the default run tries every fifth row of coophumaneval alone; the full run every row of both code tasks

pytestmark = pytest.mark.usefixtures("impatient_judge")


def cells(names: Iterable[str], strategies: Callable[[str], Iterable[str]]) -> list[Any]:
    """Name, strategy and which rows."""
    found = []
    for name, strategy in [(one, strategy) for one in names for strategy in strategies(one)]:
        if STRATEGIES[name] is WRITING:
            found.append(pytest.param(name, strategy, 1, id=f"{name}-{strategy}"))
        else:
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


@pytest.mark.parametrize("name", ["tldr", "arxiv", *CODE_NAMES])
def test_references_stay_above_90_percent(name: str) -> None:
    assert len(rows(name)) >= 10
    assert share(name, "v1", reference) > REFERENCES


PAID_BY_V0 = {
    "tldr": ("one sentence repeated", "list of connectives", "copy of the source", "something else"),
    "arxiv": ("copy of the source", "random source words", "something else"),
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
