"""The reward of v1 of the code tasks: published levels, tests that cannot be guessed, and a helper that is needed.

The module `envs.coding.v1.humaneval` defines it. Two programs run: the pair, and main with a helper that returns None.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ....types import Score, TaskItem
from .. import analysis, reward
from ..reward import Program, ProgramJudge

DIAGNOSTICS = (*reward.DIAGNOSTICS, "held_out_passed", "held_out_total", "needs_aux")
ENOUGH = 0.2  # n = 1 if at least this share of the passed asserts needs aux, since easy cases pass without aux
STUB = "def aux(*args, **kwargs):\n    return None\n"
_BOUND = re.compile(r">>>[ \t]*\w+[ \t]*=[ \t]*(.+)")


def score(item: TaskItem, program: Program, judge: ProgramJudge) -> Score:
    """Return the joint reward of a program, 0 to 4.

    Args:
        item: The problem, with fields `entry_point` and `test`.
        program: The two functions.
        judge: Runs several programs at once in the code sandbox.

    Returns:
        The score; its total is NaN if the sandbox failed.
    """
    parts, problem = reward.first_levels(item, program)
    if problem:
        return reward.summed(parts, problem)
    sources = [program.source]
    if program.aux and "aux" in program.main:
        sources.append(Program(STUB, program.main).source)
    whole, *without = verdicts = judge([reward.job(item, source) for source in sources])
    if any(verdict.outcome == "infra_error" for verdict in verdicts):
        parts["tests"] = math.nan
        return reward.summed(parts, reward.detail(whole), whole)
    chosen = held_out(item)
    held = [whole.shares[number] for number in chosen]
    passed, guessed = sum(held), guessable(list(chosen.values()))
    h = max(0.0, (passed - guessed) / (len(held) - guessed)) if guessed < len(held) else passed / len(held)
    needed = 0.0
    if whole.passed and without:
        lost = (max(0.0, was - now) for was, now in zip(whole.shares, without[0].shares, strict=True))
        needed = sum(lost) / whole.passed
    wraps = analysis.cooperation(program.main).wraps
    parts["tests"] = reward.TESTS * h
    parts["cooperation"] = (reward.CALLS_AUX + (0.0 if wraps else reward.NO_WRAPPER)) * h * min(1.0, needed / ENOUGH)
    found = reward.summed(parts, reward.detail(whole), whole)
    counts = {"held_out_passed": passed, "held_out_total": float(len(held)), "needs_aux": needed}
    return replace(found, diagnostics={**found.diagnostics, **counts})


def held_out(item: TaskItem) -> dict[int, ast.expr]:
    """Return the conditions of asserts whose arguments the problem does not show as an example, by number.

    Numbers are those of `Verdict.shares`. Asserts of constants are left out. If no assert remains, all are returned.
    """
    tree = analysis.parse(item.fields["test"])
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)] if tree else []
    tests = [node.test for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset))]
    counted = dict(enumerate(test for test in tests if not (isinstance(test, ast.Constant) and test.value)))
    calls = examples(item.prompt, item.fields["entry_point"])
    hidden = {n: test for n, test in counted.items() if not (isinstance(test, ast.Constant) or shown(test, calls))}
    return hidden or counted


def examples(prompt: str, entry_point: str) -> frozenset[str]:
    """Return the arguments with which a problem's text shows its entry point, such as "(1, 2)", by `ast.unparse`.

    A doctest line that binds a literal (`>>> values = [1, 2]`) shows the call with that one argument.
    """
    found = {f"({value})" for value in map(_literal, _BOUND.findall(prompt)) if value}
    for match in re.finditer(rf"\b{re.escape(entry_point)}\s*\(", prompt):
        text = prompt[match.start() : match.start() + 2000]
        ends = [index + 1 for index, character in enumerate(text) if character == ")"]
        call = next((tree for end in ends if (tree := analysis.parse_expression(text[:end]))), None)
        if isinstance(call, ast.Call):
            found.add(_arguments(call))
    return frozenset(found)


def shown(claim: ast.expr, calls: frozenset[str]) -> bool:
    """Return whether an assert calls a function with arguments that are in `calls`."""
    called = [node for node in ast.walk(claim) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return any(_arguments(node) in calls for node in called)


def guessable(claims: Sequence[ast.expr]) -> int:
    """Return the number of asserts that the best constant answer passes; only comparisons with a literal count."""
    return max(Counter(value for value in map(_wanted, claims) if value).values(), default=0)


def _wanted(claim: ast.expr) -> str:
    """Return the literal that an assert expects of a call; "" for an assert of another form."""
    match claim:
        case ast.Compare(left=ast.Call(), ops=[ast.Eq() | ast.Is()], comparators=[value]):
            return _literal(ast.unparse(value))
        case ast.Call():
            return "True"
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call()):
            return "False"
        case _:
            return ""


def _arguments(call: ast.Call) -> str:
    return ast.unparse(call).removeprefix(ast.unparse(call.func))


def _literal(text: str) -> str:
    tree = analysis.parse_expression(text.strip())
    try:
        return repr(ast.literal_eval(tree)) if tree else ""
    except (ValueError, TypeError):  # not a literal, or a set or dictionary of unhashable values
        return ""
