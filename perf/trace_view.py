"""How soon a page of traces shows its rows, and what scrolling costs: python perf/trace_view.py [EVENTS] (Chromium)."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from llm_dec_pomdp.traces.page import render

AGENTS, OPENINGS, FRAMES, PIXELS = 6, 5, 120, 120
SCROLL = """async ([frames, pixels]) => {
  const list = document.querySelector(".list");
  for (let frame = 0; frame < frames; frame += 1) {
    list.scrollTop = 1000 + frame * pixels;
    await new Promise(requestAnimationFrame);
  }
}"""


def long_trace(count: int) -> dict[str, Any]:
    """Agents that speak in turn, each having read what all of them said last."""
    events = [
        {"id": f"e{n}", "t": n / AGENTS, "type": "message", "agent": f"agent_{n % AGENTS}", "turn": n // AGENTS}
        | {"content": f"What was said as number {n}: " + "word " * 30, "tokens": {"sampled": 30}, "reward": 0.1}
        for n in range(count)
    ]
    pairs = ((before, n) for n in range(count) for before in range(max(0, n - AGENTS), n))
    edges = [{"src": f"e{before}", "dst": f"e{n}", "type": "message"} for before, n in pairs]
    costs = {"tokens": 30 * count, "wall_clock_s": count / AGENTS}
    return {"trace_id": "long", "task_id": "1", "events": events, "edges": edges, "rewards": {}, "costs": costs}


def main() -> None:
    """Open a page several times, and scroll the last one."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    trace = long_trace(count)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        path = Path(folder) / "long.html"
        path.write_text(render([trace]), encoding="utf-8")
        print(f"{count} events, {len(trace['edges'])} edges, {path.stat().st_size / 1e6:.2f} MB")
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for _ in range(OPENINGS):
            measure_opening(browser, path.as_uri())
        measure_scrolling(browser, path.as_uri())
        browser.close()


def measure_opening(browser: Browser, address: str) -> None:
    """Milliseconds from the beginning of the loading to the first paint, and at most to the first row."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address)
    page.locator(".row").first.wait_for()
    rows = page.evaluate("performance.now()")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    print(f"first paint {paint:.0f} ms, rows {rows:.0f} ms")
    page.close()


def measure_scrolling(browser: Browser, address: str) -> None:
    """Milliseconds of the page's own work per frame."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address)
    page.locator(".row").first.wait_for()
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable")

    def spent() -> dict[str, float]:
        return {metric["name"]: metric["value"] for metric in client.send("Performance.getMetrics")["metrics"]}

    before = spent()
    page.evaluate(SCROLL, [FRAMES, PIXELS])
    after = spent()
    parts = {name: 1000 * (after[name] - before[name]) / FRAMES for name in after if name.endswith("Duration")}
    shown = ", ".join(f"{name[:-8]} {parts[name]:.2f}" for name in sorted(parts) if parts[name] > 0.005)
    print(f"scrolling by {PIXELS} pixels a frame, ms a frame: {shown}")


if __name__ == "__main__":
    main()
