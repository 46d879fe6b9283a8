"""Rows of classes: this suite's own rows from a text file, and published rows converted to the same fields.

A row has the fields in `REQUIRED`. `solution` is a module that defines the class. Methods of the class that are not in
`methods`, such as the constructor, are given to all authors. `data/classeval.txt` has this suite's rows:

    === name
    source of the class
    ---
    new: statements that every test begins with
    method: statements; left == right            a test of a method; every comparison of a line is an assert
    method: expression raises ValueError
    class: ...                                   a test of the whole class
"""

from __future__ import annotations

import ast
import functools
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, cast

from llm_dec_pomdp.envs import Row, TaskError
from llm_dec_pomdp.types import TaskItem

_DATA = resources.files("llm_dec_pomdp.contrib.software") / "data"
REQUIRED = ("prompt", "class_name", "solution", "test", "methods")
TEST_EVERY = 4  # every fourth of this suite's own rows is a test row
WHOLE = "class"  # label of tests of the whole class, not of one method
_RAISES = re.compile(r"^(.*) raises (\w+)$")


# --- own rows ---------------------------------------------------------------------------------------------------------


@functools.cache
def own_rows() -> tuple[TaskItem, ...]:
    """Return the embedded classes."""
    text = (_DATA / "classeval.txt").read_text(encoding="utf-8")
    sections = re.split(r"^=== .*\n", text, flags=re.MULTILINE)[1:]
    return tuple(_own_row(number, *section.split("\n---\n")) for number, section in enumerate(sections, 1))


