"""The report as one HTML file: read by a parser, and used in a real browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright


class Parsed(HTMLParser):
    """Checks that elements close in order, and collects what the page refers to and shows."""

    VOID = {"meta", "input", "br", "link", "img"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.seen: list[str] = []
        self.rows: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.references += [str(value) for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag == "tr":
            self.rows.append("")
        if tag not in self.VOID and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "rect", "polygon", "polyline", "circle") or (self.open and self.open[-1] == tag):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "tr" in self.open:
            self.rows[-1] += data


def test_the_page_is_whole_and_refers_to_nothing_else(run: Path) -> None:
    text = (run / "report.html").read_text()
    page = Parsed()
    page.feed(text)
    page.close()
    assert page.open == []
    assert page.references == []
    assert "http" not in text.split("<script")[0]
    diagnostics = 7  # of the one method that learns
    assert page.seen.count("svg") == 2 * (3 + diagnostics) + 2  # curves, parts and speed, twice; profile and means
    published = [row for row in page.rows if "published" in row]
    assert len(published) == 3
    assert any("94.5" in row and "Qwen3-1.7B" in row for row in published)


def test_the_page_holds_every_method_of_a_task_side_by_side(run: Path) -> None:
    text = (run / "report.html").read_text()
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    for environment in ("tldr-v0", "coophumaneval-v0"):
        for by_method in data["episodes"][environment].values():
            assert list(by_method) == ["single", "concat", "magrpo"]
            (turn,) = by_method["concat"]["turns"]
            assert turn["observations"]["agent_0"]
            assert set(turn["actions"]) == {"agent_0", "agent_1"}


# --- in a browser -----------------------------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture
def report(browser: Browser, run: Path) -> Iterator[Page]:
    """The report of the small run, opened; at the end nothing was complained about and nothing asked for elsewhere."""
    complaints: list[str] = []
    asked: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((run / "report.html").as_uri())
    yield page
    page.close()
    assert complaints == []
    assert asked == [(run / "report.html").as_uri()]


def shown_rows(page: Page) -> list[list[str]]:
    """The cells of the rows of the headline table that can be seen."""
    rows = page.locator("#headline tbody tr:visible")
    return [row.locator("td").all_inner_texts() for row in rows.all()]


def test_a_click_on_a_column_sorts_by_it(report: Page) -> None:
    button = report.locator("#headline th button", has_text="return %")
    for order in ("ascending", "descending"):
        button.click()
        assert report.locator("#headline th[aria-sort]").get_attribute("aria-sort") == order
        returns = [float(row[4]) for row in shown_rows(report)]
        assert len(set(returns)) > 2
        assert returns == sorted(returns, reverse=order == "descending")


def test_words_filter_the_rows(report: Page) -> None:
    everything = len(shown_rows(report))
    report.get_by_label("Filter").first.fill("tldr MAGRPO")
    assert [row[0] for row in shown_rows(report)] == ["tldr-v0", "tldr-v0"]  # measured and published
    report.get_by_label("Filter").first.fill("nothing like it")
    assert shown_rows(report) == []
    report.get_by_label("Filter").first.fill("")
    assert len(shown_rows(report)) == everything


def test_one_reads_what_each_agent_saw_and_said(report: Page, run: Path) -> None:
    report.get_by_label("Environment").select_option("coophumaneval-v0")
    tasks = report.get_by_label("Task").locator("option").all_inner_texts()
    report.get_by_label("Task").select_option(tasks[1])
    panels = report.locator("#episodes .episode")
    assert panels.locator("h3").all_inner_texts() == ["single", "concat", "magrpo"]
    (path,) = run.glob("cells/coophumaneval_v0-concat-*/episodes.jsonl")
    (episode,) = (line for line in map(json.loads, path.read_text().splitlines()) if line["task"] == tasks[1])
    (turn,) = episode["turns"]
    concat = panels.nth(1)
    said = [text.strip() for text in concat.locator("> pre").all_text_contents()]
    assert said == [turn["actions"][agent].strip() for agent in ("agent_0", "agent_1")]
    saw = concat.locator("details pre").first
    assert not saw.is_visible()
    concat.get_by_text("what it saw").first.click()
    assert saw.is_visible()
    assert saw.text_content() == turn["observations"]["agent_0"]
    assert f"Score {turn['score']:.2f}: structure" in concat.locator(".parts").inner_text()


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_the_page_fits_the_screen(report: Page, width: int) -> None:
    report.evaluate("document.querySelector('li code').textContent = 'a/very/long/path'.repeat(20)")
    report.evaluate("document.querySelectorAll('details').forEach((folded) => { folded.open = true; })")
    report.set_viewport_size({"width": width, "height": 780})
    assert report.evaluate("document.documentElement.scrollWidth") <= width
    for picture in report.locator("svg").all():
        box = picture.bounding_box()
        assert box is not None
        assert 0 <= box["x"] < box["x"] + box["width"] <= width


def test_dark_and_light_follow_the_reader(report: Page) -> None:
    colours = (
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('svg text')).fill]"
    )
    report.emulate_media(color_scheme="light")
    light = report.evaluate(colours)
    report.emulate_media(color_scheme="dark")
    dark = report.evaluate(colours)
    assert all(a != b for a, b in zip(light, dark, strict=True))
