"""The page of traces: read by a parser, and used in a real browser."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from pages import Parsed, packed, written
from playwright.sync_api import Locator, Page
from trace_teams import team, trace

from llm_dec_pomdp.report.viewer import page as pages
from llm_dec_pomdp.report.viewer.page import Packed, render

Shown = Callable[..., Page]
TWO = [team(), team("The letter lies in Linz.", "team/2", third=True)]


# --- the file ---------------------------------------------------------------------------------------------------------


def test_the_page_is_whole_refers_to_nothing_and_holds_the_traces() -> None:
    text = render(TWO)
    parsed = Parsed()
    parsed.feed(text)
    parsed.close()
    assert parsed.open == []
    assert parsed.references == []
    assert text.count("<script") == 2
    page = packed(text)
    assert page["choices"] == [["letter", "team/1"], ["letter", "team/2"]]
    assert written(page["traces"], page["texts"]) == TWO
    assert render(TWO) == text


def test_a_text_stands_in_the_page_once_and_traces_of_one_name_can_be_told_apart() -> None:
    repeated = "as often as it was said " * 3
    events = [{"type": "message", "agent": f"a{number}", "content": repeated} for number in range(9)]
    assert packed(render([trace(events, [])]))["texts"] == [repeated]
    names = ["team/1", "team/1 (2)", "team/1 (3)"]
    assert packed(render([team(), team(), team()]))["choices"] == [["letter", name] for name in names]


def test_a_page_of_nothing_or_of_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no trace"):
        render([])
    monkeypatch.setattr(pages, "_MOST", 1500)
    with pytest.raises(ValueError, match=r"9 traces.*'team/.'"):
        render([team(str(random.Random(number).random()) * 9, f"team/{number}") for number in range(9)])


def test_what_has_no_room_leaves_the_page_as_it_was() -> None:
    noise = f"{random.Random(0).getrandbits(40_000):x}"
    long = trace([{"type": "message", "agent": "a", "content": noise}], [])
    kept = Packed(["trace"], 3000)
    assert kept.add(["1"], team())
    before = kept.text(), kept.size
    assert not kept.add(["2"], long)
    assert (kept.text(), kept.size) == before
    assert kept.add(["3"], team())
    assert len(kept) == 2
    assert len(kept.text()) <= kept.size <= 3000


# --- in a browser -----------------------------------------------------------------------------------------------------


def rows(place: Page | Locator) -> list[str]:
    """Who did what, of the rows in order."""
    shown = place.locator(".row").all()
    return [
        text for _, text in sorted((int(row.get_attribute("aria-posinset") or 0), row.inner_text()) for row in shown)
    ]


def row(page: Page, number: int, pane: int = 0) -> Locator:
    return page.locator(f"#viewer-{pane}-{number}")


def chosen(page: Page) -> str | None:
    """The row that the list names as its active one, which is also the one that is marked."""
    active = page.get_by_role("listbox").first.get_attribute("aria-activedescendant")
    marked = page.locator("[role=option][aria-selected=true]").first
    assert active == (marked.get_attribute("id") if marked.count() else None)
    return active


def test_rows_stand_in_order_of_time_with_what_they_cost_and_earned(shown: Shown) -> None:
    late = team()
    late["events"][2:4] = reversed(late["events"][2:4])
    page = shown([late])
    texts = rows(page)
    assert len(texts) == 12
    assert "ada" in texts[2] and "I do not know." in texts[2] and "5 tok" in texts[2]
    assert "turn 2" in texts[3]
    assert "+0.75" in texts[11]
    numbers = page.locator(".numbers").inner_text()
    assert "team 0.75" in numbers and "tokens 13" in numbers
    assert page.locator(".high").first.inner_text().split("\n") == ["reward 0.75", "tokens 13"]
    assert page.locator(".heads b").all_inner_texts() == ["environment", "ada", "bob", "searcher"]


def test_agents_go_by_their_roles_where_the_trace_has_players(shown: Shown) -> None:
    played = team()
    roles = {"ada": "main", "bob": "adviser", "searcher": "search", "idle": "search"}
    played["events"][0]["header"]["players"] = {agent: {"role": role} for agent, role in roles.items()}
    page = shown([played])
    assert page.locator(".heads b").all_inner_texts() == ["environment", "main", "adviser", "search"]
    texts = rows(page)
    assert "main" in texts[2] and "ada" not in texts[2]
    assert "search (searcher)" in texts[6] and "→ adviser" in texts[8]
    page.get_by_role("button", name="adviser").click()
    assert len(rows(page)) == 9


def test_a_click_shows_the_text_and_all_that_is_recorded_and_folds_a_thought(shown: Shown) -> None:
    thinking = team()
    thinking["events"][7]["thought"] = "Nobody else reads this."
    page = shown([thinking])
    assert not any("Nobody else" in text for text in rows(page))
    row(page, 7).click()
    detail = page.get_by_label("Chosen event")
    assert "Box 14, Graz" in detail.locator("pre").all_text_contents()
    thought = detail.get_by_text("Nobody else reads this.")
    assert not thought.is_visible()
    detail.get_by_text("Thought (private)").click()
    assert thought.is_visible()
    detail.get_by_text("All recorded fields").click()
    row(page, 11).click()
    names, values = (detail.locator(tag).all_inner_texts() for tag in ("dt", "dd"))
    assert dict(zip(names, values, strict=True))["score.components.right"] == "0.5"
    detail.get_by_role("button", name="bob").click()  # what it follows from
    assert chosen(page) == "viewer-0-10"


def test_agents_and_types_can_be_left_out(shown: Shown) -> None:
    page = shown([team()])
    page.get_by_role("button", name="environment").click()
    assert page.locator(".heads b").all_inner_texts() == ["ada", "bob", "searcher"]
    page.get_by_role("group", name="Types").get_by_role("button", name="message").click()
    assert len(rows(page)) == 5
    page.get_by_role("button", name="environment").click()
    assert len(rows(page)) == 7


def test_words_are_searched_in_all_that_an_event_holds(shown: Shown) -> None:
    page = shown([team()])
    page.keyboard.press("/")
    page.keyboard.type("graz")
    assert page.locator(".row.match").count() == 3
    for key, number in zip(("Enter", "Enter", "Enter", "Shift+Enter"), (7, 8, 10, 8), strict=True):
        page.keyboard.press(key)
        assert chosen(page) == f"viewer-0-{number}"
    page.keyboard.press("Escape")
    assert page.locator(".row.match").count() == 0


def test_the_keyboard_alone_does(shown: Shown) -> None:
    page = shown([team()])
    page.get_by_role("listbox").first.focus()
    for key, number in {"ArrowDown": 0, "j": 1, "End": 11, "k": 10, "Home": 0, "PageDown": 11}.items():
        page.keyboard.press(key)
        assert chosen(page) == f"viewer-0-{number}", key
    page.keyboard.press("Enter")
    assert page.get_by_label("Chosen event").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert chosen(page) is None
    assert not page.get_by_label("Chosen event").is_visible()


def test_two_traces_side_by_side_mark_what_differs(shown: Shown) -> None:
    page = shown(TWO)
    assert not page.get_by_label("Trace B").is_visible()
    page.get_by_role("button", name="Two side by side").click()
    assert [page.get_by_label(f"Trace {name}").locator("select").input_value() for name in "AB"] == ["team/1", "team/2"]
    marks = {name: page.get_by_label(f"Trace {name}").locator(".other").all_inner_texts() for name in "AB"}
    assert marks == {"A": ["≠"], "B": ["≠", "+"]}
    row(page, 10).click()
    assert row(page, 10, pane=1).get_attribute("aria-selected") == "true"
    sides = page.get_by_label("Chosen event").locator("article")
    assert [side.locator("mark").all_text_contents() for side in sides.all()] == [["Graz"], ["Linz"]]
    assert sides.nth(1).locator("pre").text_content() == "The letter lies in Linz."
    row(page, 12, pane=1).click()
    assert "No such event" in sides.nth(0).inner_text()


def test_of_ten_thousand_events_the_page_holds_those_that_can_be_seen(shown: Shown) -> None:
    events = [
        {"type": "message", "agent": f"agent_{number % 6}", "turn": number // 6, "content": f"word {number}"}
        for number in range(10_000)
    ]
    edges = [(f"e{number}", f"e{number + step}", "message") for number in range(9_990) for step in (6, 7)]
    page = shown([trace(events, edges)])
    page.get_by_role("listbox").first.focus()
    page.keyboard.press("End")
    assert "word 9999" in row(page, 9999).inner_text()
    assert page.locator(".row").count() < 80
    assert page.locator("*").count() < 1500


def test_what_the_schema_lets_through_is_shown_and_named(shown: Shown) -> None:
    """Ids that come twice, edges to nowhere, circles, times that are no numbers."""
    odd = team()
    odd["events"][1]["t"] = float("nan")
    odd["events"][3]["id"] = "e2"
    odd["edges"] += [{"src": "e5", "dst": "e4", "type": "causal"}, {"src": "e0", "dst": "e99", "type": "message"}]
    page = shown([odd])
    assert "2 edges" in page.get_by_label("Trace A").inner_text()
    assert "Where is the letter?" in rows(page)[-1]
    row(page, 4).click()
    assert page.locator(".marked .edge").count() > 0


def test_the_page_fits_a_narrow_screen(shown: Shown) -> None:
    wide = team("x" * 500)
    wide["events"] += [{"id": f"m{n}", "t": 99, "type": "message", "agent": f"agent_{n}" * 9} for n in range(40)]
    page = shown([wide, team("y" * 500, "z" * 300)], 360)
    page.get_by_role("button", name="Two side by side").click()
    row(page, 10).click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for name in (".list", ".detail"):
        assert page.locator(name).first.evaluate("(one) => one.scrollWidth <= one.clientWidth")
