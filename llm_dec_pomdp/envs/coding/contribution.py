"""The reward of v1: did both agents matter? Found by running the program with one of them replaced.

    structure 0.4 + 0.6  ->  syntax 0.5  ->  tests 0..1  ->  cooperation 0.5 + 1.0

Structure and syntax are those of v0. The rest is paid for what the team solved together:

* h = (p - c) / (1 - c): p is the share of passed asserts among those that the problem does not show as examples (all,
  where it shows all), c the share that the best constant answer would pass. What can be guessed pays nothing.
* aux matters where its value does: results are lost when it returns its first value for ever (where there is only one
  assert: None, or an empty value of the type it returned), and its values are not always the same part of its
  arguments, boxed or not. A main which falls back when the helper fails keeps the bonus, and a main which calls the
  helper and ignores it gets none.
* main matters where results are lost when it is replaced by `return aux(*arguments)`, or by that out of its box, and
  where its result is not always the same part of what aux made of main's own arguments and the same further ones: a
  wrapper by meaning, however long.
* where both matter tests = h and cooperation = h (0.5 + 1.0); else both are 0, so that a wrapper stays below 40 %.

A result is the outcome of one assert, and lost when it passed and does not pass any more. A helper whose absence is an
improvement does not matter. A box is a list, tuple, set or dictionary of one element; a part of a value is the whole,
or the first or last element of a longer one. What this cannot see: a team that hides who does the work behind a code of
its own.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest

from ...sandbox import Job, Verdict
from ...types import Score, TaskItem
from . import analysis, reward
from .reward import Program

DIAGNOSTICS = (*reward.DIAGNOSTICS, "held_out_passed", "held_out_total", "aux_matters", "main_matters")
Judge = Callable[[Sequence[Job]], Sequence[Verdict]]

NONE = """
def aux(*args, **kwargs):
    return None
"""
EMPTY = """
_real = aux
def aux(*args, **kwargs):
    value = _real(*args, **kwargs)
    try:
        return type(value)()
    except Exception:
        return None
"""
CONSTANT = """
_real, _first = aux, []
def aux(*args, **kwargs):
    if not _first:
        _first.append(_real(*args, **kwargs))
    return _first[0]
"""
_PLACES = """
def _unbox(value):
    while type(value) in (list, tuple, set, frozenset, dict) and len(value) == 1:
        value = next(iter(value.values() if type(value) is dict else value))
    return list(value) if type(value) is tuple else value
def _places(named):
    # The values by name, with the first and the last element of those that hold several, all as text.
    named = dict(named)
    for name, value in list(named.items()):
        if type(value) is dict:
            value = list(value.values())
        if type(value) in (list, tuple) and len(value) > 1:
            named[name, "first"], named[name, "last"] = value[0], value[-1]
    return {name: repr(_unbox(value)) for name, value in named.items()}
"""
# Whence aux's values come is what all its calls (not its own) agree on; main gives out no result before they differ.
OWN_VALUES = (
    _PLACES
    + """
_real, _depth, _copied = aux, [0], []
def aux(*args, **kwargs):
    given = _places({"all": [*args, *kwargs.values()], **dict(enumerate(args)), **kwargs})
    _depth[0] += 1
    try:
        value = _real(*args, **kwargs)
    finally:
        _depth[0] -= 1
    if not _depth[0]:
        text = repr(_unbox(value))
        same = {name for name in given if given[name] == text}
        _copied[:] = [same & _copied[0] if _copied else same]
    return value
"""
)
AFTER_MAIN = """
_main = {name}
def {name}(*args, **kwargs):
    result = _main(*args, **kwargs)
    if not _copied or _copied[0]:
        raise RuntimeError("aux hands its arguments back")
    return result
"""
# How main hands aux's value on is what all its calls agree on: the arguments that it adds to its own, and the place of
# its result in the value; it gives out no result before they differ.
HANDED_ON = (
    _PLACES
    + """
_real, _depth, _calls = aux, [0], []
def aux(*args, **kwargs):
    given = [repr(_unbox(value)) for value in (*args, *kwargs.values())]
    _depth[0] += 1
    try:
        value = _real(*args, **kwargs)
    finally:
        _depth[0] -= 1
    if not _depth[0]:
        _calls.append((given, _places({"": value})))
    return value
