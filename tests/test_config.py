from __future__ import annotations

from pathlib import Path

import pydantic
import pytest

from llm_dec_pomdp.config import Config, ConfigError, build, override, read_toml


class Optimiser(Config):
    learning_rate: float = 1e-3
    """Step size."""
    steps: int = 10


class Run(Config):
    seed: int = 0
    name: str = "run"
    optimiser: Optimiser = Optimiser()
    reviewer: Optimiser | None = None


# --- build ------------------------------------------------------------------------------------------------------------


def test_values_become_fields() -> None:
    run = build(Run, {"seed": 3, "optimiser": {"steps": 4}}, source="test")
    assert (run.seed, run.optimiser.steps, run.optimiser.learning_rate) == (3, 4, 1e-3)


def test_an_unknown_key_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"sed: no such key; did you mean seed\?"):
        build(Run, {"sed": 3}, source="test")


def test_an_unknown_nested_key_is_answered_from_its_own_table() -> None:
    with pytest.raises(ConfigError, match=r"optimiser.learning_rte: no such key; did you mean learning_rate\?"):
        build(Run, {"optimiser": {"learning_rte": 1}}, source="test")


def test_an_unknown_key_of_an_optional_table_is_answered_from_its_own_table() -> None:
    with pytest.raises(ConfigError, match=r"reviewer.learning_rte: no such key; did you mean learning_rate\?"):
        build(Run, {"reviewer": {"learning_rte": 1}}, source="test")


def test_an_unknown_key_that_resembles_nothing_lists_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"zzz: no such key; known: name, optimiser, reviewer, seed"):
        build(Run, {"zzz": 1}, source="test")


def test_a_wrong_type_names_key_and_value() -> None:
    with pytest.raises(ConfigError, match=r"optimiser.steps = 'many': .*integer"):
        build(Run, {"optimiser": {"steps": "many"}}, source="test")


def test_all_problems_are_listed_with_the_source() -> None:
    with pytest.raises(ConfigError) as caught:
        build(Run, {"sed": 1, "name": 3}, source="run.toml")
    lines = str(caught.value).splitlines()
    assert lines[0] == "run.toml: 2 problem(s)"
    assert len(lines) == 3


def test_a_key_is_named_as_the_user_calls_it() -> None:
    with pytest.raises(ConfigError, match=r"  --seed = 'x': "):
        build(Run, {"seed": "x"}, source="options", names={"seed": "--seed"})


def test_configurations_are_frozen() -> None:
    with pytest.raises(pydantic.ValidationError):
        Run().seed = 1  # type: ignore[misc]


def test_field_docstrings_are_descriptions() -> None:
    assert Optimiser.model_fields["learning_rate"].description == "Step size."


# --- override ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1e-4", 1e-4),
        ("true", True),
        ('"1"', "1"),
        ("[1, 2]", [1, 2]),
        ("magrpo", "magrpo"),
        ("a b", "a b"),
        ("x=y", "x=y"),
        ("", ""),
    ],
)
def test_values_are_toml_and_bare_words_are_text(text: str, value: object) -> None:
    assert override({}, [f"key={text}"]) == {"key": value}


def test_a_dotted_key_reaches_into_a_table() -> None:
    assert override({"a": {"b": 1, "c": 2}}, ["a.b=3"]) == {"a": {"b": 3, "c": 2}}


def test_a_dotted_key_makes_missing_tables() -> None:
    assert override({}, ["a.b.c=3"]) == {"a": {"b": {"c": 3}}}


def test_the_last_assignment_wins() -> None:
    assert override({}, ["a=1", "a=2"]) == {"a": 2}


def test_spaces_around_the_key_and_the_value_are_ignored() -> None:
    assert override({}, [" a.b = 3 "]) == {"a": {"b": 3}}


def test_the_given_values_are_left_alone() -> None:
    values = {"a": {"b": {"c": 1}}}
    override(values, ["a.b.c=2", "a.d=3", "e=4"])
    assert values == {"a": {"b": {"c": 1}}}


@pytest.mark.parametrize("assignment", ["key", "=1", " =1", ""])
def test_an_assignment_without_key_or_value_is_explained(assignment: str) -> None:
    with pytest.raises(ConfigError, match=r"not of the form key=value"):
        override({}, [assignment])


@pytest.mark.parametrize("value", [1, "text", [1]])
def test_a_dotted_key_into_a_plain_value_is_explained(value: object) -> None:
    with pytest.raises(ConfigError, match=r"a\.b"):
        override({"a": value}, ["a.b=2"])


def test_an_overridden_configuration_is_validated() -> None:
    assert build(Run, override({"seed": 1}, ["optimiser.steps=5"]), source="test").optimiser.steps == 5


# --- read_toml --------------------------------------------------------------------------------------------------------


def test_toml_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('name = "überall"\n[optimiser]\nsteps = 3\n', encoding="utf-8")
    assert read_toml(path) == {"name": "überall", "optimiser": {"steps": 3}}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.toml' cannot be read: No such file"):
        read_toml(tmp_path / "none.toml")


def test_bad_toml_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("a = 1\nb = = 2\n")
    with pytest.raises(ConfigError, match=r"bad.toml' is not valid TOML: .*line 2"):
        read_toml(path)


def test_a_file_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b'a = "\xe9"\n')
    with pytest.raises(ConfigError, match=r"latin.toml' is not valid TOML"):
        read_toml(path)
