"""Write `class_candidates.jsonl` of contrib/software/data: candidate methods of embedded classes, run in the sandbox.

    python scripts/build_class_candidates.py

`contrib.software.classes.candidates` lists the kinds. A class is left out if a kind cannot be made for both authors.
"""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Mapping
from pathlib import Path

from build_candidates import off_by_one

from llm_dec_pomdp.contrib.software.classeval import ClassEval
from llm_dec_pomdp.contrib.software.program import Spec, dealt, gold_of, key_of, spec_of
from llm_dec_pomdp.contrib.software.reward import job
from llm_dec_pomdp.sandbox import SandboxPool, Verdict

FILE = Path(__file__).parent.parent / "llm_dec_pomdp" / "contrib" / "software" / "data" / "class_candidates.jsonl"
Bodies = Mapping[str, str]


def parsed(source: str) -> ast.FunctionDef:
    """Return the function of a source."""
    [function] = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    return function


def stub(source: str) -> str:
    """Return the function with a body that returns None."""
    function = parsed(source)
    function.body = [ast.Return(ast.Constant(None))]
    return ast.unparse(function) + "\n"


def other_signature(source: str) -> str:
    """Return the function with one more parameter."""
    function = parsed(source)
    function.args.args.append(ast.arg("context"))
    if function.args.defaults:
        function.args.defaults.append(ast.Constant(None))
    return ast.unparse(function) + "\n"


class _Calls(ast.NodeTransformer):
    """Transformer of calls: a method of another author becomes a local function."""

    def __init__(self, others: Bodies) -> None:
        self.others = others
        self.found: set[str] = set()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace `self.k(a)` by `local_k(self, a)`."""
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=ast.Name(id="self") as owner, attr=name) if name in self.others:
                self.found.add(name)
                return ast.Call(ast.Name(f"local_{name}", ast.Load()), [owner, *node.args], node.keywords)
            case _:
                return node


def by_itself(source: str, others: Bodies, *, first_ask: bool) -> str:
    """Return the function with local copies of the methods of others; with `first_ask` these call the method first."""
    calls = _Calls(others)
    function = parsed(source)
    calls.visit(function)
    local: dict[str, list[ast.stmt]] = {}
    while missing := sorted(calls.found - local.keys()):
        name = missing[0]
        copied = parsed(others[name])
        copied.name = f"local_{name}"
        calls.visit(copied)
        local[name] = [copied]
        if first_ask:
            copied.name = f"own_{name}"
            local[name] += ast.parse(
                f"def local_{name}(self, *arguments):\n    try:\n        return self.{name}(*arguments)\n"
                f"    except Exception:\n        return own_{name}(self, *arguments)\n"
            ).body
    function.body = [*(statement for part in local.values() for statement in part), *function.body]
    return ast.unparse(ast.fix_missing_locations(function)) + "\n"


class Builder:
    """Builder of the candidates of a class."""

    def __init__(self, pool: SandboxPool, spec: Spec) -> None:
        self.pool, self.spec = pool, spec
        self.gold = gold_of(spec.solution, spec.class_name)
        self.owners = dealt(key_of(spec), 2)

    def judged(self, bodies: Bodies) -> Verdict:
        """Run the tests on the solution with these methods replaced, and return the verdict."""
        [verdict] = self.pool.run([job(self.spec, {**{n: self.gold[n] for n in self.spec.names}, **bodies})])
        return verdict

    def of(self, author: int) -> dict[str, str] | None:
        """Return the methods of an author as one text for each kind, or None if a kind cannot be made."""
        mine = {name: self.gold[name] for name in self.spec.names if self.owners[name] == author}
        others = {name: self.gold[name] for name in self.spec.names if name not in mine}
        kinds: dict[str, Bodies | None] = {
            "gold": mine,
            "off by one": self._off_by_one(mine),
            "stub": {name: stub(source) for name, source in mine.items()},
            "other signature": {name: other_signature(source) for name, source in mine.items()},
            "alone": {name: by_itself(source, others, first_ask=False) for name, source in mine.items()},
            "fallback": {name: by_itself(source, others, first_ask=True) for name, source in mine.items()},
        }
        texts = {kind: "\n".join(bodies.values()) for kind, bodies in kinds.items() if bodies}
        right = [self.judged(kinds[kind] or {}).outcome == "passed" for kind in ("gold", "alone", "fallback")]
        return texts if len(set(texts.values())) == len(kinds) and all(right) else None

    def _off_by_one(self, mine: Bodies) -> Bodies | None:
        for name, source in mine.items():
            for mutant in off_by_one(source):
                bodies = {**mine, name: mutant}
                verdict = self.judged(bodies)
                if verdict.outcome == "failed" and verdict.passed:
                    return copy.copy(bodies)
        return None


def main() -> None:
    """Write the file."""
    lines: list[str] = []
    with SandboxPool() as pool:
        for item in ClassEval(split="all").items:
            builder = Builder(pool, spec_of(item))
            authors = [builder.of(author) for author in range(2)]
            if all(authors):
                lines.append(json.dumps({"id": item.id, "authors": authors}))
    FILE.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
