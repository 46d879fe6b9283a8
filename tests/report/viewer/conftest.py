"""What the tests of the viewer share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from trace_teams import Trace

from llm_dec_pomdp.report.viewer.page import render

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def shown(opened: Callable[..., Page], tmp_path: Path) -> Callable[..., Page]:
    """`shown(traces, width=1280)` -> their page, opened."""

    def show(traces: list[Trace], width: int = 1280) -> Page:
        path = tmp_path / "traces.html"
        path.write_text(render(traces), encoding="utf-8")
        page = opened(path, width)
        page.locator(".row").first.wait_for()
        return page

    return show
