"""Packages of `modules-v0`: their embedded rows, and the parts of a solution that authors observe.

`scripts/build_packages.py` generates the rows and describes the packages.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from importlib import resources

from llm_dec_pomdp.types import TaskItem

TOGETHER = "TestTogether"  # the class of tests across modules


@functools.cache
def own_rows(name: str) -> tuple[TaskItem, ...]:
    """Return the rows of `data/NAME.jsonl`."""
    text = (resources.files("llm_dec_pomdp.contrib.software") / "data" / f"{name}.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    return tuple(
        TaskItem(row.pop("id"), row.pop("prompt"), row.pop("split"), tuple(row.pop("reference", ())), row)
        for row in rows
    )


def class_of(module: str) -> str:
    """Return the name of the test class of a module."""
    return f"Test{module.capitalize()}"


@functools.lru_cache(maxsize=512)
def unpacked(text: str) -> tuple[tuple[str, str], ...]:
    """Return the (path, source) pairs of a packed solution, in order; a line `# file: path` precedes each source."""
    parts = ("\n" + text).split("\n# file: ")[1:]
    return tuple((part.partition("\n")[0].strip(), part.partition("\n")[2].strip() + "\n") for part in parts)


def specification(source: str) -> str:
    """Return the source without bodies: imports, signatures and docstrings."""
    return re.sub(r"\n    \.\.\.$", "", ast.unparse(emptied(source, ast.Expr(ast.Constant(...)))), flags=re.MULTILINE)


def interface(source: str) -> str:
    """Return the signatures of the functions of a source, each with the first sentence of its docstring."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        [first, *_] = re.split(r"(?<=[.])\s", ast.get_docstring(function) or "")
        function.body = [ast.Expr(ast.Constant(first))]
    return "\n\n".join(map(ast.unparse, functions))


def stub(source: str) -> str:
    """Return the source with bodies that raise NotImplementedError."""
    return ast.unparse(emptied(source, ast.parse("raise NotImplementedError").body[0]))


def emptied(source: str, last: ast.stmt) -> ast.Module:
    """Return the source with one statement as the body of each function, below its docstring."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            node.body = [*node.body[:1], last]
    return tree
