"""Libraries that are missing, too old or broken are said with the command that helps."""

from __future__ import annotations

import importlib
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from llm_dec_pomdp.config import read_toml
from llm_dec_pomdp.envs import make
from llm_dec_pomdp.integrations import libraries
from llm_dec_pomdp.integrations.libraries import construct, library


def module_of(adapter: str) -> str:
    folder = "contrib.external_games" if adapter in ("gem", "textarena") else "integrations"
    return f"llm_dec_pomdp.{folder}.{adapter}"


def begin(adapter: str) -> None:
    """Import the adapter; where that needs no library yet, use it."""
    module = importlib.import_module(module_of(adapter))
    if adapter == "trl":
        module.rollout_func(make("tldr-v0"))
    getattr(module, f"from_{adapter}")("game:Mastermind-v0-easy", roles=("adviser", "player"))


def declared(extra: str) -> list[Requirement]:
    """What the package declares, whichever version of it is installed."""
    project = read_toml(Path(__file__).parents[2] / "pyproject.toml")["project"]
    return [Requirement(text) for text in project["optional-dependencies"][extra]]


@pytest.mark.parametrize("adapter", ["benchmarl", "gem", "openenv", "textarena", "trl", "verifiers"])
@pytest.mark.parametrize("installed", [None, "0.0.1"], ids=["missing", "too old"])
def test_every_adapter_says_what_it_lacks(adapter: str, installed: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if installed is None:
            raise metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(libraries, "_requirements", declared)
    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.delitem(sys.modules, module_of(adapter), raising=False)
    with pytest.raises(ImportError, match=rf"{installed or ''}.*'{adapter}'.*\[{adapter}\]"):
        begin(adapter)


def test_what_a_library_lacks_itself_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ImportError, match=r"'nothing_like_it'.*\[dev\]"):  # no requirement names it
        library("nothing_like_it.inside", "dev")
    (tmp_path / "lacking.py").write_text("import nothing_of_that_name\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(libraries, "_requirements", lambda extra: [])
    with pytest.raises(ImportError, match="'nothing_of_that_name'"):
        library("lacking", "gem")


def test_an_error_of_a_library_keeps_its_words() -> None:
    with pytest.raises(RuntimeError, match=r"'1'.*TypeError"):
        construct(__import__("json").loads, "1", {"cls": 3})