@functools.cache
def candidates() -> Mapping[str, Sequence[Mapping[str, str]]]:
    """Return the candidates of each class from `data/class_candidates.jsonl`.

    The keys are row ids. The value has, for each author, the versions of its methods by kind:

    | kind | methods |
    |---|---|
    | gold | the solution, which calls the methods of teammates |
    | off by one | the solution with one change, so that one of its tests fails and another passes |
    | stub | return None |
    | other signature | have one parameter more than in the solution |
    | alone | do the work of the teammates themselves |
    | fallback | call the methods of teammates, and do their work if these raise an error |

    The kinds gold, alone and fallback pass all tests with the solutions of the teammates.
    `scripts/build_class_candidates.py` keeps the classes that have all kinds for both of two authors.
    """
    text = (_DATA / "class_candidates.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    return {row["id"]: row["authors"] for row in rows}


def _own_row(number: int, source: str, tests: str) -> TaskItem:
    name = re.search(r"^class (\w+)", source, re.MULTILINE)
    assert name is not None
    lines = [line.partition(": ")[::2] for line in tests.splitlines()]
    setup = next(code for method, code in lines if method == "new")
    by_method: dict[str, list[str]] = {}
    for method, code in lines:
        if method != "new":
            by_method.setdefault(method, []).append(f"{setup}; {code}")
    named = {method: f"{name[1]}Test{_capital(method)}" for method in by_method}
    fields = {
        "class_name": name[1],
        "solution": source,
        "test": "import unittest\n" + "".join(_test_class(named[m], by_method[m]) for m in by_method),
        "methods": json.dumps({m: named[m] for m in by_method if m != WHOLE}),
    }
    split = "test" if number % TEST_EVERY == 0 else "train"
    return TaskItem(f"class-{number:02d}", skeleton(source, name[1], by_method), split, fields=fields)


def _capital(method: str) -> str:
    return "".join(word.capitalize() for word in method.split("_"))


def _test_class(name: str, cases: Sequence[str]) -> str:
    tests = [_test(number, case) for number, case in enumerate(cases, 1)]
    return f"\n\nclass {name}(unittest.TestCase):\n" + textwrap.indent("\n".join(tests), "    ")


def _test(number: int, case: str) -> str:
    found = _RAISES.match(case)
    *before, last = ast.parse(found[1] if found else case).body
    lines = [_asserted(statement) for statement in before]
    if found:
        lines += [f"with self.assertRaises({found[2]}):", f"    {ast.unparse(last)}"]
    else:
        lines.append(_asserted(last))
    return f"def test_{number}(self):\n" + textwrap.indent("\n".join(lines), "    ") + "\n"


def _asserted(statement: ast.stmt) -> str:
    match statement:
        case ast.Expr(value=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            return f"self.assertEqual({ast.unparse(left)}, {ast.unparse(right)})"
        case _:
            return ast.unparse(statement)


def skeleton(source: str, class_name: str, methods: Sequence[str] | Mapping[str, Any]) -> str:
    """Return the source without the bodies of these methods; docstrings are kept."""
    tree = ast.parse(source)
    for method in methods_of(tree, class_name):
        if method.name in methods:
            method.body = method.body[:1] if ast.get_docstring(method) else [ast.Expr(ast.Constant(...))]
    return ast.unparse(tree)


def methods_of(tree: ast.Module, class_name: str) -> list[ast.FunctionDef]:
    """Return the methods of a class of a module."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name]
    return [node for found in classes for node in found.body if isinstance(node, ast.FunctionDef)]


# --- published rows ---------------------------------------------------------------------------------------------------


def converted(row: Row) -> Row:
    """Convert a row of ClassEval to the fields in `REQUIRED`; return other rows unchanged.

    Raises:
        TaskError: The solution has no class of the given name with methods.
    """
    if "methods_info" not in row:
        return row
    name = str(row["class_name"])
    solution, skeleton_text = str(row["solution_code"]), str(row["skeleton"])
    known = {method.name for method in methods_of(ast.parse(solution), name)}
    if not known:
        raise TaskError(f"field 'solution_code': has no class {name!r} with methods; correct or remove the row")
    methods: dict[str, str] = {}
    for info in cast("Sequence[Row]", row["methods_info"]):
        methods[str(info["method_name"])] = str(info["test_class"])
    imports = "\n".join(str(line) for line in cast("Sequence[Any]", row["import_statement"]))
    test = str(row["test"])
    if row["task_id"] in BY_THE_SECOND:
        test = _EARLY + test.replace("(unittest.TestCase)", "(Early)")
    return {
        "task_id": row["task_id"],
        **({"split": row["split"]} if "split" in row else {}),
        "prompt": re.sub("[\u201c\u201d]{3}", '"""', skeleton_text),
        "class_name": name,
        "solution": solution,
        "test": f"{imports}\n{test}",
        "methods": json.dumps({method: test for method, test in methods.items() if method in known}),
    }


AUDIT: Mapping[str, str] = {
    "ClassEval_0": "has no test that methods which all return True, or all False, do not pass as well",
    "ClassEval_5": "has a skeleton without a class",
    "ClassEval_17": "expects an event of 2 January 2024 to be upcoming, which it was when the row was written",
    "ClassEval_22": "has a skeleton that does not parse: a docstring has no end",
    "ClassEval_48": "expects the host name of its author's machine, LAPTOP-2CS86KUM",
    "ClassEval_50": "expects that a read-only file cannot be written, which root can, and changes its mode for that",
}
"""Published rows that are left out, with the reason."""

SLOW = frozenset({"ClassEval_35"})  # published rows with a test that takes some seconds
BY_THE_SECOND = frozenset({"ClassEval_20", "ClassEval_36"})  # published rows whose tests compare times of day
_EARLY = """
import time
import unittest

class Early(unittest.TestCase):
    def setUp(self):
        left = 1 - time.time() % 1
        time.sleep(left if left < 0.5 else 0)

"""  # start in the first half of a second, so that the test and the class read the same second


def left_out(item: TaskItem) -> str:
    """Return why a published row is left out; "" if it is used."""
    if item.id in AUDIT:
        return AUDIT[item.id]
    libraries = sorted(_imported(item) - standard_library())
    return f"needs {', '.join(libraries)}" if libraries else ""


def _imported(item: TaskItem) -> set[str]:
    found: set[str] = set()
    for node in _nodes(item.fields["solution"], item.fields["test"]):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def _nodes(*sources: str) -> Iterator[ast.AST]:
    for source in sources:
        yield from ast.walk(ast.parse(source))


def standard_library() -> frozenset[str]:
    """Return the names of the modules of the standard library."""
    import sys

    return frozenset(sys.stdlib_module_names)
