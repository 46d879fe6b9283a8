"""The reward of v1: which tests need both agents? The manual of humaneval-v1 defines that; this is how it is measured.

* h = (p - c) / (1 - c): p is the share of passed asserts among those that the problem does not show as examples (all,
  where it shows all), c the share that the best constant answer would pass. What can be guessed pays nothing.
* b is the share of the passed asserts that need both functions (`observer`): main alone does not pass them, nor does
  aux. Easy cases need no helper in most problems, so a share of `ENOUGH` counts as all.
* tests = h min(1, b / ENOUGH), cooperation = (0.5 + 1.0) h min(1, b / ENOUGH).

A program that fails an assert beside the observer, and passed it before, acts differently there: its b is 0.
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
from collections.abc import Callable

from ....sandbox import Job, Verdict
from ....types import Score, TaskItem
from .. import analysis, reward
from ..reward import Program, ProgramJudge
from . import knowledge, observer, replay, sites, surroundings

NEEDED = ("needs_aux", "needs_main", "needs_both")  # shares of the passed asserts
DIAGNOSTICS = (*reward.DIAGNOSTICS, "held_out_passed", "held_out_total", *NEEDED)
ENOUGH = 0.1
STARTING = 10.0  # CPU seconds for the process and the observer; honest programs need up to 2.3 on a free core
LONGER = 60  # a program may take so many times as long beside the observer as alone

OBSERVED = """
{name} = (lambda scope: (
    exec(compile({text!r}, {file!r}, "exec", dont_inherit=True), scope),
    scope["observed"]({sources!r}, {name!r}, globals(), {secret!r}),
))({{"__builtins__": dict(vars(__import__("builtins"))), "__name__": {file!r}}})[1]
"""
_BOUND = re.compile(r">>>[ \t]*\w+[ \t]*=[ \t]*(.+)")


def score(item: TaskItem, program: Program, judge: ProgramJudge) -> Score:
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
    if whole.passed and unseen.passed and program.aux and re.search(r"\baux\b", program.main):
        share = _beyond_guessing(unseen, hidden or item.fields["test"])
        [seen] = judge([_observed(item, program, whole)])
        verdicts.append(seen)
        needed = _needed(seen, whole)
        facts |= needed
        paid = share * min(1.0, needed["needs_both"] / ENOUGH)
        parts["tests"] = reward.TESTS * paid
        parts["cooperation"] = paid * (reward.CALLS_AUX + reward.NO_WRAPPER)
    if any(verdict.outcome == "infra_error" for verdict in verdicts):
        parts["tests"] = math.nan
    plain = reward.summed(parts, reward.detail(whole), whole)
    return Score(plain.total, plain.components, {**plain.diagnostics, **facts}, plain.notes)


@functools.cache
def _observer() -> str:
    """The source of the observer and of what it imports, as one text."""
    sources = [inspect.getsource(module) for module in (sites, surroundings, knowledge, replay, observer)]
    ours = re.compile(r"^from (__future__|\.\w+) import .*\n", re.MULTILINE)
    return "\n".join(["from __future__ import annotations", *(ours.sub("", source) for source in sources)])


def _observed(item: TaskItem, program: Program, whole: Verdict) -> Job:
    """The program beside the observer: the asserts that held, once in each of its modes.

    Names that the program could recognise are derived from a secret: the hash of texts that no agent has all of. So the
    same program is always judged alike.
    """
    name, kept = item.fields["entry_point"], _kept(whole)
    check = _without(item.fields["test"], lambda at, _: whole.shares[at] not in kept)
    secret = hashlib.sha256(f"{program.source}\n{check}".encode("utf-8", "replace")).hexdigest()
    sources = (program.aux, program.main)
    source = OBSERVED.format(name=name, text=_observer(), file=f"<{secret[:16]}>", sources=sources, secret=secret)
    modes = [(mode, f"_{secret[16:32]}{at}") for at, mode in enumerate(observer.MODES)]
    texts = [f"{check}\n{run} = check\n" for _, run in modes]
    runs = [f"    candidate({secret!r}, {mode!r})\n    {run}(candidate)\n" for mode, run in modes]
    job = reward.job(item, source, "".join([*texts, "def check(candidate):\n", *runs]))
    seconds = STARTING + LONGER * whole.cpu_seconds
    return dataclasses.replace(job, limits=dataclasses.replace(job.limits, cpu_seconds=seconds, case_seconds=seconds))


def _kept(whole: Verdict) -> set[float]:
    """The shares of asserts that are observed: those that always held, or else those that held at all."""
    return {1.0} if 1.0 in whole.shares else set(whole.shares) - {0.0}


def _needed(seen: Verdict, whole: Verdict) -> dict[str, float]:
    """The values of `NEEDED`; 0 where the program acts differently beside the observer."""
    before = [share for share in whole.shares if share in _kept(whole)]
    by_mode = [seen.shares[at : at + len(before)] for at in range(0, len(seen.shares), len(before))]
    true_runs, alone = by_mode[: observer.TRUE_RUNS], by_mode[observer.TRUE_RUNS :]
    if len(by_mode) != len(observer.MODES) or any(
        now < was for run in true_runs for now, was in zip(run, before, strict=True)
    ):
        return dict.fromkeys(NEEDED, 0.0)
    *mains, aux = alone
    main = max(mains, key=sum)
    either = [min(was, mine + other) for mine, other, was in zip(main, aux, before, strict=True)]
    return {name: 1 - sum(alone) / sum(before) for name, alone in zip(NEEDED, (main, aux, either), strict=True)}


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
    calls = examples(item.prompt, item.fields["entry_point"])
    return _without(item.fields["test"], lambda _, node: shown(node, calls), none="", all_="")


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


def _without(check: str, drops: Callable[[int, ast.Assert], bool], none: str | None = None, all_: str = "") -> str:
    """A test without some of the asserts, by their number among those that count.

    Where none is dropped: `none`, by default the test as it is. Where all are: `all_`.
    """
    tree = analysis.parse(check)
    if tree is None:
        return check if none is None else none
    cut = _Drop(drops)
    tree = cut.visit(tree)
    if not cut.dropped:
        return check if none is None else none
    return ast.unparse(ast.fix_missing_locations(tree)) if cut.kept else all_


class _Drop(ast.NodeTransformer):
    """Replaces asserts by `pass` and counts."""

    def __init__(self, drops: Callable[[int, ast.Assert], bool]) -> None:
        self._drops = drops
        self.dropped = self.kept = 0

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Drop or keep one assert."""
        if isinstance(node.test, ast.Constant) and node.test.value:
            return node  # counts for nothing anyway
        drop = self._drops(self.dropped + self.kept, node)
        self.dropped += drop
        self.kept += not drop
        return ast.copy_location(ast.Pass(), node) if drop else node
