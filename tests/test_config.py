from __future__ import annotations

from pathlib import Path
from typing import Any

import pydantic
import pytest

from llm_dec_pomdp.algorithms.objectives import Clipped
from llm_dec_pomdp.algorithms.options import MAGRPOConfig, UpdaterOptions
from llm_dec_pomdp.config import Config, ConfigError, build, override, read_toml
from llm_dec_pomdp.options import Sampling, TrainerConfig


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


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sed": 3}, r"sed: .*seed\?"),
        ({"optimiser": {"learning_rte": 1}}, r"optimiser\.learning_rte: .*learning_rate"),
        ({"reviewer": {"learning_rte": 1}}, r"reviewer\.learning_rte: .*learning_rate"),
        ({"zzz": 1}, "zzz: .*name, optimiser, reviewer, seed"),
        ({"optimiser": {"steps": "many"}}, r"optimiser\.steps = 'many'"),
    ],
    ids=["resembles one", "of a table", "of an optional table", "resembles nothing", "another type"],
)
def test_a_wrong_key_or_value_is_named_with_what_there_is(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(Run, values, source="test")


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


# --- aliases ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "alias", "wanted"),
    [
        (TrainerConfig, {"num_generations": 3}, {"group_size": 3}),
        (Sampling, {"max_completion_length": 3}, {"max_new_tokens": 3}),
        (Clipped, {"epsilon": 0.3}, {"clip_low": 0.3, "clip_high": 0.3}),
        (MAGRPOConfig, {"epsilon": 0.3}, {"objective": "clipped", "clip_low": 0.3, "clip_high": 0.3}),
    ],
)
def test_a_name_of_trl_sets_our_option(kind: type[Config], alias: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert build(kind, alias, source="test").given() == wanted


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (TrainerConfig, {"num_generations": 3, "group_size": 3}),
        (Sampling, {"max_completion_length": 3, "max_new_tokens": 4}),
        (MAGRPOConfig, {"epsilon": 0.3, "clip_high": 0.3}),
    ],
)
def test_an_option_and_its_alias_are_not_both_given(kind: type[Config], values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        build(kind, values, source="test")
    assert all(f"{name} = {value}" in str(caught.value) for name, value in values.items())


def test_an_option_of_its_own_is_no_alias() -> None:
    class Exploring(UpdaterOptions):
        epsilon: float = 0.0

    config = build(Exploring, {"epsilon": 0.5, "clip_low": 0.1}, source="test")
    assert config.given() == {"epsilon": 0.5, "objective": "clipped", "clip_low": 0.1}
    with pytest.raises(ConfigError, match="epsilon"):
        build(Run, {"epsilon": 0.5}, source="test")


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


@pytest.mark.parametrize(
    ("values", "assignments", "wanted"),
    [
        ({"a": {"b": 1, "c": 2}}, ["a.b=3"], {"a": {"b": 3, "c": 2}}),
        ({}, ["a.b.c=3"], {"a": {"b": {"c": 3}}}),
        ({}, ["a=1", "a=2"], {"a": 2}),
        ({}, [" a.b = 3 "], {"a": {"b": 3}}),
    ],
    ids=["reaches into a table", "makes missing tables", "the last wins", "spaces are ignored"],
)
def test_a_dotted_key(values: dict[str, Any], assignments: list[str], wanted: dict[str, Any]) -> None:
    assert override(values, assignments) == wanted


def test_the_given_values_are_left_alone() -> None:
    values = {"a": {"b": {"c": 1}}}
    override(values, ["a.b.c=2", "a.d=3", "e=4"])
    assert values == {"a": {"b": {"c": 1}}}


@pytest.mark.parametrize("assignment", ["key", "=1", " =1", ""])
def test_an_assignment_without_key_or_value_is_explained(assignment: str) -> None:
    with pytest.raises(ConfigError, match="key=value"):
        override({}, [assignment])


@pytest.mark.parametrize("value", [1, "text", [1]])
def test_a_dotted_key_into_a_plain_value_is_explained(value: object) -> None:
    with pytest.raises(ConfigError, match=r"a\.b"):
        override({"a": value}, ["a.b=2"])


# --- read_toml --------------------------------------------------------------------------------------------------------


def test_toml_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('name = "überall"\n[optimiser]\nsteps = 3\n', encoding="utf-8")
    assert read_toml(path) == {"name": "überall", "optimiser": {"steps": 3}}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, "No such file"),
        (b"a = 1\nb = = 2\n", "line 2"),
        (b'a = "\xe9"\n', "UTF-8"),
        (b"a = " + b"[" * 5000, "not valid TOML"),
        (b"seed = " + b"1" * 5000, "digits"),
    ],
    ids=["missing", "syntax", "encoding", "deep", "digits"],
)
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes | None, named: str) -> None:
    path = tmp_path / "bad.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"bad\.toml'.*{named}"):
        read_toml(path)


def test_a_number_of_too_many_digits_is_a_wrong_value(tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text("name = 0x" + "f" * 5000, encoding="utf-8")
    with pytest.raises(ConfigError, match="name = a number"):
        build(Run, read_toml(tmp_path / "long.toml"), source="long.toml")
