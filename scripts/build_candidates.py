"""Make the candidate functions of `envs.coding.candidates` from reference pairs, and keep those that pass a check.

The script writes `llm_dec_pomdp/data/candidates.jsonl`. It has at most eight problems of CoopHumanEval and of MBPP: the
first embedded problems for which every kind of candidate can be made. A row has the texts by role and kind. The code
sandbox checks each pair. `tests/envs/coding/test_candidates.py` defines the requirements of each kind.
"""

from __future__ import annotations

import ast
import copy
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.envs.coding.analysis import without_docstring
from llm_dec_pomdp.envs.coding.reward import Program, job
from llm_dec_pomdp.envs.coding.schemes import classify
from llm_dec_pomdp.sandbox import Verdict, default_pool
from llm_dec_pomdp.types import TaskItem

PROBLEMS = 8
OUT = Path(llm_dec_pomdp.__file__).parent / "data" / "candidates.jsonl"
INVERSES = (("not {}", "not {}"), ("{}[::-1]", "{}[::-1]"), ("{} - 1", "{} + 1"))  # applied by aux and undone by main
SWAPPED: dict[Any, Any] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
TRIVIAL = ("[]", "0", "''", "-1", "None")  # return values of special cases


def function(source: str) -> ast.FunctionDef:
    """Return the function that a source defines, without its docstring."""
    [found] = ast.parse(source).body
    assert isinstance(found, ast.FunctionDef)
    found.body = without_docstring(found.body)
    return found


def written(name: str, like: ast.FunctionDef, body: Sequence[ast.stmt]) -> str:
    """Return a function with the parameters of another function."""
    function = copy.deepcopy(like)
    function.name, function.body = name, [copy.deepcopy(statement) for statement in body]
    if name == "aux":
        function.returns = None
        for argument in function.args.args:
            argument.annotation = None
    return ast.unparse(ast.fix_missing_locations(function)) + "\n"


def statements(source: str) -> list[ast.stmt]:
    """Parse a source and return its statements."""
    return ast.parse(source).body


def renamed(node: ast.AST, name: str) -> ast.AST:
    """Return a copy that calls the helper by another name."""
    node = copy.deepcopy(node)
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id == "aux":
            part.id = name
        if isinstance(part, ast.FunctionDef) and part.name == "aux":
            part.name = name
    return node


def alone(aux: ast.FunctionDef, main: ast.FunctionDef) -> list[ast.stmt]:
    """Return the body of a main function that defines the helper inside of itself."""
    return [renamed(aux, "helper"), *(renamed(statement, "helper") for statement in main.body)]  # type: ignore[list-item]


def off_by_one(source: str) -> Iterator[str]:
    """Yield versions with one change each: a number plus one, another comparison such as < for <=, or - for +."""
    count = len(list(ast.walk(function(source))))
    for place in range(count):
        changed = function(source)
        node = list(ast.walk(changed))[place]
        if isinstance(node, ast.Constant) and type(node.value) is int:
            node.value += 1
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
            node.ops[0] = SWAPPED[type(node.ops[0])]()
        elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
            node.op = SWAPPED[type(node.op)]()
        else:
            continue
        yield ast.unparse(changed) + "\n"


