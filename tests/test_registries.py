from __future__ import annotations

import sys
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest

from llm_dec_pomdp.registries import Registry, Spec, load_attribute, nearest


@pytest.fixture
def registry() -> Registry:
    return Registry("widget", group="tests.no_such_group")


def build_pair(left: int = 1, right: int = 2) -> tuple[int, int]:
    return left, right


# --- nearest ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "known", "answer"),
    [
        ("tldr-v1", ["tldr-v0", "arxiv-v0"], "did you mean tldr-v0?"),
        ("cat-v2", ["cat-v0", "cat-v1"], "did you mean cat-v1 or cat-v0?"),
        ("zzz", ["beta", "alpha"], "known: alpha, beta"),
        ("zzz", [], "known: none"),
        ("lr", ["learning_rate", "local_rank", "clip"], "did you mean learning_rate or local_rank?"),
        (1.3, ["train", "test"], "known: test, train"),
        (None, ["train", "test"], "known: test, train"),
        (["a"], ["train", "test"], "known: test, train"),
    ],
)
def test_nearest_names_the_close_ones_or_all(name: object, known: list[str], answer: str) -> None:
    assert nearest(name, known) == answer


def test_nearest_lists_the_first_of_many() -> None:
    assert nearest("zz", [f"name{i:03}" for i in range(55)]).endswith("name048, name049 and 5 more")


# --- building ---------------------------------------------------------------------------------------------------------


def test_a_path_is_imported_when_built(registry: Registry) -> None:
    registry.register("fraction", "fractions:Fraction")
    assert registry.find("fraction").build(1, 2) == pytest.approx(0.5)


def test_registering_a_path_imports_nothing(registry: Registry) -> None:
    sys.modules.pop("this", None)
    registry.register("zen", "this:s")
    assert "this" not in sys.modules


def test_the_callers_arguments_win_over_registered_defaults(registry: Registry) -> None:
    registry.register("pair", build_pair, left=7)
    assert registry.find("pair").build() == (7, 2)
    assert registry.find("pair").build(left=8) == (8, 2)


# --- mapping ----------------------------------------------------------------------------------------------------------


def test_an_unknown_name_is_answered_with_the_nearest(registry: Registry) -> None:
    registry.register("pair", build_pair)
    with pytest.raises(KeyError) as caught:
        registry.find("pear")
    assert caught.value.args[0] == "no widget 'pear'; did you mean pair?"


def test_a_registry_is_a_mapping(registry: Registry) -> None:
    registry.register("b", build_pair)
    registry.register("a", build_pair)
    assert sorted(registry) == ["a", "b"]
    assert len(registry) == 2
    assert registry["a"] == Spec("a", build_pair, {})
    assert "pear" not in registry


def test_a_name_can_be_registered_again_for_the_same_alone(registry: Registry) -> None:
    for _ in range(2):
        registry.register("pair", build_pair, left=3)
    assert len(registry) == 1
    with pytest.raises(ValueError, match="'pair'"):
        registry.register("pair", "fractions:Fraction")


# --- entry points -----------------------------------------------------------------------------------------------------


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Installs one entry point `acme/pair`; the list records which groups were asked for."""
    groups: list[str] = []

    def entry_points(*, group: str) -> list[Any]:
        groups.append(group)
        return [SimpleNamespace(name="acme/pair", value=f"{__name__}:build_pair")] if group == "acme.widgets" else []

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    return groups


@pytest.mark.usefixtures("announced")
def test_an_entry_point_is_found_built_and_listed() -> None:
    registry = Registry("widget", group="acme.widgets")
    registry.register("pair", build_pair)
    assert registry.find("acme/pair").build() == (1, 2)
    assert set(registry) == {"acme/pair", "pair"}
    assert len(registry) == 2
    assert list(Registry("widget", group="acme.gadgets")) == []


@pytest.mark.usefixtures("announced")
def test_an_entry_point_is_offered_as_the_nearest_name() -> None:
    with pytest.raises(KeyError, match="acme/pair"):
        Registry("widget", group="acme.widgets").find("acme/pear")


@pytest.mark.usefixtures("announced")
def test_a_registered_name_wins_over_an_entry_point() -> None:
    registry = Registry("widget", group="acme.widgets")
    registry.register("acme/pair", build_pair, left=9)
    assert registry.find("acme/pair").build() == (9, 2)


def test_entry_points_are_not_read_for_a_registered_name(announced: list[str]) -> None:
    registry = Registry("widget", group="acme.widgets")
    registry.register("pair", build_pair)
    registry.find("pair")
    assert announced == []


# --- load_attribute ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "error", "named"),
    [
        ("fractions", ImportError, "thing.*'fractions'"),
        ("no_such_module:Thing", ImportError, "thing.*'no_such_module'"),
        ("needs_more:Thing", ImportError, "'needs_more'.*'no_such_dependency'"),
        ("fractions:Fractoin", ImportError, "'Fractoin'.*Fraction"),
        ("raises_on_import:Thing", RuntimeError, "my own fault"),
    ],
)
def test_what_cannot_be_loaded_is_named(
    path: str, error: type[Exception], named: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_more.py").write_text("import no_such_dependency\n")
    (tmp_path / "raises_on_import.py").write_text("raise RuntimeError('my own fault')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(error, match=named):
        load_attribute(path, what="thing")
