"""Programs built from the reference pair of a row: one function that solves everything, main functions, tables."""

from __future__ import annotations

import ast
import doctest

from llm_dec_pomdp.envs.coding import analysis
from llm_dec_pomdp.types import TaskItem


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
