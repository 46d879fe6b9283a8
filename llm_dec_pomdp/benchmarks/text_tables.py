"""Tables as text, column names and rows, which the terminal, Markdown and the page all show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .findings import Comparison, Overall
from .intervals import LEAST_SEEDS, LEVEL, Interval
from .lines import Line

Text = tuple[list[str], list[list[str]]]  # names of the columns, rows

HOW = (
    "Intervals are 95 % t intervals over what is named beside them. Over seeds and tasks: of a mixed model in which "
    f"both are random; below {LEAST_SEEDS} seeds there is none. Over the tasks of one seed: "
    "it says nothing about other seeds."
)


def number(value: float, digits: int = 1, missing: str = "-") -> str:
    """A number for a table; `missing` where there is none."""
    return f"{value:.{digits}f}" if math.isfinite(value) else missing


def bounds(value: Interval, sign: str = "") -> str:
    """The bounds of an interval, with `sign` "+" for a difference; "-" where there is none."""
    return f"{value.low:{sign}.1f} to {value.high:{sign}.1f}" if math.isfinite(value.low) else "-"


def p_value(p: float) -> str:
    """A p-value; "-" where nothing was tested."""
    return "<0.001" if p < 0.001 else number(p, 3)


def return_table(group: Sequence[Line]) -> Text:
    """What each method of an environment earns, in % of the maximum."""
    body = [[line.name, number(line.value.mean), bounds(line.value), line.value.over] for line in group]
    return ["method", "return %", "95 % interval", "over"], body


def difference_table(pairs: Sequence[Comparison]) -> Text:
    """How much more methods of an environment earn than others, in percentage points."""
    body = [
        [
            pair.ours.name,
            pair.theirs.name,
            f"{pair.points.mean:+.1f}",
            bounds(pair.points, "+"),
            pair.points.over,
            p_value(pair.p),
            pair.verdict,
        ]
        for pair in pairs
    ]
    return ["method", "against", "points", "95 % interval", "over", "p, Holm", "verdict"], body


def verdict_rule(pairs: Sequence[Comparison]) -> str:
    """What the verdicts of a table mean."""
    tested = pairs[0].pairs
    if not tested:
        return f"No verdict on methods below {LEAST_SEEDS} seeds that both have."
    return (
        f'"more" and "less": different at {100 * LEVEL:.0f} %, Holm-corrected over {tested} '
        f"pair{'s' if tested > 1 else ''}; intervals are not corrected."
    )


def overall_table(methods: Sequence[Overall]) -> Text:
    """Methods over all environments."""
    body = [
        [
            m.name,
            number(m.iqm.mean),
            bounds(m.iqm),
            *(number(m.improvement[o.name].mean, 2) if o is not m else "" for o in methods),
        ]
        for m in methods
    ]
    return [
        "method",
        "interquartile mean",
        "95 % bootstrap over seeds",
        *(f"P(more than {m.name})" for m in methods),
    ], body


def at_k_table(group: Sequence[Line]) -> Text | None:
    """pass@k, acc@k and coop@k per method, mean over seeds; None where there are none."""
    ks = sorted(
        {(name, int(k)) for line in group for s in line.summaries for name, by_k in s.at_k.items() for k in by_k}
    )
    if not ks:
        return None
    ks.sort(key=lambda pair: (("pass", "acc", "coop").index(pair[0]), pair[1]))
    body = [
        [line.name, *(number(line.mean(lambda s, n=n, k=k: _value(s.at_k.get(n, {}), str(k)))) for n, k in ks)]
        for line in group
    ]
    return ["method", *(f"{name}@{k} %" for name, k in ks)], body


def _value(by_k: Mapping[str, Interval], k: str) -> float:
    return by_k[k].mean if k in by_k else math.nan


def scheme_table(group: Sequence[Line]) -> Text | None:
    """Share of each cooperation scheme per method, mean over seeds; None where there are none."""
    names = list(dict.fromkeys(name for line in group for s in line.summaries for name in s.schemes))
    if not names:
        return None
    body = [
        [line.name, *(number(100 * line.mean(lambda s, n=n: s.schemes.get(n, math.nan))) for n in names)]
        for line in group
    ]
    return ["method", *(f"{name} %" for name in names)], body
