"""Pairs of functions in which the two agents do not share the work: data for `scripts/degenerate.py`.

A strategy makes the texts of aux and main from the reference pair of a row. Most of them pass all tests.
"""

from __future__ import annotations

import ast
import doctest
from collections.abc import Callable, Mapping

from llm_dec_pomdp.envs.coding import analysis
from llm_dec_pomdp.types import TaskItem

Pair = tuple[str, str]
Strategy = Callable[[TaskItem], Pair]
TOKEN = "sum(map(ord, repr(given))) % 97"
READ = "__import__('ast').literal_eval"
STUB = "def aux(*given):\n    return None\n"


# --- functions made from a reference pair -----------------------------------------------------------------------------


def definition(text: str) -> ast.FunctionDef:
    return next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))


def renamed(text: str, old: str, new: str) -> ast.FunctionDef:
    """Return a function in which a name, which may be its own, is another one."""
    function = definition(text)
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new
    function.name = new if function.name == old else function.name
    return function


def arguments(item: TaskItem) -> str:
    return ", ".join(argument.arg for argument in definition(item.reference[1]).args.args)


def main(item: TaskItem, *lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines).replace("ARGS", arguments(item))
    return f"def {item.fields['entry_point']}({arguments(item)}):\n{body}"


def alone(item: TaskItem, *first: str) -> str:
    """Return a main function that solves the problem after some lines; the reference helper is an inner function."""
    helper, function = renamed(item.reference[0], "aux", "_own"), renamed(item.reference[1], "aux", "_own")
    before = ast.parse("\n".join(first).replace("ARGS", arguments(item))).body
    function.body = [*before, helper, *analysis.without_docstring(function.body)]
    return ast.unparse(ast.fix_missing_locations(function)) + "\n"


def solver(item: TaskItem, value: str = "_solve(*given)") -> str:
    """Return a helper that solves the problem by an inner function `_solve` and returns `value`."""
    inner = ast.unparse(renamed(alone(item), item.fields["entry_point"], "_solve"))
    return "def aux(*given):\n" + "".join(f"    {line}\n" for line in inner.splitlines()) + f"    return {value}\n"


def shown_answers(item: TaskItem) -> dict[str, object]:
    """Return the answers of the doctests in a problem's text, by the arguments as text."""
    found: dict[str, object] = {}
    for example in doctest.DocTestParser().get_examples(item.prompt):
        call = ast.parse(example.source.strip()).body[0]
        if isinstance(call, ast.Expr) and isinstance(call.value, ast.Call):
            values = tuple(ast.literal_eval(argument) for argument in call.value.args)
            found[repr(values)] = ast.literal_eval(example.want.replace('"""', "").strip() or "None")
    return found


# --- strategies -------------------------------------------------------------------------------------------------------


def asked(aux: str, *lines: str) -> Strategy:
    """Aux returns an expression of its arguments `given`, and main solves the problem after some lines."""
    return lambda item: (f"def aux(*given):\n    return {aux}\n", alone(item, "given = (ARGS,)", *lines))


def both(aux: str, *lines: str) -> Strategy:
    """Aux returns an expression of its solution, and main has the solution in `_whole`."""

    def strategy(item: TaskItem) -> Pair:
        name = item.fields["entry_point"]
        inner = alone(item).replace(f"def {name}(", "def _whole(", 1).replace(f"{name}(", "_whole(")
        return solver(item, aux), main(item, *inner.rstrip().split("\n"), *lines)

    return strategy


