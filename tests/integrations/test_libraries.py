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


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the package declares, whichever version of it is installed."""
    monkeypatch.setattr(
        libraries, "_requirements", lambda extra: [Requirement("gem-llm>=0.1")] if extra == "gem" else []
    )


def test_a_library_that_no_requirement_names_is_said_with_its_extra() -> None:
    with pytest.raises(ImportError, match=r"'nothing_like_it' is not installed: pip install -e '.\[dev\]'"):
        library("nothing_like_it.inside", "dev")


def test_a_library_that_is_missing_is_said_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    with pytest.raises(ImportError, match=r"gem-llm is not installed.*: pip install -e '.\[gem\]'"):
        library("gem", "gem")


def test_a_version_that_is_too_old_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "0.0.9")
    with pytest.raises(ImportError, match=r"gem-llm 0.0.9 is installed, but .* needs >=0.1: pip install"):
        library("gem", "gem")


@pytest.mark.parametrize("adapter", ["benchmarl", "gem", "openenv", "textarena", "trl", "verifiers"])
@pytest.mark.parametrize(
    ("installed", "message"), [(None, "is not installed"), ("0.0.1", r"0.0.1 is installed")], ids=["missing", "too old"]
)
def test_every_adapter_says_what_it_lacks(
    adapter: str, installed: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if installed is None:
            raise metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(libraries, "_requirements", declared_for)
    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.delitem(sys.modules, module_of(adapter), raising=False)
    with pytest.raises(
        ImportError, match=rf"{message}, but the adapter '{adapter}' needs .*: pip install -e '\.\[{adapter}\]'"
    ):
        begin(adapter)


def declared_for(extra: str) -> list[Requirement]:
    project = read_toml(Path(__file__).parents[2] / "pyproject.toml")["project"]
    return [Requirement(text) for text in project["optional-dependencies"][extra]]


def module_of(adapter: str) -> str:
    folder = "contrib.external_games" if adapter in ("gem", "textarena") else "integrations"
    return f"llm_dec_pomdp.{folder}.{adapter}"


def begin(adapter: str) -> None:
    """Import the adapter; where that needs no library yet, use it."""
    module = importlib.import_module(module_of(adapter))
    if adapter == "trl":
        module.rollout_func(make("tldr-v0"))
    getattr(module, f"from_{adapter}")("game:Mastermind-v0-easy", roles=("adviser", "player"))


def test_what_a_library_lacks_itself_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lacking.py").write_text("import nothing_of_that_name\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(metadata, "version", lambda name: "1.0")
    with pytest.raises(ImportError, match="'nothing_of_that_name'"):
        library("lacking", "gem")


def test_a_library_that_is_there_is_imported() -> None:
    assert library("json", "dev") is sys.modules["json"]


def test_an_error_of_a_library_keeps_its_words() -> None:
    with pytest.raises(RuntimeError, match=r"'1' with {'cls': 3}: TypeError"):
        construct(__import__("json").loads, "1", {"cls": 3})
