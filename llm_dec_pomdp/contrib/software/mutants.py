"""Mutations of a module of an embedded package: the candidates of `modules-v0`, among which authors choose.

| kind | module |
|---|---|
| gold | the solution, which calls the functions of teammates |
| off by one | the solution with one change, so that one of its tests fails and another passes |
| stub | its functions return None |
| other signature | its first function has one more parameter |
| alone | does the work of the teammates itself |
| fallback | calls the functions of teammates, and does their work if these raise an error |
| raises, renamed | replace the last two if the module imports none: functions that raise an error; other names |

The kinds gold, alone and fallback pass all tests with the solutions of the teammates.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping

from llm_dec_pomdp.envs.coding import analysis

from .packages import emptied, stub, unpacked

# for each module the text that "off by one" replaces, and the new text
_OFF: Mapping[str, tuple[str, str]] = {
    "reader": ("int(parts[2])", "int(parts[2]) + 1"),
    "rates": ("* -(-", "* ("),
    "checks": ("* rates.rate", "* -rates.rate"),
    "pricing": ("+ rates.fee", "- rates.fee"),
    "desk": ('return item["', 'return "the " + item["'),
    "labels": ('+ "/" +', '+ "-" +'),
    "batches": (" if line.strip()]", "]"),
    "totals": (", 0) +", ", 1) +"),
    "report": ("sum(sums.values())", "sum(sums.values()) + 1"),
}


@functools.lru_cache(maxsize=4096)
def of_module(solution: str, place: int) -> Mapping[str, str]:
    """Return the six candidates of a module by kind.

    Args:
        solution: The packed solution of an embedded package.
        place: The number of the module in it, from 0.
    """
    sources = {path.rpartition("/")[2].removesuffix(".py"): source for path, source in unpacked(solution)}
    module, gold = list(sources.items())[place]
    before, after = _OFF[module]
    found = {
        "gold": gold,
        "off by one": gold.replace(before, after, 1),
        "stub": ast.unparse(emptied(gold, ast.parse("return None").body[0])),
        "other signature": re.sub(r"^(def \w+\([^)]*)\)", r"\1, context)", gold, count=1, flags=re.MULTILINE),
    }
    if any(isinstance(node, ast.ImportFrom) for node in ast.parse(gold).body):
        found |= {"alone": _by_itself(sources, module, ask=False), "fallback": _by_itself(sources, module, ask=True)}
    else:
        found |= {"raises": stub(gold), "renamed": re.sub(r"^def (\w+)", r"def \1_", gold, flags=re.MULTILINE)}
    return {kind: _plain(source) for kind, source in found.items()}


def _plain(source: str) -> str:
    """Return the source without docstrings, formatted in the same way for all candidates."""
    tree = ast.parse(source)
    tree.body = analysis.without_docstring(tree.body)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            node.body = analysis.without_docstring(node.body)
    return ast.unparse(tree) + "\n"


def _by_itself(sources: Mapping[str, str], module: str, *, ask: bool) -> str:
    """Return the module with copies of the teammates' functions that it needs.

    Args:
        sources: The source of each module, by name.
        module: The name of the module.
        ask: Call the teammate's function first, and its copy only if the call raises an error.
    """
    rest = ast.parse(sources[module]).body
    imports = [node for node in rest if isinstance(node, ast.ImportFrom)]
    needed = _Calls(sources, "")
    mine = [needed.visit(node) for node in rest if isinstance(node, ast.FunctionDef)]
    copies: dict[tuple[str, str], list[ast.stmt]] = {}
    while missing := sorted(needed.found - copies.keys()):
        owner, name = missing[0]
        functions = [node for node in ast.parse(sources[owner]).body if isinstance(node, ast.FunctionDef)]
        [copied] = [node for node in functions if node.name == name]
        calls = _Calls(sources, owner)
        calls.visit(copied)
        needed.found |= calls.found
        copied.name = f"{owner}_{name}"
        copies[owner, name] = [copied]
        if ask and owner in {alias.name for node in imports for alias in node.names}:
            copied.name = f"own_{owner}_{name}"
            copies[owner, name] += ast.parse(
                f"def {owner}_{name}(*given):\n    try:\n        return {owner}.{name}(*given)\n"
                f"    except Exception:\n        return own_{owner}_{name}(*given)\n"
            ).body
    body = [*(imports if ask else []), *(node for part in copies.values() for node in part), *mine]
    return ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))


class _Calls(ast.NodeTransformer):
    """Transformer that replaces calls of other modules by calls of copies: `reader.parse(a)` by `reader_parse(a)`.

    Args:
        sources: The source of each module, by name.
        module: The module whose own functions are renamed too; "" for none.
    """

    def __init__(self, sources: Mapping[str, str], module: str) -> None:
        self.modules, self.module = sources.keys(), module
        functions = ast.parse(sources[module]).body if module else []
        self.mine = {node.name for node in functions if isinstance(node, ast.FunctionDef)}
        self.found: set[tuple[str, str]] = set()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Rename the called function, and record it in `found`."""
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in self.modules:
                called = owner, name
            case ast.Name(id=name) if name in self.mine:
                called = self.module, name
            case _:
                return node
        self.found.add(called)
        return ast.Call(ast.Name("_".join(called), ast.Load()), node.args, node.keywords)
