"""Functions of generated programs, rewritten so that a hook sees the value of every expression.

A site is an expression, or a name that a statement binds; sites are numbered in the order of the source. The hooks
stand among the constants of the compiled code and in no namespace. This source is sent to the process of a program,
before `observer`.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import ast
import math
import re
import types
import warnings
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

LONG = 64  # of longer containers, so many elements are compared
DEEP = 6  # levels of nesting that are compared
ATOMS = (bool, int, float, complex, str, bytes, type(None))
_BINDS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_IN_PLACE = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)  # what cannot be put off
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def hooked(source: str, see: Callable[..., Any], put_off: Callable[..., Any], later: Iterable[int]) -> types.CodeType:
    """The code of a module in which values pass through hooks.

    Args:
        source: Of the module.
        see: Gets the number of a site and its value, and returns the value to go on with.
        put_off: The same for the sites in `later`; it gets a function that returns the value.
        later: Numbers of sites.
    """
    tree = _Hooking(frozenset(later)).visit(ast.parse(source))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = compile(ast.fix_missing_locations(tree), "<solution>", "exec", dont_inherit=True)
    return _with_constants(code, {_SEE: see, _PUT_OFF: put_off})


_SEE, _PUT_OFF = "a hook that sees", "a hook that waits"  # until `_with_constants` puts the hooks in their place


def _with_constants(code: types.CodeType, hooks: Mapping[str, Callable[..., Any]]) -> types.CodeType:
    constants = [
        _with_constants(value, hooks)
        if isinstance(value, types.CodeType)
        else hooks.get(value, value)
        if type(value) is str
        else value
        for value in code.co_consts
    ]
    return code.replace(co_consts=tuple(constants))


class _Hooking(ast.NodeTransformer):
    """Puts expressions that are read, and names that are bound, into calls of the hooks."""

    def __init__(self, later: frozenset[int]) -> None:
        self._later = later
        self._count = 0
        self._in_class = False

    def visit(self, node: ast.AST) -> Any:
        """A site, unless the node is no expression that is read."""
        if isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.JoinedStr):
            self._text(node)
        else:
            outside, self._in_class = (
                self._in_class,
                isinstance(node, ast.ClassDef)
                or (self._in_class and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))),
            )
            node = super().visit(node)
            self._in_class = outside
        if not isinstance(node, ast.expr) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return node
        if isinstance(node, (ast.Constant, ast.Slice, ast.Starred, ast.Yield, ast.YieldFrom, ast.Await)):
            return node
        if isinstance(node, ast.Tuple) and any(isinstance(part, ast.Slice) for part in node.elts):
            return node
        return self._site(node)

    def _site(self, node: ast.expr) -> ast.expr:
        self._count += 1
        waits = self._count in self._later and not self._in_class
        if waits and not any(isinstance(inside, _IN_PLACE) for inside in ast.walk(node)):
            nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            return ast.copy_location(_hook(_PUT_OFF, self._count, ast.Lambda(nothing, node)), node)
        return ast.copy_location(_hook(_SEE, self._count, node), node)

    def _call(self, node: ast.Call) -> None:
        """The function of a call is no site where it has a name: methods and functions are no data."""
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.visit(node.func.value)
        elif not isinstance(node.func, ast.Name):
            node.func = self.visit(node.func)
        node.args = [self.visit(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)

    def _text(self, node: ast.JoinedStr) -> None:
        """Of a formatted text only the values can be replaced."""
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)
                if isinstance(part.format_spec, ast.JoinedStr):
                    self._text(part.format_spec)

    def generic_visit(self, node: ast.AST) -> Any:
        """What a statement binds to names passes through the hook afterwards."""
        node = super().generic_visit(node)
        if isinstance(node, _BINDS):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None:
                return [node, *self._bound(targets)]
        elif isinstance(node, ast.For):
            node.body[:0] = self._bound([node.target])
        return node

    def _bound(self, targets: Iterable[ast.expr]) -> list[ast.stmt]:
        inside = [node for target in targets for node in ast.walk(target)]
        names = [node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        return [ast.Assign([ast.Name(name, ast.Store())], self._bind(name)) for name in names]

    def _bind(self, name: str) -> ast.expr:
        self._count += 1
        return _hook(_SEE, self._count, ast.Name(name, ast.Load()))

    def visit_match_case(self, node: Any) -> Any:
        """Patterns are no expressions that are read."""
        pattern, node.pattern = node.pattern, None
        node = super().generic_visit(node)
        node.pattern = pattern
        return node


def _hook(name: str, site: int, value: ast.expr) -> ast.Call:
    return ast.Call(ast.Constant(name), [ast.Constant(site), value], [])


# --- values -----------------------------------------------------------------------------------------------------------


def copied(value: Any) -> Any:
    """A deep copy; the value itself where it cannot be copied."""
    if type(value) in ATOMS:
        return value
    try:
        return deepcopy(value)
    except Exception:
        return value


def mark(value: Any, deep: int = DEEP) -> Any:
    """What values are compared by: equal for lists and tuples of the same, for numbers that are nearly equal."""
    kind = type(value)
    if kind is bool or value is None:
        return kind.__name__, value
    if kind is float:
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    if kind in (int, str, bytes):
        return value
    if kind in (list, tuple):
        part = value if len(value) <= LONG else [*value[: LONG // 2], *value[-LONG // 2 :]]
        return (len(value), *[mark(inner, deep - 1) for inner in part]) if deep else len(value)
    if kind in (set, frozenset) and len(value) <= LONG and deep:
        return "set", frozenset(mark(inner, deep - 1) for inner in value)
    if isinstance(value, dict) and len(value) <= LONG and deep:
        return "dict", frozenset((mark(key, deep - 1), mark(inner, deep - 1)) for key, inner in value.items())
    if callable(value) or hasattr(value, "__next__"):
        return kind.__name__, str(getattr(value, "__name__", "")) if callable(value) else ""
    try:
        return kind.__name__, _ADDRESS.sub("", repr(value))
    except Exception:
        return kind.__name__, ""


def bits(marked: Any) -> int:
    """How unlikely it is that two such values are equal by chance: 1 for truth values, more for larger values."""
    if type(marked) is tuple and marked[0] in ("bool", "NoneType"):
        return 1
    if type(marked) is int and -2 < marked < 10:
        return 2
    return 2 if marked in ("", (0,)) else 4
