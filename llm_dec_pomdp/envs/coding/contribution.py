"""The reward of v1: did both agents matter? Found by running the program with one of them replaced.

    structure 0.4 + 0.6  ->  syntax 0.5  ->  tests 0..1  ->  cooperation 0.5 + 1.0

Structure and syntax are those of v0. The rest is paid for what the team solved together:

* h is the share of passed asserts among those that the problem does not show as examples (all, where it shows all);
* aux matters where its value does: the program's results change when aux returns None or an empty value of the type
  it returned, and also when it hands its own arguments back. Raising alone is not asked for, so that a main which falls
  back when the helper fails keeps the bonus, and a main which calls the helper and ignores it gets none;
* main matters where results change when it is replaced by `return aux(*arguments)`: a wrapper by meaning, however long;
* where both matter tests = h and cooperation = h (0.5 + 1.0); else both are 0, so that a wrapper stays below 40 %.

A result is the outcome of one assert; "change" means that at least one of them differs.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Sequence

from ...sandbox import Job, Verdict
from ...types import Score, TaskItem
from . import analysis, reward
from .reward import Program

DIAGNOSTICS = (*reward.DIAGNOSTICS, "held_out_passed", "held_out_total", "aux_matters", "main_matters")
Judge = Callable[[Sequence[Job]], Sequence[Verdict]]

VALUE_STUBS = (
    "def aux(*args, **kwargs):\n    return None\n",
    "_real = aux\ndef aux(*args, **kwargs):\n"
    "    value = _real(*args, **kwargs)\n"
    "    try:\n        return type(value)()\n    except Exception:\n        return None\n",
)
HANDS_BACK = (
    "def aux(*args, **kwargs):\n    return next(iter([*args, *kwargs.values()]), None)\n",
    "def aux(*args, **kwargs):\n    return (*args, *kwargs.values())\n",
)
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
    if unseen.passed and analysis.cooperation(program.main).calls and program.aux:
        share = unseen.passed / unseen.total
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
    """The program with aux replaced in each of the ways above, and with main replaced by a plain wrapper."""
    stubbed = [f"{program.aux}\n\n{stub}\n\n{program.main}" for stub in (*VALUE_STUBS, *HANDS_BACK)]
    wrapper = f"def {item.fields['entry_point']}(*args, **kwargs):\n    return aux(*args, **kwargs)\n"
    return [*stubbed, f"{program.aux}\n\n{wrapper}"]


def _matters(whole: Verdict, replaced: Sequence[Verdict]) -> tuple[bool, bool]:
    changed = [verdict.cases != whole.cases for verdict in replaced]
    by_value, handed_back, wrapped = changed[:2], changed[2:4], changed[4]
    return any(by_value) and all(handed_back), wrapped


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
    try:
        return repr(ast.literal_eval(text.strip()))
    except (SyntaxError, ValueError):
        return ""


def _call_at(text: str, start: int) -> str:
    """The call expression that begins at `start`, normalised; "" when there is none."""
    for end in [match.end() for match in re.finditer(r"\)", text[start : start + 2000])]:
        try:
            tree = ast.parse(text[start : start + end], mode="eval")
        except (SyntaxError, ValueError):
            continue
        return ast.unparse(tree) if isinstance(tree.body, ast.Call) else ""
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
