"""Traces whose texts, ids and names are hostile: the page shows text and runs nothing."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import packed
from playwright.sync_api import Browser, Page
from trace_teams import Trace, team, trace

from llm_dec_pomdp.printable import escape_controls
from llm_dec_pomdp.report.viewer.page import render

HOSTILE = [
    *("<script>alert(1)</script>", "</script><script>alert(2)</script>", "<img src=x onerror=alert(3)>", "<!--", "]]>"),
    *("javascript:alert(4)", "__proto__", "constructor", "toString", "{{ 7 }}", "&lt;b&gt;", "' onclick='alert(5)"),
    *(
        '"><svg onload=alert(6)>',
        "\x01",
        "\x011",
        "\x1b[31m",
        "\u202e",
        "\ud800",
        "\u2028",
        "c0 edge",
        "#a .b",
        " ",
        "漢字",
    ),
]


def hostile(draw: random.Random, name: str) -> Trace:
    """A trace in which every text, id and name is hostile."""
    types = ["message", "spawn", "despawn", "tool_call", "tool_result", "return", "aggregate", draw.choice(HOSTILE)]

    def some_text() -> str:
        return "".join(draw.choice(HOSTILE) for _ in range(draw.randint(1, 3)))

    events: list[dict[str, Any]] = []
    for number in range(30):
        event: dict[str, Any] = {"id": some_text() + str(number % 25), "t": draw.choice([0, 1, 2.5, math.nan])}
        event |= {"type": draw.choice(types), "agent": draw.choice(HOSTILE), "to": draw.choice(HOSTILE)}
        event |= {
            "content": draw.choice([some_text(), {some_text(): some_text()}, [some_text()], None, 3]),
            "tool": some_text(),
            some_text(): some_text(),
        }
        event |= {
            "turn": draw.choice([0, some_text()]),
            "reward": draw.choice([1.0, math.inf, some_text()]),
            "tokens": some_text(),
        }
        players = {name: {"role": draw.choice([some_text(), None, 3, {}])} for name in HOSTILE}
        events.append(event | {"header": {"players": draw.choice([some_text(), players])}, "score": some_text()})
    ids = [event["id"] for event in events] + ["nowhere"]
    edges = [(draw.choice(ids), draw.choice(ids), draw.choice(["message", "causal", some_text()])) for _ in range(60)]
    costs = {"tokens": 1, "wall_clock_s": math.nan, some_text(): 2.0}
    return trace(
        events,
        edges,
        some_text() + name,
        task_id=some_text(),
        rewards={some_text(): 1.0},
        costs=costs,
        topology=some_text(),
    )


def test_what_is_written_is_visible_text() -> None:
    text = render([hostile(random.Random(5), "1")])
    assert escape_controls(text) == text
    held = json.dumps(packed(text), ensure_ascii=False)
    assert escape_controls(held) == held


@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_of_a_trace_runs(shown: Callable[..., Page], seed: int) -> None:
    draw = random.Random(seed)
    page = shown([hostile(draw, "1"), hostile(draw, "2")])
    page.get_by_role("button", name="Two side by side").click()
    for number in range(30):
        page.keyboard.press("n") if number % 7 == 0 else page.locator(f"#viewer-0-{number}").dispatch_event("click")
        page.evaluate("document.querySelectorAll('details').forEach((folded) => { folded.open = true; })")
    page.get_by_label("Search").fill("<script>")
    page.locator(".group button").first.click()
    elements = set(page.evaluate("[...document.querySelectorAll('body *')].map((one) => one.localName)"))
    assert not elements & {"img", "iframe", "object", "a", "form", "link", "base"}
    attributes = "[...document.querySelectorAll('*')].flatMap((one) => [...one.attributes]).map((each) => each.name)"
    assert not [name for name in page.evaluate(attributes) if name.startswith(("on", "src", "href"))]
    assert page.locator("script").count() == 2


def test_the_rules_of_the_page_let_no_other_script_run(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "traces.html"
    path.write_text(render([team()]).replace("</body>", "<script>window.ran = true</script></body>"), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("window.ran") is None
    assert (
        page.evaluate("() => { try { document.body.innerHTML = '<i>'; } catch (e) { return e.name; } }") == "TypeError"
    )
    page.close()
