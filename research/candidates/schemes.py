"""Schemes of cooperation in classes that two authors compose from candidates, for the suite `software`.

    [[environments]]
    id = "research.candidates.schemes:classes"
    label = "classeval-v0 choice"

Run the suite in the root folder of the repository with `--trust`, so that `research` can be imported.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from llm_dec_pomdp.contrib.software.classeval import ClassEval
from llm_dec_pomdp.contrib.software.program import gold_of, spec_of
from llm_dec_pomdp.envs import TextDecPOMDP
from llm_dec_pomdp.envs.coding import analysis
from llm_dec_pomdp.envs.coding.schemes import SCHEMES, Flow
from llm_dec_pomdp.envs.wrappers import Choices
from llm_dec_pomdp.types import Group

LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def classes(**options: Any) -> TextDecPOMDP:
    """Build `classeval-v0` with candidates and with the tables of `Schemes`; `options` are those of the environment."""
    return Schemes(ClassEval(**options))


class Schemes(Choices):
    """Choices among the candidates of `classeval-v0`, with two more tables.

    "candidates" is the share of each kind over both authors. "schemes" is the share of each scheme among the methods
    whose solution calls a method of the other author; a method of a class in which a test fails has none. In %.
    """

    def __init__(self, env: ClassEval) -> None:
        super().__init__(env, env.offered_texts)

    def measure(self, groups: Sequence[Group]) -> Mapping[str, Mapping[str, float]]:
        """Return the tables of `Choices`, and the two tables of the class."""
        tables, items, found = super().measure(groups), {item.id: item for item in self.items}, list[str]()
        for group in groups:
            item = items[group.item_id]
            for episode in group.episodes:
                if episode.final:
                    right = bool(episode.final.diagnostics["class_right"])
                    found += self._schemes(item, self._with_texts(episode, item).last_texts, right=right)
        if not found:
            return tables
        roles = [self.role(agent) for agent in self.possible_agents]
        kinds = [name.partition(": ")[2] for name in tables["choices"] if name.startswith(roles[0])]
        return {
            **tables,
            "candidates": {kind: fmean(tables["choices"][f"{role}: {kind}"] for role in roles) for kind in kinds},
            "schemes": {f"{name} %": 100 * found.count(name) / len(found) for name in SCHEMES},
        }

    def _schemes(self, item: Any, texts: Mapping[str, str], *, right: bool) -> list[str]:
        spec, program, found = spec_of(item), self.env.written(item, texts), list[str]()
        for method, source in gold_of(spec.solution, spec.class_name).items():
            owner = program.owners.get(method, -1)
            others = {name for name in spec.names if program.owners.get(name, owner) != owner}

            def is_others(node: ast.AST, others: set[str] = others) -> bool:
                return isinstance(node, ast.Attribute) and node.attr in others

            if scheme_of(source, is_others):
                found.append(scheme_of(program.bodies.get(method, ""), is_others) if right else "")
        return found


def scheme_of(source: str, is_others: Callable[[ast.AST], bool]) -> str:
    """Return the scheme of a function by its syntax tree; "" if it shows none or does not parse.

    Args:
        source: The function.
        is_others: Whether a node names a function of another author.
    """
    tree = analysis.parse(source)
    called = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_others(node.func)] if tree else []
    if tree is None or not called:
        return ""
    flow = Flow(tree, is_others)
    if flow.caught or flow.none_checked:
        return "fallback"
    in_loops = [node for loop in ast.walk(tree) if isinstance(loop, LOOPS) for node in ast.walk(loop)]
    if len(called) > 1 or any(isinstance(node, ast.Call) and is_others(node.func) for node in in_loops):
        return "coordinator"
    return "decorator" if flow.returned else "strategy filter" if flow.decides else ""
