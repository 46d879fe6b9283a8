"""The report as one HTML file: read by a parser, and used in a real browser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from evaluated import last_episodes
from pages import Parsed, packed
from playwright.sync_api import Page

from llm_dec_pomdp.printable import escape_controls
from llm_dec_pomdp.report import page as report_page
from llm_dec_pomdp.report.findings import findings
from llm_dec_pomdp.report.page import render_page
from llm_dec_pomdp.results.runs import read_run


def test_the_page_is_whole_and_refers_to_nothing_else(run: Path) -> None:
    text = (run / "report.html").read_text()
    page = Parsed()
    page.feed(text)
    page.close()
    assert page.open == []
    assert page.references == []
    assert "://" not in text.split("<script")[0]
    for environment in ("tldr-v0", "coophumaneval-v0"):
        names = re.findall(rf'aria-label="{environment}: (.*?)"', text)
        assert names[:3] == ["test return, %", "return", "return (%) by response time"]
        training = names.index("training return, %")
        parts = names[3:training]
        assert "structure" in parts
        updates = names.index("truncated")
        assert all(part in names[training + 1 : updates] for part in parts)  # nobody earns the others
        assert {"truncated", "length", "clipped", "loss", "grad_norm"} <= set(names[updates:])
    published = [row for row in page.rows if "published" in row]
    assert len(published) == 3
    assert any("94.5" in row and "Qwen3-1.7B" in row for row in published)


def test_the_page_holds_every_method_of_every_task(run: Path) -> None:
    page = packed((run / "report.html").read_text())
    chosen = [dict(zip(page["fields"], values, strict=True)) for values in page["choices"]]
    for environment in ("tldr-v0", "coophumaneval-v0"):
        mine = [values for values in chosen if values["environment"] == environment]
        tasks = {values["task"] for values in mine}
        assert len(tasks) == 2
        assert {(v["task"], v["method"]) for v in mine} == {
            (t, m) for t in tasks for m in ("single", "concat", "magrpo")
        }
        assert {v["training steps"] for v in mine if v["method"] == "magrpo"} >= {"2"}


def test_a_page_holds_as_many_episodes_of_every_checkpoint_and_says_what_it_leaves_out(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "MOST", 4_000)
    whole = read_run(run)
    text = render_page("small", [whole], findings(whole.entries), whole.entries, [])
    page = packed(text)
    by_method = Counter((values[0], values[2]) for values in page["choices"])
    assert 1 <= len(page["traces"]) < 12
    assert max(by_method.values()) - min(by_method.values()) <= 1
    assert f"the first {len(page['traces'])} episodes" in " ".join(text.split())
    assert "This page has the first" not in (run / "report.html").read_text()


# --- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture
def report(opened: Callable[..., Page], run: Path) -> Page:
    """The report of the small run, opened."""
    return opened(run / "report.html")


def shown_rows(page: Page) -> list[list[str]]:
    """The cells of the rows of the headline table that can be seen."""
    rows = page.locator("#headline tbody tr:visible")
    return [row.locator("td").all_inner_texts() for row in rows.all()]


def test_a_click_on_a_column_sorts_by_it(report: Page) -> None:
    button = report.locator("#headline th button", has_text="return %")
    for order in ("ascending", "descending"):
        button.click()
        assert report.locator("#headline th[aria-sort]").get_attribute("aria-sort") == order
        returns = [float(row[2]) for row in shown_rows(report)]
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


def test_one_reads_what_each_agent_saw_and_said_under_two_methods(report: Page, run: Path) -> None:
    left, right = report.get_by_label("Trace A"), report.get_by_label("Trace B")
    for pane, method in ((left, "concat"), (right, "magrpo")):
        pane.get_by_label("environment").select_option("coophumaneval-v0")
        pane.get_by_label("task").select_option(index=1)
        pane.get_by_label("method").select_option(method)
        pane.get_by_label("training steps").select_option(index=0)  # the most trained come first
    task = left.get_by_label("task").input_value()
    assert right.get_by_label("task").input_value() == task
    for number, method in enumerate(("concat", "magrpo")):
        (cell,) = run.glob(f"cells/coophumaneval_v0-{method}-*")
        (episode,) = (episode for episode in last_episodes(cell) if episode.item_id == task)
        (turn,) = episode.turns
        for agent, role in (("agent_0", "aux"), ("agent_1", "main")):
            row = left.locator(".row").filter(has=report.locator(".who", has_text=role))
            row.first.click()
            side = report.get_by_label("Chosen event").locator("article").nth(number)
            assert side.locator("pre").all_text_contents() == [escape_controls(turn.actions[agent].text)]
            side.get_by_role("button", name="environment").first.click()  # what the text followed from
            assert escape_controls(turn.observations[agent]) in side.locator("pre").all_text_contents()


@pytest.mark.parametrize("width", [360, 1300])
def test_the_page_fits_the_screen(report: Page, width: int) -> None:
    report.evaluate("document.querySelector('li code').textContent = 'a/very/long/path'.repeat(20)")
    report.evaluate("document.querySelectorAll('details').forEach((folded) => { folded.open = true; })")
    report.set_viewport_size({"width": width, "height": 780})
    report.locator(".row").first.click()
    assert report.evaluate("document.documentElement.scrollWidth") <= width
    for picture in report.locator("figure svg").all():
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