NOBODY_SOLVES: Mapping[str, Strategy] = {
    "empty texts": lambda i: ("", ""),
    "two stubs": lambda i: (STUB, main(i, "return aux(ARGS)")),
    "one shown answer for all": lambda i: (
        STUB,
        main(i, "aux(ARGS)", f"return {next(iter(shown_answers(i).values()), True)!r}"),
    ),
    "table of the shown answers": lambda i: (
        f"def aux(*given):\n    return {shown_answers(i)!r}.get(repr(given))\n",
        main(i, "found = aux(ARGS)", "return None if found is None else found"),
    ),
}
MAIN_SOLVES: Mapping[str, Strategy] = {
    "aux is not called": lambda i: (i.reference[0], alone(i)),
    "the value of aux is dropped": asked("len(given)", "aux(ARGS)"),
    "the value of aux is only looked at": asked("len(given)", "hint = aux(ARGS)", "if hint is None: hint = 0"),
    "errors of aux are ignored": lambda i: (i.reference[0], alone(i, "try: aux(ARGS)", "except Exception: pass")),
    "main falls back on itself": both(
        "_solve(*given)", "said = aux(ARGS)", "return _whole(ARGS) if said is None else said"
    ),
    "aux returns its arguments": asked("given", "ARGS, = aux(ARGS)"),
    "aux returns its arguments and their number": asked("[*given, len(given)]", "ARGS, _ = aux(ARGS)"),
    "main checks a constant": asked("7", "if aux() != 7: return None"),
    "main checks a token": asked(TOKEN, f"if aux(ARGS) != {TOKEN}: return None"),
    "main checks a token after 16 calls": asked(
        TOKEN, "for _ in range(16): aux(0)", f"if aux(ARGS) != {TOKEN}: return None"
    ),
    "main checks a token by a loop that does not run": asked(
        TOKEN, f"for _ in range(min(aux(ARGS), {TOKEN}), {TOKEN}): return None"
    ),
    "main checks a token by a pattern": asked(
        TOKEN, "match aux(ARGS):", f"    case said if said != {TOKEN}: return None"
    ),
    "main adds a difference that is 0": both(
        TOKEN, "given = (ARGS,)", "zero, answer = aux(ARGS) - (" + TOKEN + "), _whole(ARGS)", "return [answer][zero]"
    ),
}
AUX_SOLVES: Mapping[str, Strategy] = {
    "thin wrapper": lambda i: (solver(i), main(i, "return aux(ARGS)")),
    "wrapper with a check": lambda i: (
        solver(i),
        main(i, "answer = aux(ARGS)", "if answer is None: return None", "return answer"),
    ),
    "wrapper that opens a list": lambda i: (
        solver(i, "[_solve(*given)]"),
        main(i, "answer, = aux(ARGS)", "return answer"),
    ),
    "answer as text backwards": lambda i: (
        solver(i, "repr(_solve(*given))[::-1]"),
        main(i, f"return {READ}(aux(ARGS)[::-1])"),
    ),
    "answer letter by letter": lambda i: (
        solver(i, "repr(_solve(*given[1:]))[given[0]:given[0] + 1]"),
        main(i, "text = ''", "while aux(len(text), ARGS): text += aux(len(text), ARGS)", f"return {READ}(text)"),
    ),
}
BOTH_SOLVE: Mapping[str, Strategy] = {
    "main returns what both agree on": both(
        "_solve(*given)", "said, mine = aux(ARGS), _whole(ARGS)", "return mine if said == mine else None"
    ),
    "each answers half of the tests": both(
        "_solve(*given)", "if len(repr((ARGS,))) % 2: return _whole(ARGS)", "return aux(ARGS)"
    ),
    "each gives every second letter": both(
        "repr(_solve(*given))[::2]",
        "said, mine = aux(ARGS), repr(_whole(ARGS))[1::2]",
        f"return {READ}(''.join(a + b for a, b in zip(said, mine + ' ')))",
    ),
}
GROUPS = {"nobody": NOBODY_SOLVES, "main": MAIN_SOLVES, "aux": AUX_SOLVES, "both": BOTH_SOLVE}
PAIRS: Mapping[str, Strategy] = {
    f"{group}: {name}": strategy for group, pairs in GROUPS.items() for name, strategy in pairs.items()
}
