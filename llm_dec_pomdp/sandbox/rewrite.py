"""Tests rewritten by syntax tree, so that every assert counts on its own, in loops too."""

from __future__ import annotations

import ast
from typing import Any

NOTE_LENGTH = 200


class AssertCounter(ast.NodeTransformer):
    """Turns every `assert X` into a counted case; drops asserts of a true constant.

    The case is `try: __case__(X, source)  except __caught__ as __error__: __failed__(__error__, source)` after
    `__start__()`, which gives it its own CPU allowance. X stays where it was, so names bound in it are seen later.
    """

    def __init__(self) -> None:
        self.count = 0

    def visit_Assert(self, node: ast.Assert) -> Any:
        """Rewrite one assert."""
        if isinstance(node.test, ast.Constant) and node.test.value:
            return ast.copy_location(ast.Pass(), node)
        self.count += 1
        source = ast.Constant(ast.unparse(node.test)[:NOTE_LENGTH])
        case = ast.Expr(ast.Call(ast.Name("__case__", ast.Load()), [node.test, source], []))
        failed = ast.parse(f"__failed__(__error__, {source.value!r})").body
        caught = ast.ExceptHandler(ast.Name("__caught__", ast.Load()), "__error__", failed)
        start = ast.parse("__start__()").body
        return ast.copy_location(ast.Try([*start, case], [caught], [], []), node)


def rewrite_check(source: str) -> tuple[ast.Module, int]:
    """The test module with counted asserts, and how many asserts it holds.

    Statements of a function body that are no asserts are guarded too, and so is each round of a `for` loop: when one
    raises, that is one failed case, and what comes after it still runs. Functions without an assert are helpers of the
    tests, and what they raise goes to those who call them.
    """
    counter = AssertCounter()
    tree = ast.parse(source)
    helpers = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and not _holds_assert(node)]
    within = {node for helper in helpers for node in ast.walk(helper)}
    tree = counter.visit(tree)
    for node in ast.walk(tree):
        if node in within:
            continue
        if isinstance(node, ast.FunctionDef):
            node.body = [_guarded([statement]) for statement in node.body]
        elif isinstance(node, ast.For):
            node.body = [_guarded(node.body)]
    return ast.fix_missing_locations(tree), counter.count


def _holds_assert(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Assert) for node in ast.walk(function))


def _guarded(block: list[ast.stmt]) -> ast.stmt:
    first = block[0]
    if len(block) == 1 and isinstance(
        first, (ast.FunctionDef, ast.Import, ast.ImportFrom, ast.Pass, ast.Return, ast.Try)
    ):
        return first
    text = ast.unparse(first).splitlines()[0][:NOTE_LENGTH]
    failed = ast.parse(f"__broken__(__error__, {text!r})").body
    handler = ast.ExceptHandler(type=ast.Name("Exception", ast.Load()), name="__error__", body=failed)
    return ast.Try(body=block, handlers=[handler], orelse=[], finalbody=[])
