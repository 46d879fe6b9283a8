"""What is missing or too old is said with the command that helps."""

from __future__ import annotations

import pytest

from llm_dec_pomdp.integrations import versions


def test_a_missing_library_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(versions.TRIED, "no-such-library", "1.2.3")
    with pytest.raises(ImportError, match=r"^no-such-library is not installed; pip install torch==2.13.0 no-such"):
        versions.require("no-such-library")


@pytest.mark.parametrize(
    ("installed", "enough"), [("1.15.9", False), ("1.16.0", True), ("1.16.3rc1", True), ("2.0", True)]
)
def test_an_older_release_is_refused(monkeypatch: pytest.MonkeyPatch, installed: str, enough: bool) -> None:
    def version(name: str) -> str:
        return installed

    monkeypatch.setattr(versions, "version", version)
    if enough:
        versions.require("trl")
    else:
        with pytest.raises(
            ImportError, match=r"trl 1.15.9 is older than 1.16.0.*pip install torch==2.13.0 trl==1.16.0"
        ):
            versions.require("trl")