def decorators(aux: ast.FunctionDef, main: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Yield pairs in which aux computes all but the last step, which main adds."""
    arguments = ", ".join(argument.arg for argument in main.args.args)
    solve = function(written("solve", main, alone(aux, main)))
    for before, after in INVERSES:
        ends = statements(f"answer = aux({arguments})\nreturn {after.format('answer')}")
        body = [solve, *statements(f"return {before.format(f'solve({arguments})')}")]
        yield written("aux", main, body), written(main.name, main, ends)


def filters(aux: ast.FunctionDef, main: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Yield pairs in which aux detects a special case, and main handles it."""
    arguments = ", ".join(argument.arg for argument in main.args.args)
    first, *rest = main.body
    if isinstance(first, ast.If) and not first.orelse:
        chosen = copy.deepcopy(first)
        chosen.test = ast.parse(f"aux({arguments})", mode="eval").body
        whole = alone(aux, ast.FunctionDef(main.name, main.args, rest, []))
        yield written("aux", main, [ast.Return(first.test)]), written(main.name, main, [chosen, *whole])
    solve = function(written("solve", main, alone(aux, main)))
    for answer in TRIVIAL:
        asked = [solve, *statements(f"return solve({arguments}) == {answer}")]
        decided = statements(f"if aux({arguments}):\n    return {answer}")
        yield written("aux", main, asked), written(main.name, main, [*decided, *alone(aux, main)])


def fallback(aux: ast.FunctionDef, main: ast.FunctionDef) -> str:
    """Return a main function that does the work of aux itself if aux fails."""
    handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, alone(aux, main))
    return written(main.name, main, [ast.Try(main.body, [handler], [], [])])


def judged(item: TaskItem, aux: str, main: str) -> Verdict:
    """Run the tests of a problem on a pair, and return the result."""
    return default_pool().run([job(item, Program(aux, main).source)])[0]


def passes(item: TaskItem, aux: str, main: str) -> bool:
    """Return whether a pair passes all tests."""
    verdict = judged(item, aux, main)
    return verdict.outcome == "passed" and verdict.passed == verdict.total


def first(pairs: Iterator[tuple[str, str]], fits: Callable[[str, str], bool]) -> tuple[str, str] | None:
    """Return the first pair that meets a condition."""
    return next((pair for pair in pairs if fits(*pair)), None)


def candidates(item: TaskItem) -> dict[str, dict[str, str]] | None:
    """Return the texts of a problem by role and kind, or None if a kind cannot be made."""
    gold_aux, gold_main = item.reference
    aux, main = function(gold_aux), function(gold_main)

    def wrong(a: str, m: str) -> bool:
        verdict = judged(item, a, m)
        return 0 < verdict.passed < verdict.total

    def shows(scheme: str) -> Callable[[str, str], bool]:
        return lambda a, m: passes(item, a, m) and set(classify(item, Program(a, m))) == {scheme}

    wrong_aux = first(((a, gold_main) for a in off_by_one(gold_aux)), wrong)
    wrong_main = first(((gold_aux, m) for m in off_by_one(gold_main)), wrong)
    decorator = first(decorators(aux, main), shows("decorator"))
    chosen = first(filters(aux, main), shows("strategy filter"))
    falls_back = fallback(aux, main)
    ignores = written(main.name, main, alone(aux, main))
    if not (wrong_aux and wrong_main and decorator and chosen):
        return None
    if not (
        shows("coordinator")(gold_aux, gold_main)
        and passes(item, gold_aux, ignores)
        and passes(item, gold_aux, falls_back)
        and "fallback" in classify(item, Program(gold_aux, falls_back))
    ):
        return None
    nothing = statements("return None")
    return {
        "aux": {
            "gold": gold_aux,
            "off by one": wrong_aux[0],
            "stub": written("aux", aux, nothing),
            "decorator": decorator[0],
            "strategy filter": chosen[0],
        },
        "main": {
            "gold": gold_main,
            "off by one": wrong_main[1],
            "stub": written(main.name, main, nothing),
            "helper ignored": ignores,
            "fallback": falls_back,
            "decorator": decorator[1],
            "strategy filter": chosen[1],
        },
    }


def main() -> None:
    """Write the file."""
    rows: list[str] = []
    for env_id in ("coophumaneval-v0", "mbpp-v0"):
        found = ((item.id, candidates(item)) for item in llm_dec_pomdp.make(env_id, split="train").items)
        kept = ((task, texts) for task, texts in found if texts)
        rows += [json.dumps({"id": task, **texts}) + "\n" for task, texts in itertools.islice(kept, PROBLEMS)]
    OUT.write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
