"""Cooperation schemes of two functions, found by syntax tree and execution: the four that arXiv:2508.04652 reports.

* fallback: main survives a failing aux. aux is used in a `try` that does not raise again, or its value is checked for
  None or replaced with `or`. When aux raises or returns None, every assert that held still holds.
* decorator: main adds to the result of aux. A value from aux flows into the returned value, which differs from it, and
  the program is not a coordinator.
* coordinator: main splits the work. One call of main makes at least two different calls of aux, with arguments other
  than those of main.
* strategy filter: aux selects a branch. A value from aux is in a condition outside of loops that is not a None check,
  and does not flow into the returned value.

For all schemes but fallback the value must matter: the outcome of an assert changes when aux returns None, an empty
value of the same type, or the negation. A program may show several schemes or none. A program can show a scheme only if
both functions exist, main uses aux, a test leads to a call of aux, and an assert passes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from ...sandbox import Verdict, default_pool
from ...types import TaskItem
from . import analysis, reward
from .reward import Program, ProgramJudge

SCHEMES = ("fallback", "decorator", "coordinator", "strategy filter")

_RAISES = "def aux(*args, **kwargs):\n    raise RuntimeError('aux fails')\n"
_NONE = "def aux(*args, **kwargs):\n    return None\n"
_CHANGED = """_real = aux
def aux(*args, **kwargs):
    value = _real(*args, **kwargs)
    try:
        return {value}
    except Exception:
        return None
"""
_EMPTY, _NEGATED = _CHANGED.format(value="type(value)()"), _CHANGED.format(value="not value")

# Wraps aux and main so that every outermost call of main records its arguments, its calls of aux, and its result. Tests
# run in another process and can only call main, so a probe is a call of main with a special argument.
_RECORDER = """
_real_aux, _real_main, _calls, _inside = aux, {main}, [], set()
def aux(*args, **kwargs):
    if "aux" in _inside or "main" not in _inside:
        return _real_aux(*args, **kwargs)
    _calls[-1]["asked"].append(repr((args, kwargs)))
    _inside.add("aux")
    try:
        value = _real_aux(*args, **kwargs)
    finally:
        _inside.discard("aux")
    _calls[-1]["told"].append(repr(value))
    return value
def {main}(*args, **kwargs):
    if len(args) == 2 and args[0] == "probe of the calls so far":
        return _probe(_calls, args[1])
    if "main" in _inside:
        return _real_main(*args, **kwargs)
    call = {{"arguments": repr((args, kwargs)), "asked": [], "told": [], "result": None}}
    _calls.append(call)
    _inside.add("main")
    try:
        value = _real_main(*args, **kwargs)
    finally:
        _inside.discard("main")
    call["result"] = repr(value)
    return value
def _probe(calls, name):
    if name == "called":
        return any(call["asked"] for call in calls)
    if name == "transforms":
        return any(call["told"] and call["result"] not in call["told"] for call in calls)
    return any(len({{*call["asked"]}} - {{call["arguments"]}}) > 1 for call in calls)
