"""The generated pages say what the package says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = runpy.run_path(str(ROOT / "scripts" / "build_docs.py"))


@pytest.mark.parametrize("name", sorted(BUILD["PAGES"]))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == BUILD["PAGES"][name](), f"docs/{name} has fallen behind: python scripts/build_docs.py"