"""
)
AROUND_MAIN = """
_main, _level, _ways = {name}, [0], []
def {name}(*args, **kwargs):
    if _level[0]:
        return _main(*args, **kwargs)
    own = [repr(_unbox(value)) for value in (*args, *kwargs.values())]
    _calls.clear()
    _level[0] += 1
    try:
        result = _main(*args, **kwargs)
    finally:
        _level[0] -= 1
    ways, text = set(), repr(_unbox(result))
    for given, places in _calls:
        if all(own.count(one) <= given.count(one) for one in own):
            added = list(given)
            for one in own:
                added.remove(one)
            ways |= {{(tuple(added), place) for place in places if places[place] == text}}
    _ways[:] = [ways & _ways[0] if _ways else ways]
    if _ways[0]:
        raise RuntimeError("main hands on what aux returns")
    return result
"""
WRAPPER = """
def {name}(*args, **kwargs):
    return aux(*args, **kwargs)
"""
UNBOXING_WRAPPER = """
def {name}(*args, **kwargs):
    value = aux(*args, **kwargs)
    if type(value) in (list, tuple, set, frozenset, dict) and len(value) == 1:
        return next(iter(value.values() if type(value) is dict else value))
    return value
"""
_BOUND = re.compile(r">>>[ \t]*\w+[ \t]*=[ \t]*(.+)")


def score(item: TaskItem, program: Program, judge: Judge) -> Score:
    """The joint reward of a program, 0 to 4.

    Args:
        item: The problem, with fields `entry_point` and `test`.
        program: What the team wrote.
        judge: Runs several programs at once.

    Returns:
        Components as in the module's header; the total is NaN when the judge failed.
    """
    parts, problem = reward.first_levels(item, program)
    if problem:
        return reward.summed(parts, problem)
    hidden = held_out(item)
    whole, *rest = judge(
        [reward.job(item, program.source), *([reward.job(item, program.source, hidden)] if hidden else [])]
    )
    unseen = rest[0] if rest else whole
    facts = {"held_out_passed": float(unseen.passed), "held_out_total": float(unseen.total)}
    verdicts = [whole, *rest]
    if unseen.passed and program.aux and re.search(r"\baux\b", program.main):
        share = _beyond_guessing(unseen, hidden or item.fields["test"])
        replaced = judge([reward.job(item, source) for source in _replacements(item, program)])
        verdicts += replaced
        aux_matters, main_matters = _matters(whole, replaced)
        facts |= {"aux_matters": float(aux_matters), "main_matters": float(main_matters)}
        if aux_matters and main_matters:
            parts["tests"] = reward.TESTS * share
            parts["cooperation"] = share * (reward.CALLS_AUX + reward.NO_WRAPPER)
    if any(verdict.outcome == "infra_error" for verdict in verdicts):
        parts["tests"] = math.nan
    plain = reward.summed(parts, reward.detail(whole), whole)
    return Score(plain.total, plain.components, {**plain.diagnostics, **facts}, plain.notes)


def _replacements(item: TaskItem, program: Program) -> list[str]:
    """The program with one of its functions replaced in each of the ways above."""
    name, aux, main = item.fields["entry_point"], program.aux, program.main
    return [
        *("\n".join((aux, stub, main)) for stub in (NONE, EMPTY, CONSTANT)),
        "\n".join((aux, OWN_VALUES, main, AFTER_MAIN.format(name=name))),
        *("\n".join((aux, wrapper.format(name=name))) for wrapper in (WRAPPER, UNBOXING_WRAPPER)),
        "\n".join((aux, HANDED_ON, main, AROUND_MAIN.format(name=name))),
    ]


def _matters(whole: Verdict, replaced: Sequence[Verdict]) -> tuple[bool, bool]:
    """Whether aux and whether main matters, from the verdicts on `_replacements`."""
    none, empty, constant, own_values, wrapper, unboxing, handed_on = replaced
    stubs = (none, empty) if len(whole.cases) == 1 else (constant,)  # one assert cannot tell a constant
    aux = any(_loses(whole, stub) for stub in stubs) and _keeps(whole, own_values)
    main = _loses(whole, wrapper) and _loses(whole, unboxing) and _keeps(whole, handed_on)
    return aux, main


def _keeps(whole: Verdict, replaced: Verdict) -> bool:
    """True when an assert that passed passes still."""
    return any(was and now for was, now in zip(whole.cases, replaced.cases, strict=False))


def _loses(whole: Verdict, replaced: Verdict) -> bool:
    """True when an assert that passed does not pass any more."""
    return any(was and not now for was, now in zip_longest(whole.cases, replaced.cases, fillvalue=False))


def _beyond_guessing(verdict: Verdict, check: str) -> float:
    """h of the module: the share of passed asserts, where 0 is what the best constant answer would pass."""
    passed, guessed = verdict.passed / verdict.total, guessable(check) / verdict.total
    return max(0.0, (passed - guessed) / (1 - guessed)) if guessed < 1 else passed


def guessable(check: str) -> int:
    """How many asserts of a test the best constant answer passes, as far as they compare a call with a literal."""
    tree = analysis.parse(check)
    wanted = [_wanted(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert)] if tree else []
    return max(Counter(value for value in wanted if value).values(), default=0)


def _wanted(test: ast.expr) -> str:
    """The literal that an assert wants a call to return; "" when it is of another form."""
    match test:
        case ast.Compare(left=ast.Call(), ops=[ast.Eq() | ast.Is()], comparators=[value]):
            return _literal(ast.unparse(value))
        case ast.Call():
            return "True"
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call()):
            return "False"
        case _:
            return ""


# --- asserts that the problem shows --------------------------------------------------------------------------------


def held_out(item: TaskItem) -> str:
    """The tests of a problem without the asserts that its text shows as examples; "" when none or all would remain."""
    tree = analysis.parse(item.fields["test"])
    if tree is None:
        return ""
    cut = _DropShown(examples(item.prompt, item.fields["entry_point"]))
    tree = cut.visit(tree)
    return ast.unparse(ast.fix_missing_locations(tree)) if cut.dropped and cut.kept else ""


def examples(prompt: str, entry_point: str) -> frozenset[str]:
    """The calls of the entry point that a problem's text shows, in the normal form of `ast.unparse`.

    A doctest line that binds a literal (`>>> values = [1, 2]`) shows the call with that one argument.
    """
    found = {f"{entry_point}({value})" for value in map(_literal, _BOUND.findall(prompt)) if value}
    for match in re.finditer(rf"\b{re.escape(entry_point)}\s*\(", prompt):
        call = _call_at(prompt, match.start())
        if call:
            found.add(call)
    return frozenset(found)


def _literal(text: str) -> str:
    tree = analysis.parse_expression(text.strip())
    try:
        return repr(ast.literal_eval(tree)) if tree else ""
    except (ValueError, TypeError):  # no literal, or one that holds what cannot be hashed
        return ""


def _call_at(text: str, start: int) -> str:
    """The call expression that begins at `start`, normalised; "" when there is none."""
    for end in [match.end() for match in re.finditer(r"\)", text[start : start + 2000])]:
        tree = analysis.parse_expression(text[start : start + end])
        if tree is not None:
            return ast.unparse(tree) if isinstance(tree, ast.Call) else ""
    return ""


def shown(assertion: ast.Assert, calls: frozenset[str]) -> bool:
    """True when an assert calls the candidate with arguments that the problem's text shows."""
    names = {call.partition("(")[0] for call in calls}
    for node in ast.walk(assertion.test):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            arguments = ast.unparse(node)[len(node.func.id) :]
            if any(name + arguments in calls for name in names):
                return True
    return False


class _DropShown(ast.NodeTransformer):
    """Replaces shown asserts by `pass` and counts."""

    def __init__(self, calls: frozenset[str]) -> None:
        self._calls = calls
        self.dropped = self.kept = 0

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Drop or keep one assert."""
        if isinstance(node.test, ast.Constant) and node.test.value:
            return node  # counts for nothing anyway
        if shown(node, self._calls):
            self.dropped += 1
            return ast.copy_location(ast.Pass(), node)
        self.kept += 1
        return node
