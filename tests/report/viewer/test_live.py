"""The episodes of a run behind a server of this machine: what it answers, and to whom."""

from __future__ import annotations

import http.client
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import packed
from playwright.sync_api import Browser

from llm_dec_pomdp.report.viewer.live import HOST, server

LAST = "episodes/step-2.jsonl"


@pytest.fixture
def growing(run: Path, tmp_path: Path) -> Path:
    """A run of which one cell is not done."""
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    cell = next(iter(folder.glob("cells/*magrpo*")))
    shutil.move(cell / "result.json", tmp_path / "result.json")
    shutil.move(cell / LAST, tmp_path / "last.jsonl")
    return folder


@pytest.fixture
def port(growing: Path) -> Iterator[int]:
    serving = server(growing, 0)
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield serving.server_port
    serving.shutdown()
    serving.server_close()


def answer(port: int, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    return response.status, response.read().decode()


def methods(text: str) -> set[str]:
    return {choice[2] for choice in packed(text)["choices"]}


def test_the_page_grows_with_the_run(growing: Path, port: int) -> None:
    before, page = answer(port, "/state"), answer(port, "/")[1]
    assert answer(port, "/state") == before
    waiting = next(iter(growing.glob("cells/*magrpo*")))
    shutil.copy(growing.parent / "last.jsonl", waiting / LAST)
    assert answer(port, "/state") != before
    assert methods(answer(port, "/")[1]) >= methods(page) >= {"single", "concat"}
    assert len(packed(answer(port, "/")[1])["traces"]) > len(packed(page)["traces"])


def test_nobody_is_answered_who_asks_for_another_path_or_host(port: int) -> None:
    assert answer(port, "/../versions.json")[0] == 404
    assert answer(port, "/cells")[0] == 404
    assert answer(port, "/", Host="example.org")[0] == 404
    assert answer(port, "/", Host=f"example.org:{port}")[0] == 404


def test_a_reader_is_told_of_new_episodes_and_sees_them(growing: Path, port: int, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"http://{HOST}:{port}/")
    page.locator(".row").first.wait_for()
    shutil.copy(growing.parent / "last.jsonl", next(iter(growing.glob("cells/*magrpo*"))) / LAST)
    page.get_by_role("button", name="Show them").click()
    page.get_by_text("episodes;").wait_for()
    held = len(packed(page.content())["traces"])
    assert held == len(packed(answer(port, "/")[1])["traces"])
    page.close()
