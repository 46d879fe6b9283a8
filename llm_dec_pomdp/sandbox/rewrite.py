"""Rewriting of tests by their syntax trees: each assert counts, even in loops; method calls become one step."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass, field
from types import CodeType

NOTE_LENGTH = 200
KEPT = 64  # cached modules of tests
_QUIET = (
    ast.Constant, ast.Name, ast.expr_context, ast.keyword, ast.Lambda, ast.arguments, ast.arg,
    ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.unaryop,
)  # fmt: skip
_UNGUARDED = (ast.FunctionDef, ast.Import, ast.ImportFrom, ast.Pass, ast.Return, ast.Try)


@dataclass(slots=True)
class CountedTests:
    """Tests with counted asserts.

    Attributes:
        tree: The module to execute; it calls `__start__`, `__case__`, `__failed__` and `__broke__` with numbers.
        asserts: Source of each counted assert, in order.
        statements: Each guarded statement (of a round of a loop the first one), and the numbers of the asserts within.
        loops: For each guarded statement the numbers of the asserts in loops that an error ends.
        inner: Numbers of asserts in other functions than `check`, which may run any number of times.
    """

    tree: ast.Module
    asserts: list[ast.expr] = field(default_factory=list[ast.expr])
    statements: list[tuple[ast.stmt, range]] = field(default_factory=list[tuple[ast.stmt, range]])
    loops: list[frozenset[int]] = field(default_factory=list[frozenset[int]])
    inner: set[int] = field(default_factory=set[int])

    @property
    def only_mark_errors(self) -> bool:
        """Whether all asserts have constants, like an `assert False` that only a wrong program reaches."""
        return not any(isinstance(node, ast.Name) for claim in self.asserts for node in ast.walk(claim))

    def claim(self, number: int) -> str:
        """Return the source of an assert, for a note."""
        return ast.unparse(self.asserts[number])[:NOTE_LENGTH]

    def first_line(self, number: int) -> str:
        """Return the first line of a guarded statement, for a note."""
        return ast.unparse(self.statements[number][0]).splitlines()[0][:NOTE_LENGTH]


@functools.lru_cache(maxsize=KEPT)
def rewrite_check(source: str) -> CountedTests:
    """Return the test module with counted asserts, cached for the next program of its task.

    An assert of a true constant is dropped. Other statements of a function body are guarded, too, and so is each round
    of a `for` loop: if one raises, the following ones still run. An error in a `while`, or in the iterable of a `for`,
    ends the loop. Functions without an assert are helpers of the tests; their exceptions reach their callers.
    """
    tests = CountedTests(ast.parse(source))
    _Rewriter(tests).visit(tests.tree)
    ast.fix_missing_locations(tests.tree)
    return tests


class _Rewriter(ast.NodeTransformer):
    """A transformer of asserts.

    `assert X` becomes `try: __case__(__start__(), X, number)  except __caught__ as __error__: __failed__(...)`.
    `__start__` sets the CPU limit of the case. X stays in its place, so names bound in it exist afterwards.
    """

    def __init__(self, tests: CountedTests) -> None:
        self._tests = tests
        self._functions = 0
        self._looped: set[int] = set()  # asserts in loops of the current block

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Rewrite one assert."""
        if isinstance(node.test, ast.Constant) and node.test.value:
            return ast.copy_location(ast.Pass(), node)
        number = len(self._tests.asserts)
        self._tests.asserts.append(node.test)
        case = _call("__case__", _call("__start__").value, node.test, ast.Constant(number))
        return ast.copy_location(ast.Try([case], [_handler("__caught__", "__failed__", number)], [], []), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        """Guard the statements of a function with asserts."""
        if not any(isinstance(inside, ast.Assert) for inside in ast.walk(node)):
            return node
        first = len(self._tests.asserts)
        self._functions += 1
        node.body = [self._guarded([statement]) for statement in node.body]
        self._functions -= 1
        if self._functions or node.name != "check":
            self._tests.inner.update(range(first, len(self._tests.asserts)))
        return node

    def visit_For(self, node: ast.For) -> ast.stmt:
        """Guard the rounds of a loop."""
        first = len(self._tests.asserts)
        node.body = [self._guarded(node.body)]
        self._looped.update(range(first, len(self._tests.asserts)))
        node.orelse = self._visited(node.orelse)
        return node

    def visit_While(self, node: ast.While) -> ast.stmt:
        """Guard a `while` as a whole: the next round may depend on this one, so an error ends the loop."""
        first = len(self._tests.asserts)
        node.body = self._visited(node.body)
        self._looped.update(range(first, len(self._tests.asserts)))
        node.orelse = self._visited(node.orelse)
        return node

    def _visited(self, block: list[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(statement) for statement in block]

    def _guarded(self, block: list[ast.stmt]) -> ast.stmt:
        first, before = block[0], len(self._tests.asserts)
        outside, self._looped = self._looped, set()
        block = self._visited(block)
        looped, self._looped = frozenset(self._looped), outside | self._looped
        if len(block) == 1 and isinstance(block[0], _UNGUARDED):
            return block[0]
        self._tests.statements.append((first, range(before, len(self._tests.asserts))))
        self._tests.loops.append(looped)
        handler = _handler("BaseException", "__broke__", len(self._tests.statements) - 1)
        return ast.Try(block, [handler], [], [])


def _call(name: str, *arguments: ast.expr) -> ast.Expr:
    return ast.Expr(ast.Call(ast.Name(name, ast.Load()), list(arguments), []))


def _handler(caught: str, passed: str, number: int) -> ast.ExceptHandler:
    tell = _call(passed, ast.Name("__error__", ast.Load()), ast.Constant(number))
    return ast.ExceptHandler(ast.Name(caught, ast.Load()), "__error__", [tell])


@functools.lru_cache(maxsize=KEPT)
def counted_code(source: str) -> CodeType:
    """Return the code of the test module with counted asserts."""
    return compile(rewrite_check(source).tree, "<tests>", "exec", dont_inherit=True)


@functools.lru_cache(maxsize=KEPT)
def joined_code(source: str) -> CodeType:
    """Return the code of a module with `__method__(x, "name")(...)` for `x.name(...)`: get and call in one step.

    Only calls with arguments without side effects are rewritten, so that the order of evaluation does not matter.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(owner, name) as asked) if not name.startswith("__") and _quiet(node):
                method, text = ast.Name("__method__", ast.Load()), ast.Constant(name)
                node.func = ast.Call(method, [owner, text], [])
                for new in (node.func, method, text):
                    ast.copy_location(new, asked)
            case _:
                pass
    return compile(tree, "<tests>", "exec", dont_inherit=True)


def _quiet(node: ast.Call) -> bool:
    parts = (part for given in (*node.args, *node.keywords) for part in ast.walk(given))
    return all(isinstance(part, _QUIET) for part in parts)
