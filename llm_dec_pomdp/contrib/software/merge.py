"""Two features of one module, written side by side and merged: the second form of `modules-v0`.

Rows are drawn from a seed like packages. The module has two sections; each author adds a function to one of them and a
line to the function `describe`, both for a feature of its own. What both write is merged by lines over the module as it
was: a place that both changed in different ways is a conflict.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import TaskItem

from .packages import COUNTS, THEMES, class_of

MODULE = "records"
_BASE = '''"""Lists of {item}s, each a dict with "{name}", "{group}" and "{amount}"."""


# --- choosing ---------------------------------------------------------------------------------------------------------


def of_{group}({item}s, {group}):
    """The {item}s of a {group}, in order."""
    return [{item} for {item} in {item}s if {item}["{group}"] == {group}]


# --- counting ---------------------------------------------------------------------------------------------------------


def total({item}s):
    """The sum of their {amount}."""
    return sum({item}["{amount}"] for {item} in {item}s)


# --- describing -------------------------------------------------------------------------------------------------------


def describe({item}s):
    """Lines on the {item}s, as a list."""
    lines = []
    lines.append(f"{item}s: {{len({item}s)}}")
    lines.append(f"{amount}: {{total({item}s)}}")
    return lines
'''


class Feature(NamedTuple):
    """A function and a line for it."""

    name: str
    about: str  # what the function does, of which the arguments are the first word's
    source: str
    line: str  # for `describe`
    call: str  # what is tested


_CHOOSING = (
    Feature(
        "heavy",
        "`heavy({item}s, least)`: the {item}s with at least so many {amount}, in order",
        'def heavy({item}s, least):\n    """The {item}s with at least so many {amount}, in order."""\n'
        '    return [{item} for {item} in {item}s if {item}["{amount}"] >= least]\n',
        'lines.append(f"heavy: {{len(heavy({item}s, 5))}}")',
        "heavy(items, 4)",
    ),
    Feature(
        "named",
        "`named({item}s, start)`: the {item}s whose {name} begins with a text, in order",
        'def named({item}s, start):\n    """The {item}s whose {name} begins with a text, in order."""\n'
        '    return [{item} for {item} in {item}s if {item}["{name}"].startswith(start)]\n',
        "lines.append(f\"named: {{len(named({item}s, 'A'))}}\")",
        "named(items, items[0]['{name}'][0])",
    ),
    Feature(
        "lightest",
        "`lightest({item}s, count)`: so many {item}s with the fewest {amount}, the fewest first",
        'def lightest({item}s, count):\n    """So many {item}s with the fewest {amount}, the fewest first."""\n'
        '    return sorted({item}s, key=lambda {item}: {item}["{amount}"])[:count]\n',
        'lines.append(f"lightest: {{len(lightest({item}s, 2))}}")',
        "lightest(items, 2)",
    ),
    Feature(
        "between",
        "`between({item}s, low, high)`: the {item}s with {amount} from low to high, both included, in order",
        'def between({item}s, low, high):\n    """The {item}s with {amount} from low to high, both included."""\n'
        '    return [{item} for {item} in {item}s if low <= {item}["{amount}"] <= high]\n',
        'lines.append(f"between: {{len(between({item}s, 3, 6))}}")',
        "between(items, 2, 5)",
    ),
)
_COUNTING = (
    Feature(
        "mean",
        "`mean({item}s)`: the mean of their {amount}, rounded down; 0 without {item}s",
        'def mean({item}s):\n    """The mean of their {amount}, rounded down; 0 without {item}s."""\n'
        "    return total({item}s) // len({item}s) if {item}s else 0\n",
        'lines.append(f"mean: {{mean({item}s)}}")',
        "mean(items), mean([])",
    ),
    Feature(
        "spread",
        "`spread({item}s)`: the largest less the smallest {amount}; 0 without {item}s",
        'def spread({item}s):\n    """The largest less the smallest {amount}; 0 without {item}s."""\n'
        '    amounts = [{item}["{amount}"] for {item} in {item}s]\n'
        "    return max(amounts) - min(amounts) if amounts else 0\n",
        'lines.append(f"spread: {{spread({item}s)}}")',
        "spread(items), spread([])",
    ),
    Feature(
        "counts",
        "`counts({item}s)`: how many {item}s each {group} has, as a dict",
        'def counts({item}s):\n    """How many {item}s each {group} has, as a dict."""\n    found = {{}}\n'
        '    for {item} in {item}s:\n        found[{item}["{group}"]] = found.get({item}["{group}"], 0) + 1\n'
        "    return found\n",
        'lines.append(f"{group}s: {{len(counts({item}s))}}")',
        "counts(items)",
    ),
)
REQUEST = (
    "Add a function to the section `{section}`, at its end: {about}. Add `{line}` as the {place} line that `describe` "
    "gives."
)


class MergeTask(NamedTuple):
    """A row of the second form."""

    base: str
    requests: tuple[str, str]
    reference: tuple[str, str]
    test: str


@functools.cache
def combinations() -> list[tuple[int, Feature, Feature]]:
    """Every theme with every pair of features, shuffled: no two tasks are alike."""
    every = list(itertools.product(range(len(THEMES)), _CHOOSING, _COUNTING))
    random.Random(derive(0, "merge")).shuffle(every)
    return every


def drawn(number: int) -> MergeTask:
    """The task of a number, of those of both splits."""
    draw = random.Random(derive(0, "merge", number))
    place, *pair = combinations()[number]
    theme = THEMES[place]
    _, item, (name, group, amount), groups, names = theme
    words = {"item": item, "name": name, "group": group, "amount": amount}
    base = _BASE.format(**words)
    first, second = (Feature(*(text.format(**words) for text in feature)) for feature in pair)
    chose = base.replace("\n\n\n# --- counting", f"\n\n\n{first.source}\n\n# --- counting")
    counted = base.replace("\n\n\n# --- describing", f"\n\n\n{second.source}\n\n# --- describing")
    chose = chose.replace("    lines = []\n", f"    lines = []\n    {first.line}\n")
    counted = counted.replace("    return lines\n", f"    {second.line}\n    return lines\n")
    whole = merged(base, chose, counted)
    assert whole is not None
    items = [{name: draw.choice(names), group: draw.choice(groups), amount: draw.randint(1, 9)} for _ in range(5)]
    requests = tuple(
        REQUEST.format(section=section, about=feature.about, line=feature.line, place=place)
        for section, feature, place in (("choosing", first, "first"), ("counting", second, "last"))
    )
    test = _tests(whole, (first, second), items)
    return MergeTask(base, (requests[0], requests[1]), (chose, counted), test)


def _tests(whole: str, features: Sequence[Feature], items: Sequence[Mapping[str, object]]) -> str:
    scope: dict[str, object] = {}
    exec(compile(whole, MODULE, "exec", dont_inherit=True), scope)
    calls = {
        class_of("first"): [features[0].call],
        class_of("second"): [features[1].call],
        "TestTogether": ["describe(items)", "describe([])"],
    }
    lines = ["import unittest", ""]
    for name, listed in calls.items():
        lines += ["", f"class {name}(unittest.TestCase):"]
        for number, call in enumerate(listed, 1):
            value = eval(call, {**scope, "items": items})
            lines += [
                f"    def test_{number}(self):",
                f"        from {MODULE} import {call.partition('(')[0]}",
                f"        items = {items!r}",
                f"        self.assertEqual(({call}), {value!r})",
            ]
        lines.append("")
    return "\n".join(lines)


@functools.cache
def own_rows() -> tuple[TaskItem, ...]:
    """The embedded tasks."""
    rows: list[TaskItem] = []
    for split, count in COUNTS.items():
        for number in range(count):
            task = drawn(number if split == "train" else number + COUNTS["train"])
            fields = {"test": task.test, "first": task.requests[0], "second": task.requests[1]}
            rows.append(TaskItem(f"{split}-merge-{number + 1:02d}", task.base, split, task.reference, fields))
    return tuple(rows)


# --- three-way merge --------------------------------------------------------------------------------------------------


def merged(base: str, first: str, second: str) -> str | None:
    """Both changes of a text, by lines; None where they are in conflict.

    Changes of the same lines, or additions at the same place, are a conflict unless both are the same.
    """
    old, ours, theirs = (text.splitlines() for text in (base, first, second))
    changes = sorted(_changes(old, ours) + _changes(old, theirs))
    result: list[str] = []
    place = 0
    last: tuple[int, int, list[str]] | None = None
    for low, high, lines in changes:
        if last == (low, high, lines):
            continue
        if last is not None and (low < last[1] or (low, high) == last[:2] or (low == last[1] and low == last[0])):
            return None
        result += [*old[place:low], *lines]
        place, last = high, (low, high, lines)
    return "\n".join([*result, *old[place:]]) + "\n"


def _changes(old: list[str], new: list[str]) -> list[tuple[int, int, list[str]]]:
    """The replaced parts of a list of lines: from, to, and what stands there now."""
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(a, b, new[c:d]) for kind, a, b, c, d in blocks if kind != "equal"]
