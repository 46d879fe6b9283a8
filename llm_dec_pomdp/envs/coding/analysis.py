"""Analysis of generated code by its syntax tree, without running it.

Generated text contains prose, fences and other functions. `find_function` extracts the requested function. If no
definition parses, it returns one that does not, because a definition with a syntax error still counts as a definition.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from .. import fences, parsing

MAX_SOURCE = 50_000  # characters; longer sources are not parsed, which would be slow
_LEAST_TRIES, _MOST_TRIES = 4, 40  # ends of a function to try: a line at column 0 may be inside a string
_TRIED = 300_000  # characters; of longer texts fewer ends are tried
_MOST_DRAFTS = 5  # definitions of one name that are tried in a piece of a text


def parse(source: str) -> ast.Module | None:
    """Return the syntax tree of a module; None if the source does not parse."""
    tree = _parsed(source)
    return tree if isinstance(tree, ast.Module) else None


def parse_expression(source: str) -> ast.expr | None:
    """Return the syntax tree of an expression; None if the source does not parse."""
    try:
        return parsing.expression(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def syntax_error(source: str) -> str:
    """Return where and why a source does not parse, e.g. "line 2: '(' was never closed"; "" if it parses."""
    tree = _parsed(source)
    return tree if isinstance(tree, str) else ""


def _parsed(source: str) -> ast.Module | str:
    """Return the syntax tree, or the error as text."""
    if len(source) > MAX_SOURCE:
        return f"{len(source)} characters are more than the {MAX_SOURCE} that are read"
    try:
        return parsing.module(source)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"


def find_function(text: str, name: str) -> str:
    """Return the source of a function called `name` in `text`, dedented; "" if there is none.

    Of several definitions the first in this order is returned:

    1. a definition in the whole text, if the whole text parses;
    2. a definition in a fenced block that parses (`envs.fences`);
    3. a definition that parses by itself, in a fenced block or else in prose;
    4. a definition that does not parse, in a fenced block or else in prose.
    """
    text = text[: 4 * MAX_SOURCE]
    pieces = [*fences.blocks(text, lambda block: parse(block) is not None), text]
    trees = {piece: tree for piece in (text, *pieces) if (tree := parse(piece)) is not None}
    tries = max(_LEAST_TRIES, min(_MOST_TRIES, _TRIED // (len(text) + 1)))
    broken = ""
    for piece in dict.fromkeys([*trees, *pieces]):
        for function in _functions_in(piece, name, trees.get(piece), tries):
            if parse(function) is not None:
                return function
            broken = broken or function
    return broken


def _functions_in(text: str, name: str, tree: ast.Module | None, tries: int) -> Iterator[str]:
    """Yield the definitions of a name in order; with a syntax tree, definitions inside strings are skipped."""
    lines = re.split(r"\r\n|\r|\n", text)
    opening = re.compile(rf"^(\s*)(async\s+)?def\s+{re.escape(name)}\s*\(")
    starts = [number for number, line in enumerate(lines) if opening.match(line)]
    if tree is not None:
        defined = {
            node.lineno - 1 for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        starts = [number for number in starts if number in defined]
    for start in starts[:_MOST_DRAFTS]:
        yield _function_at(lines, start, tries)


def _function_at(lines: Sequence[str], start: int, tries: int) -> str:
    """Return the function that begins at a line, up to the first end at which it parses."""
    indent = _indent(lines[start])
    tops = [i for i in range(start + 1, len(lines)) if _ends_block(lines[i], indent)] + [len(lines)]
    for end in tops[:tries]:
        block = textwrap.dedent("\n".join(lines[start:end])).strip() + "\n"
        if parse(block) is not None:
            return block
    end = next((i for i in tops if i == len(lines) or not lines[i].lstrip().startswith(")")), tops[-1])
    return textwrap.dedent("\n".join(lines[start:end])).strip() + "\n"


def _ends_block(line: str, indent: int) -> bool:
    """Return True for code or prose that is not indented more than the `def`; comments do not end a block."""
    return not line.lstrip().startswith("#") and bool(line.strip()) and _indent(line) <= indent


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


def has_return(function: str) -> bool:
    """Return True if the function has a return statement or, if it does not parse, the word "return"."""
    tree = parse(function)
    if tree is None:
        return re.search(r"\breturn\b", function) is not None
    return any(isinstance(node, ast.Return) for node in ast.walk(tree))


@dataclass(frozen=True, slots=True)
class Cooperation:
    """The use of the helper by a main function."""

    calls: bool  # main calls the helper
    wraps: bool  # the body only returns `aux(...)`, directly or by an assignment to a name
    drops: bool  # `aux(...)` is a statement somewhere, so that its value is dropped


def cooperation(main: str, helper: str = "aux") -> Cooperation:
    """Analyse a main function that parses."""
    tree = parse(main)
    statements = tree.body if tree else []
    function = next((node for node in statements if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))), None)
    if function is None:
        return Cooperation(calls=False, wraps=False, drops=False)

    def calls_helper(node: ast.AST | None) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == helper

    nodes = list(ast.walk(function))
    return Cooperation(
        calls=any(calls_helper(node) for node in nodes),
        wraps=_is_wrapper(without_docstring(function.body), calls_helper),
        drops=any(isinstance(node, ast.Expr) and calls_helper(node.value) for node in nodes),
    )


def _is_wrapper(body: list[ast.stmt], calls_helper: Callable[[ast.AST | None], bool]) -> bool:
    match body:
        case [ast.Return(value=value)]:
            return calls_helper(value)
        case [ast.Assign(targets=[ast.Name(id=name)], value=value), ast.Return(value=ast.Name(id=returned))]:
            return name == returned and calls_helper(value)
        case [ast.AnnAssign(target=ast.Name(id=name), value=value), ast.Return(value=ast.Name(id=returned))]:
            return name == returned and calls_helper(value)
        case _:
            return False


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a function after its docstring."""
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case _:
            return body


def unusable_tests(test: str) -> str:
    """Return why no program can pass these tests; "" if one may."""
    tree = _parsed(test)
    if isinstance(tree, str):
        return f"does not parse ({tree})"
    if not any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body):
        return "has no function `check(candidate)`; add one, which is called with the solution"
    asserts = [node.test for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    if not asserts:
        return "has no assert, so that nothing can be counted"
    if all(isinstance(claim, ast.Constant) and claim.value for claim in asserts):
        return f"has no assert that can fail: each asserts a constant, such as `assert {ast.unparse(asserts[0])}`"
    return ""


def prelude(prompt: str, entry_point: str) -> str:
    """Return the imports and helper functions of a problem, without its unfinished entry point."""
    tree = parse(prompt) or parse(prompt.rstrip() + "\n    pass\n")
    if tree is None:
        return "\n".join(line for line in prompt.splitlines() if re.match(r"(import|from)\s", line) and parse(line))
    kept = [node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name == entry_point)]
    return "\n".join(ast.unparse(node) for node in kept)
