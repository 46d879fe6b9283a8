"""Panels as SVG: places by hand, and that they are XML."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import pytest

from llm_dec_pomdp.evaluation.intervals import Interval
from llm_dec_pomdp.report.charts import svg, ticks
from llm_dec_pomdp.report.figures import Bar, Bars, Lines, Panel, Points, Series


def drawn(panel: Panel) -> ElementTree.Element:
    return ElementTree.fromstring(svg(panel, "t & u"))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-3, 7, [-4, -2, 0, 2, 4, 6, 8]),
        (0, 4e-12, [0, 1e-12, 2e-12, 3e-12, 4e-12]),
        (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_ticks_are_round_and_cover_the_range(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == expected


def test_points_stand_where_their_values_are() -> None:
    line = Series("a <b>", [0, 50, 100], [0, 50, 100], [0, 40, 90], [10, 60, 100])
    root = drawn(Lines("v", "x", [line], (0, 100)))
    marks = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.iter("circle")]
    assert marks == [(46, 212), (216, 119), (386, 26)]
    assert [c[0].text for c in root.iter("circle")][1] == "a <b>: 50.0 at 50"
    assert root.attrib["aria-label"] == "t & u: v"


def test_the_tip_of_a_small_value_has_the_decimals_it_needs() -> None:
    root = drawn(Lines("v", "x", [Series("a", [1, 2], [0.04123, 12.04])]))
    assert [c[0].text for c in root.iter("circle")] == ["a: 0.0412 at 1", "a: 12.0 at 2"]


def test_every_step_of_a_long_curve_is_drawn_and_its_last_one_marked() -> None:
    steps = [float(step) for step in range(1, 201)]
    root = drawn(Lines("v", "x", [Series("a", steps, steps)]))
    (line,) = root.iter("polyline")
    assert len(line.attrib["points"].split()) == 200
    assert [c[0].text for c in root.iter("circle")] == ["a: 200.0 at 200"]


def test_bars_are_as_long_as_their_values_with_their_interval_and_seeds() -> None:
    missing = Interval(math.nan, math.nan, math.nan)
    bars = [
        Bar("a", Interval(1.0, 0.5, 1.5), (0.8, 1.2)),
        Bar("b", Interval(2.0, math.nan, math.nan)),
        Bar("c", missing),
    ]
    root = drawn(Bars("v", "x", bars))
    assert [float(r.attrib["width"]) for r in root.iter("rect")] == [186.0, 372.0]
    (whisker,) = (line for line in root.iter("line") if line.attrib["class"] == "whisker")
    assert [float(whisker.attrib[x]) for x in ("x1", "x2")] == [107.0, 293.0]
    assert [float(c.attrib["cx"]) for c in root.iter("circle")] == [162.8, 237.2]
    assert {"a", "b", "c"} <= {text.text for text in root.iter("text")}


def test_bars_that_are_all_zero_have_an_axis_to_one() -> None:
    root = drawn(Bars("v", "x", [Bar("a", Interval(0.0, 0.0, 0.0))]))
    assert [t.text for t in root.iter("text") if t.attrib["class"] == "tick"][:6] == [
        "0",
        "0.2",
        "0.4",
        "0.6",
        "0.8",
        "1",
    ]


def test_points_have_names_and_intervals() -> None:
    root = drawn(Points("v", "x", [Series("fast", [1], [90]), Series("slow", [9], [95], [90], [99])], (0, 100)))
    assert [c[0].text for c in root.iter("circle")] == ["fast: 90.0 at 1", "slow: 95.0 at 9"]
    assert len([line for line in root.iter("line") if "c0" in line.attrib["class"]]) == 1
