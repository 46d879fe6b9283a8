"""Measure loading and scrolling of the trace viewer in Chromium: python perf/trace_view.py [EVENTS].

Work is the processor time of the page's main thread in each frame, from Chromium's tracing. The frame rate depends on
the machine: without a GPU, other threads and another process of the CPU also compute the pixels.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from llm_dec_pomdp.report.viewer.page import render

OPENINGS = 5
FRAME, LONG = 16.7, 50.0  # ms: a frame at 60 per second; a "long task" of the browser
WAYS = {"by 120 pixels a frame": 120, "by a screen a frame": 700}
SCROLL = """async (pixels) => {
  const list = document.querySelector(".list");
  const times = [];
  for (let top = 0; top < list.scrollHeight - list.clientHeight; top += pixels) {
    performance.mark("frame");
    list.scrollTop = top;
    times.push(await new Promise(requestAnimationFrame));
  }
  performance.mark("frame");
  return times;
}"""
PARTS = {
    "script": {"FunctionCall", "FireAnimationFrame", "EvaluateScript"},
    "style": {"UpdateLayoutTree"},
    "layout": {"Layout"},
    "paint": {"PrePaint", "Paint", "Layerize", "Commit"},
}


def long_trace(count: int, agents: int) -> dict[str, Any]:
    """Return a trace in which agents act in turn, and each has read the last actions of the six agents before it."""
    events = [
        {"id": f"e{n}", "t": n / agents, "type": "message", "agent": f"agent_{n % agents}", "turn": n // agents}
        | {"content": f"What was said as number {n}: " + "word " * 30, "tokens": {"sampled": 30}, "reward": 0.1}
        for n in range(count)
    ]
    pairs = ((before, n) for n in range(count) for before in range(max(0, n - 6), n))
    edges = [{"src": f"e{before}", "dst": f"e{n}", "type": "message"} for before, n in pairs]
    costs = {"tokens": 30 * count, "wall_clock_s": count / agents}
    return {"trace_id": "long", "task_id": "1", "events": events, "edges": edges, "rewards": {}, "costs": costs}


def main() -> None:
    """Measure the opening and scrolling of several pages."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for agents in (6, count):
            path = Path(folder) / f"{agents}.html"
            trace = long_trace(count, agents)
            path.write_text(render([trace]), encoding="utf-8")
            size = path.stat().st_size / 1e6
            print(f"{count} events of {agents} agents, {len(trace['edges'])} edges, {size:.2f} MB")
            for _ in range(OPENINGS):
                measure_opening(browser, path.as_uri())
            for way, pixels in WAYS.items():
                measure_scrolling(browser, path.as_uri(), way, pixels)
        browser.close()


def opened(browser: Browser, address: str) -> Page:
    """Open a page, and return it when it shows its rows."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address)
    page.locator(".row").first.wait_for()
    return page


def measure_opening(browser: Browser, address: str) -> None:
    """Print milliseconds from the start of loading to the first paint, and an upper bound to the first row."""
    page = opened(browser, address)
    rows = page.evaluate("performance.now()")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    print(f"  first paint {paint:.0f} ms, rows {rows:.0f} ms")
    page.close()


def measure_scrolling(browser: Browser, address: str, way: str, pixels: int) -> None:
    """Scroll from the first event to the last, and print milliseconds between frames and of work in each frame."""
    page = opened(browser, address)
    kinds = ["disabled-by-default-devtools.timeline", "devtools.timeline", "blink.user_timing", "toplevel"]
    browser.start_tracing(page=page, categories=kinds)
    times = page.evaluate(SCROLL, pixels)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    page.close()
    marks = [event for event in events if event["name"] == "frame" and event["cat"] == "blink.user_timing"]
    starts = [mark["ts"] for mark in marks]
    spans = [event for event in events if event["ph"] == "X"]
    on_main = [e for e in spans if (e["pid"], e["tid"]) == (marks[0]["pid"], marks[0]["tid"])]
    print(f"  scrolling {way}: {len(times)} frames")
    print(f"    ms between frames {spread([b - a for a, b in itertools.pairwise(times)])}")
    print(f"    ms of work in a frame {spread(per_frame(on_main, {'RunTask'}, starts))}")
    tasks = [e for e in on_main if e["name"] == "RunTask" and starts[0] <= e["ts"] < starts[-1]]
    long = {clock: sum(e.get(clock, e["dur"]) > 1000 * LONG for e in tasks) for clock in ("tdur", "dur")}
    print(
        f"    tasks above {LONG:.0f} ms: {long['tdur']} by processor time, {long['dur']} by wall time, of {len(tasks)}"
    )
    means = ((name, fmean(per_frame(on_main, kind, starts))) for name, kind in PARTS.items())
    pixels_ms = sum(e.get("tdur", e["dur"]) for e in spans if e["name"] == "RasterTask") / 1000 / len(times)
    shown = ", ".join(f"{name} {mean:.1f}" for name, mean in means)
    print(f"    on average {shown}; pixels, on other threads, {pixels_ms:.1f}")


def per_frame(events: Sequence[dict[str, Any]], names: set[str], starts: Sequence[int]) -> list[float]:
    """Return the processor time in ms of the outermost events with some names, by the frame in which they start."""
    spent = [0.0] * (len(starts) - 1)
    ended, frame = 0, 0
    for event in sorted((e for e in events if e["name"] in names), key=lambda e: e["ts"]):
        if event["ts"] < max(ended, starts[0]) or event["ts"] >= starts[-1]:
            continue
        ended = event["ts"] + event["dur"]
        while event["ts"] >= starts[frame + 1]:
            frame += 1
        spent[frame] += event.get("tdur", event["dur"]) / 1000
    return spent


def spread(values: Sequence[float]) -> str:
    """Return as text: median, 95th percentile, maximum, and the number of values above a frame at 60 per second."""
    above = sum(value > FRAME for value in values)
    high = quantiles(values, n=20)[-1]
    return f"{median(values):.1f}, 95 % within {high:.1f}, most {max(values):.1f}; {above} above {FRAME}"


if __name__ == "__main__":
    main()
