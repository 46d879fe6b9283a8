"""Panels as SVG in a page: places by hand, that they are XML, and that they have no style of their own."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest

from llm_dec_pomdp.evaluation.intervals import Interval
from llm_dec_pomdp.report.drawing import inline
from llm_dec_pomdp.report.figures import Panel, bar, rows

NAMED = "{http://www.w3.org/1999/xlink}href"


def drawn(panel: Panel) -> ElementTree.Element:
    return ElementTree.fromstring(
        inline(panel, "t & u").replace("<svg ", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" ', 1)
    )


def marks(root: ElementTree.Element, colour: int = 0) -> list[tuple[float, float]]:
    """Places of the marks of a colour."""
    uses = [use for use in root.iter("use") if use.attrib.get("fill") == f"var(--c{colour})" and "x" in use.attrib]
    return [(float(use.attrib["x"]), float(use.attrib["y"])) for use in uses if "fill-opacity" not in use.attrib]


def texts(root: ElementTree.Element) -> list[str | None]:
    return [text.text for text in root.iter("text")]


def test_points_stand_where_their_values_are() -> None:
    line = rows("a <b>", 0, [0, 50, 100], [0, 50, 100], [0, 40, 90], [10, 60, 100])
    root = drawn(Panel("lines", "v <w>", "x", line, (0, 100)))
    (left, low), (x, y), (right, high) = marks(root)
    assert (x, y) == pytest.approx(((left + right) / 2, (low + high) / 2), abs=0.2)
    assert left < right
    assert high < low
    assert root.attrib["aria-label"] == "t & u: v <w>"
    assert {"v <w>", "x", "0", "100"} <= set(texts(root))


def test_bars_have_their_names_intervals_and_seeds_and_what_is_missing_is_left_out() -> None:
    missing = Interval(math.nan, math.nan, math.nan)
    bars = [
        bar("a", 0, Interval(1.0, 0.5, 1.5), (0.8, 1.2)),
        bar("b", 1, Interval(2.0, math.nan, math.nan)),
        bar("c" * 400, 2, missing),
    ]
    root = drawn(Panel("bars", "v", "x", pd.concat(bars)))
    fills = [path.attrib.get("fill") for path in root.iter("path")]
    assert (fills.count("var(--c0)"), fills.count("var(--c1)"), fills.count("var(--c2)")) == (1, 1, 0)
    assert len(marks(root)) == 2
    assert {"a", "b", "c" * 400} <= set(texts(root))


def test_a_page_may_have_any_number_of_pictures_and_refuse_styles() -> None:
    points = pd.concat([rows("fast", 0, [1], [90]), rows("slow", 0, [9], [95], [90], [99])])
    panel = Panel("points", "v", "x", points, (0, 100))
    text = inline(panel, "t")
    assert "style" not in text
    assert "#0b66c3" not in text
    assert all(re.fullmatch(r"[mp][0-9a-f]+", name) for name in re.findall(r'id="(.*?)"', text))  # what they name
    assert text == inline(panel, "t")
