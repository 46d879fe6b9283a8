"""Pictures: places by hand, and that they are XML."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import pytest

from llm_dec_pomdp.benchmarks.charts import Series, bar_chart, line_chart, scatter, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 100, [0, 20, 40, 60, 80, 100]), (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (-3, 7, [-4, -2, 0, 2, 4, 6, 8])],
)
def test_ticks_are_round_and_cover_the_range(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == expected


def test_ticks_of_a_range_without_width() -> None:
    assert ticks(5, 5)[0] <= 5 <= ticks(5, 5)[-1]


def test_points_stand_where_their_values_are() -> None:
    picture = line_chart(
        [Series("a <b>", [0, 50, 100], [0, 50, 100], [0, 40, 90], [10, 60, 100])],
        title="t & u",
        x_label="x",
        y_label="y",
        y_range=(0, 100),
    )
    root = ElementTree.fromstring(picture)
    marks = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.iter("circle")]
    assert marks == [(52, 316), (340, 164), (628, 12)]
    assert [c[0].text for c in root.iter("circle")][1] == "a <b>: 50.0 at 50"
    assert root.attrib["aria-label"] == "t & u"


def test_the_tip_of_a_small_value_has_the_decimals_it_needs() -> None:
    picture = line_chart([Series("a", [1, 2], [0.04123, 12.04])], title="t", x_label="x", y_label="y")
    assert [c[0].text for c in ElementTree.fromstring(picture).iter("circle")] == ["a: 0.0412 at 1", "a: 12.0 at 2"]


def test_bars_are_as_long_as_their_values_and_missing_ones_are_left_out() -> None:
    picture = bar_chart(
        {"part": [(1.0, 0.5, 1.5), (2.0, math.nan, math.nan), (math.nan, math.nan, math.nan)]},
        {"a": 0, "b": 1, "c": 2},
        title="t",
        x_label="x",
    )
    root = ElementTree.fromstring(picture)
    widths = [float(r.attrib["width"]) for r in root.iter("rect")]
    assert widths == [288.0, 576.0]
    assert len([line for line in root.iter("line") if line.attrib["class"] == "whisker"]) == 1


def test_a_scatter_names_its_points() -> None:
    root = ElementTree.fromstring(
        scatter([Series("fast", [1], [90]), Series("slow", [9], [95], [90], [99])], title="t", x_label="x", y_label="y")
    )
    assert {"fast", "slow"} <= {text.text for text in root.iter("text")}