"""
_PROBES = {name: f"candidate('probe of the calls so far', {name!r})" for name in ("called", "transforms", "splits")}


def classify(item: TaskItem, program: Program, judge: ProgramJudge | None = None) -> frozenset[str]:
    """Return the schemes that a program shows; see the module.

    Args:
        item: The problem, with fields `entry_point` and `test`.
        program: The two functions.
        judge: Runs several programs in the code sandbox. Default: the pool of this process.
    """
    tree = analysis.parse(program.main) if program.aux and program.main else None
    if tree is None or analysis.parse(program.source) is None or not any(map(_is_aux, ast.walk(tree))):
        return frozenset()
    judge = judge or default_pool().run
    main = item.fields["entry_point"]
    whole, recorded = judge(
        [
            reward.job(item, program.source),
            reward.job(item, program.source + _RECORDER.format(main=main), _with_probes(item.fields["test"])),
        ]
    )
    seen = {name for name, probe in _PROBES.items() if _holds(recorded, probe)}
    if not whole.passed or "called" not in seen:
        return frozenset()
    raising, nothing, *changed = judge(
        [reward.job(item, f"{program.aux}\n\n{stub}\n\n{program.main}") for stub in (_RAISES, _NONE, _EMPTY, _NEGATED)]
    )
    flow = Flow(tree, _is_aux)
    matters = any(verdict.cases != whole.cases for verdict in (nothing, *changed))
    names: set[str] = set()
    if (flow.caught and _survives(whole, raising)) or (flow.none_checked and _survives(whole, nothing)):
        names.add("fallback")
    if matters and "splits" in seen:
        names.add("coordinator")
    elif matters and flow.returned and "transforms" in seen:
        names.add("decorator")
    if matters and flow.decides and not flow.returned:
        names.add("strategy filter")
    return frozenset(names)


def _with_probes(test: str) -> str:
    """Return the tests of a problem, followed by one assert per probe."""
    asserts = "\n".join(f"    assert {probe}" for probe in _PROBES.values())
    return (
        f"{test}\n\n_check_of_the_problem = check\n\ndef check(candidate):\n"
        f"    _check_of_the_problem(candidate)\n{asserts}\n"
    )


def _holds(verdict: Verdict, probe: str) -> bool:
    """Return whether a probe held; a failed probe is in the notes of the verdict, by its source."""
    source = ast.unparse(ast.parse(probe))[: len(probe) + 9]
    return verdict.outcome in ("passed", "failed") and not any(note.startswith(source) for note in verdict.notes)


def _survives(whole: Verdict, stubbed: Verdict) -> bool:
    """Return whether every assert that held with aux still holds with the stub."""
    pairs = zip(whole.cases, stubbed.cases, strict=False)
    return stubbed.passed >= whole.passed and all(after for before, after in pairs if before)


# --- data flow within main ------------------------------------------------------------------------------------------


def _is_aux(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "aux" and isinstance(node.ctx, ast.Load)


class Flow:
    """The data flow of the value of aux (or of the nodes that `is_others` accepts) in a function.

    Attributes:
        caught: aux is used in the body of a `try` with a handler that does not raise.
        none_checked: A value from aux is compared with None, or replaced with `or`.
        returned: A value from aux is part of a returned or yielded value.
        decides: A value from aux is in the condition of a branch outside of loops, other than a None check.
    """

    def __init__(self, tree: ast.AST, is_others: Callable[[ast.AST], bool]) -> None:
        self._is_others = is_others
        self._names: set[str] = set()
        nodes = list(ast.walk(tree))
        while True:
            before = len(self._names)
            for node in nodes:
                self._spread(node)
            if len(self._names) == before:
                break
        self.caught = any(_catches(node, is_others) for node in nodes if isinstance(node, ast.Try))
        self.none_checked = any(self._is_none_check(node) for node in nodes)
        self.returned = any(
            isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) and self._flows(node.value) for node in nodes
        )
        self.decides = any(
            self._flows(test) and not any(self._is_none_check(part) for part in ast.walk(test))
            for test in _tests_outside_loops(tree)
        )

    def _spread(self, node: ast.AST) -> None:
        """Mark the names that get a value of aux by assignment, by a loop or by a method call."""
        match node:
            case ast.Assign(targets=targets, value=value) if self._flows(value):
                self._taint(*targets)
            case ast.AnnAssign(target=target, value=value) if self._flows(value):
                self._taint(target)
            case (
                ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
                | ast.For(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
            ) if self._flows(value):
                self._taint(target)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() as owner), args=arguments)):
                if any(map(self._flows, arguments)):
                    self._taint(owner)
            case _:
                pass

    def _taint(self, *targets: ast.AST) -> None:
        for target in targets:
            while isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
                target = target.value
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    self._names.add(node.id)

    def _flows(self, node: ast.AST | None) -> bool:
        """Return whether the value of an expression contains a value of aux; being selected by it does not count."""
        if node is None:
            return False
        if self._is_others(node):
            return True
        if isinstance(node, ast.Name):
            return node.id in self._names
        return any(map(self._flows, _data(node)))

    def _is_none_check(self, node: ast.AST) -> bool:
        match node:
            case ast.Compare(left=left, comparators=[ast.Constant(value=None)]):
                return self._flows(left)
            case ast.BoolOp(op=ast.Or(), values=[first, *_]):
                return self._flows(first) and not isinstance(first, ast.Compare)
            case _:
                return False


def _data(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of an expression that its value is made of, which are all but conditions."""
    for name, value in ast.iter_fields(node):
        condition = (isinstance(node, ast.IfExp) and name == "test") or (
            isinstance(node, ast.comprehension) and name == "ifs"
        )
        if not condition:
            yield from (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, ast.AST))  # pyright: ignore[reportUnknownVariableType]


def _catches(node: ast.Try, is_others: Callable[[ast.AST], bool]) -> bool:
    used = any(is_others(part) for statement in node.body for part in ast.walk(statement))
    raises = [any(isinstance(part, ast.Raise) for part in ast.walk(handler)) for handler in node.handlers]
    return used and not all(raises)


def _tests_outside_loops(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the conditions of branches outside of loops."""
    match node:
        case ast.For() | ast.While() | ast.AsyncFor() | ast.ListComp() | ast.SetComp() | ast.DictComp():
            return
        case ast.GeneratorExp():
            return
        case ast.If(test=test) | ast.IfExp(test=test) | ast.Match(subject=test):
            yield test
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from _tests_outside_loops(child)
