"""Problems by hand, programs built from the reference pair of a row, and what they earn.

Built are one function that solves everything, main functions, and tables. A strategy makes the two texts of a row.
"""

from __future__ import annotations

import ast
import doctest
import functools
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.envs.coding import analysis
from llm_dec_pomdp.types import Score, TaskItem

Pair = tuple[str, str]
Strategy = Callable[[TaskItem], Pair]


def problem(prompt: str, *asserts: str) -> TaskItem:
    """A problem by hand; `main` is its entry point, and `c` in its tests."""
    test = "def check(c):\n" + "".join(f"    {line}\n" for line in asserts)
    return TaskItem("t", prompt, fields={"entry_point": "main", "test": test})


@functools.cache
def environment(env_id: str) -> Any:
    return llm_dec_pomdp.make(env_id, split="test")


def spread(env_id: str, count: int) -> list[TaskItem]:
    """So many test rows, spread evenly."""
    items = environment(env_id).items
    return [items[k * len(items) // count] for k in range(count)]


def score_of(env_id: str, strategy: Strategy, item: TaskItem) -> Score:
    return _score(env_id, item, strategy(item))


def _score(env_id: str, item: TaskItem, texts: Sequence[str]) -> Score:
    env = environment(env_id)
    return env.score(item, dict(zip(env.possible_agents, texts, strict=True)))


def share(env_id: str, strategy: Strategy, items: Sequence[TaskItem]) -> float:
    """Mean reward of a strategy on some rows as a share of the maximum."""
    written = [strategy(item) for item in items]  # here: two threads that parse at once upset Python 3.11
    with ThreadPoolExecutor(4) as threads:  # they wait for the judge
        totals = threads.map(lambda item, texts: _score(env_id, item, texts).total, items, written)
        return statistics.mean(totals) / environment(env_id).facts.reward_range[1]


def solves(env_id: str, strategy: Strategy, item: TaskItem) -> bool:
    """Whether what a strategy writes passes all tests of a row."""
    facts = score_of(env_id, strategy, item).diagnostics
    return facts["tests_passed"] == facts["tests_total"] > 0


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


def around(helper: str, value: str) -> str:
    """A helper that returns what is made of the value of another one, `_solve`, for the arguments `given`."""
    inner = ast.unparse(renamed(helper, "aux", "_solve"))
    return "def aux(*given):\n" + "".join(f"    {line}\n" for line in inner.splitlines()) + f"    return {value}\n"
