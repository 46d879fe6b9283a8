"""The reward of v1: did both agents matter? The manual of humaneval-v1 defines that; this is how it is measured.

The program runs beside an observer, which changes what main gets from aux:

* h = (p - c) / (1 - c): p is the share of passed asserts among those that the problem does not show as examples (all,
  where it shows all), c the share that the best constant answer would pass. What can be guessed pays nothing.
* aux matters where some results are lost when main gets what aux returned in another call, unless main only compares
  the value with an expected one, after which all wrong values do the same (`evidence.follows`). It does not matter
  where its values are all the same, or always the same part of its arguments, or where returning its first value for
  ever loses nothing and gains something. A main function that falls back when the helper fails keeps the bonus.
* main matters where its results are not, in one way for all results of a type, simple encodings (`coats`) of what aux
  returned for main's own arguments, nor of what aux returns when it is asked in place of main; and where main does more
  than decode (`evidence.reads`).
* Where both matter tests = h and cooperation = h (0.5 + 1.0); else both are 0.

A result is the outcome of one assert; it is lost when it passed before and does not pass any more. Measurements count
only if no assert is lost beside the observer itself.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest

from ...sandbox import Job, Verdict
from ...types import Score, TaskItem
from . import analysis, coats, evidence, observer, reward
from .reward import Program

DIAGNOSTICS = (*reward.DIAGNOSTICS, "held_out_passed", "held_out_total", "aux_matters", "main_matters")
WAYS = ("swapped", "evidence", "constant")  # of the observer; the last is for programs that fail some asserts
STARTING = 0.5  # CPU seconds for the process and the observer
RUNS = 12  # a program may take so many times as long beside the observer as alone
Judge = Callable[[Sequence[Job]], Sequence[Verdict]]

OBSERVED = """
{name} = (lambda scope: (
    exec(compile({text!r}, {file!r}, "exec"), scope),
    scope["observed"]({sources!r}, {name!r}, globals(), {way!r}, {secret!r}),
))({{"__builtins__": dict(vars(__import__("builtins"))), "__name__": {file!r}}})[1]
"""
QUESTIONS = """
{first} = check
def check(candidate):
    {first}(candidate)
    assert candidate({secret!r}, "aux")
    assert candidate({secret!r}, "main")
"""
_BOUND = re.compile(r">>>[ \t]*\w+[ \t]*=[ \t]*(.+)")


def score(item: TaskItem, program: Program, judge: Judge) -> Score:
    """The joint reward of a program, 0 to 4, for a problem with `entry_point` and `test`; NaN when the judge failed."""
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
        ways = WAYS[: 2 if whole.outcome == "passed" else 3]
        observed = judge([_observed(item, program, way, whole.cpu_seconds) for way in ways])
        verdicts += observed
        aux_matters, main_matters = _matters(whole, *observed)
        facts |= {"aux_matters": float(aux_matters), "main_matters": float(main_matters)}
        if aux_matters and main_matters:
            parts["tests"] = reward.TESTS * share
            parts["cooperation"] = share * (reward.CALLS_AUX + reward.NO_WRAPPER)
    if any(verdict.outcome == "infra_error" for verdict in verdicts):
        parts["tests"] = math.nan
    plain = reward.summed(parts, reward.detail(whole), whole)
    return Score(plain.total, plain.components, {**plain.diagnostics, **facts}, plain.notes)


@functools.cache
def _observer() -> str:
    """The source of the observer and of the modules that it imports, as one text."""
    sources = [inspect.getsource(module) for module in (coats, evidence, observer)]
    ours = re.compile(r"^from (__future__|\.\w+) import .*\n", re.MULTILINE)
    return "\n".join(ours.sub("", source) for source in sources)


def _observed(item: TaskItem, program: Program, way: str, cpu_seconds: float) -> Job:
    """The program beside the observer, in one of `WAYS`, after a run without it that took so many CPU seconds.

    Names that the program could recognise are derived from a secret: the hash of texts that no agent has all of. So the
    same program is always judged alike.
    """
    name, check = item.fields["entry_point"], item.fields["test"]
    secret = hashlib.sha256("\n".join((program.source, check, way)).encode("utf-8", "replace")).hexdigest()
    sources = (program.aux, program.main)
    source = OBSERVED.format(
        name=name, text=_observer(), file=f"<{secret[:16]}>", sources=sources, way=way, secret=secret
    )
    asked = check + QUESTIONS.format(first=f"_{secret[16:32]}", secret=secret) if way == "evidence" else check
    seconds = observer.BESIDES + STARTING + RUNS * cpu_seconds
    job = reward.job(item, source, asked)
    return dataclasses.replace(job, limits=dataclasses.replace(job.limits, cpu_seconds=seconds, case_seconds=seconds))


def _matters(whole: Verdict, swapped: Verdict, asked: Verdict, constant: Verdict | None = None) -> tuple[bool, bool]:
    """Whether aux and whether main matters, from the verdicts on the program and on it in each of `WAYS`."""
    follows, adds = (share == 1 for share in asked.shares[-2:]) if asked.shares else (False, False)
    undisturbed = not _loses(whole, asked)
    better_without = constant is not None and not _loses(whole, constant) and _loses(constant, whole)
    aux = undisturbed and follows and _loses(whole, swapped) and not better_without
    return aux, undisturbed and adds


def _loses(before: Verdict, after: Verdict) -> bool:
    """True when an assert holds less often than before: in one of the listed executions, or as a share of all."""
    listed = zip_longest(before.cases, after.cases, fillvalue=False)
    shares = zip_longest(before.shares, after.shares, fillvalue=0.0)
    return any(now < was for was, now in chain(listed, shares))


def _beyond_guessing(verdict: Verdict, check: str) -> float:
    """h of the module: the share of passed asserts, where 0 is what the best constant answer would pass."""
    passed, guessed = verdict.passed / verdict.total, guessable(check) / verdict.total
    return max(0.0, (passed - guessed) / (1 - guessed)) if guessed < 1 else passed


def guessable(check: str) -> int:
    """How many asserts of a test the best constant answer passes; only comparisons of a call with a literal count."""
    tree = analysis.parse(check)
    wanted = [_wanted(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert)] if tree else []
    return max(Counter(value for value in wanted if value).values(), default=0)


def _wanted(test: ast.expr) -> str:
    """The literal that an assert wants a call to return; "" when the assert has another form."""
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
    calls = {f"{entry_point}({value})" for value in map(_literal, _BOUND.findall(prompt)) if value}
    for match in re.finditer(rf"\b{re.escape(entry_point)}\s*\(", prompt):
        call = _call_at(prompt, match.start())
        if call:
            calls.add(call)
    return frozenset(calls)


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
    called = [n for n in ast.walk(assertion.test) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    arguments = [ast.unparse(node).removeprefix(ast.unparse(node.func)) for node in called]
    return any(name + given in calls for name in names for given in arguments)


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
