"""Strict configurations: pydantic models that refuse unknown keys, read from TOML, overridden by `a.b=value`."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, cast, get_args

import pydantic

from .registries import nearest
from .storage.reading import FileError, read_text

ConfigT = TypeVar("ConfigT", bound="Config")
Count = Annotated[int, pydantic.Field(ge=0)]
Positive = Annotated[int, pydantic.Field(ge=1)]
Single = Annotated[int, pydantic.Field(ge=1, le=1)]
NotNegative = Annotated[float, pydantic.Field(ge=0)]
_SHOWN = 400  # characters of a value in a message
_LARGEST = 1 << 20  # bytes of a TOML file


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names the key, its value, and what to do."""


class Config(pydantic.BaseModel):
    """Base of all configurations: frozen, unknown keys refused, field docstrings kept as descriptions."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
    beside: ClassVar[tuple[str, ...]] = ()
    """Fields that hold objects whose options stand beside them, see `by_name`."""


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file of at most `_LARGEST` bytes.

    Raises:
        ConfigError: The file is missing, no regular file, too large, too deep or not TOML.
    """
    try:
        return tomllib.loads(read_text(path, _LARGEST))
    except FileError as error:
        raise ConfigError(f"configuration file {error}") from None
    except (ValueError, RecursionError) as error:  # a number of too many digits too
        raise ConfigError(f"configuration file {str(path)!r} is not valid TOML: {error}") from error


def override(values: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """A nested dictionary with assignments applied: `a.b=value`, in the syntax of TOML; a bare word is a string."""
    result: dict[str, Any] = copy.deepcopy(values)
    for assignment in assignments:
        dotted, equals, text = assignment.partition("=")
        if not equals or not dotted.strip():
            raise ConfigError(f"{assignment!r} is not of the form key=value; write {dotted.strip() or 'KEY'}=VALUE")
        *parents, last = dotted.strip().split(".")
        node: dict[str, Any] = result
        for parent in parents:
            inner: Any = node.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise ConfigError(f"{assignment!r}: {parent!r} is a value, it has no keys")
            node = cast("dict[str, Any]", inner)
        node[last] = _parse(text.strip())
    return result


def _parse(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def build(
    kind: type[ConfigT], values: dict[str, Any], *, source: str, names: Mapping[str, str] | None = None
) -> ConfigT:
    """Validate `values` as a `kind`.

    Args:
        kind: The configuration class.
        values: Nested dictionary, e.g. from `read_toml`.
        source: Where the values come from, for messages.
        names: What the user calls a key, where that is not its name.

    Raises:
        ConfigError: Every problem on a line of its own: the key, its value, what is wrong, the nearest known key.
    """
    try:
        return kind.model_validate(values)
    except pydantic.ValidationError as error:
        lines = [_explain(kind, problem, names or {}) for problem in error.errors()]
        raise ConfigError("\n".join([f"{source}: {len(lines)} problem(s)", *lines])) from None


def by_name(values: dict[str, Any], field: str, kinds: Mapping[str, type[Config]], default: Config) -> dict[str, Any]:
    """Options in which a field holds an object, built by its name, or as the default kind, from the options beside it.

    Args:
        values: As a user wrote them: `field` may hold an object, a name, or nothing.
        field: Name of the field.
        kinds: Classes of objects by their name.
        default: What the field holds where it is left out.

    Raises:
        ValueError: No such name.
        ConfigError: An option that the named kind does not have, or a value that it does not take.
    """
    names = {name for kind in kinds.values() for name in kind.model_fields} & values.keys()
    named: Any = values.get(field)
    if isinstance(named, Config) or not (named or names):
        return values
    if named is not None and named not in kinds:
        raise ValueError(f"{field} is {named!r}, which does not exist; {nearest(named, kinds)}")
    kind = kinds[named] if named else type(default)
    built = build(kind, {name: values[name] for name in names}, source=f"options of {kind.__name__}")
    return {name: value for name, value in values.items() if name not in names} | {field: built}


def _explain(kind: type[Config], problem: Any, names: Mapping[str, str]) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    key = names.get(key, key)
    message = problem["msg"].removeprefix("Value error, ")
    if not key:  # about several keys together
        return f"  {message}"
    if problem["type"] == "extra_forbidden":
        return f"  {key}: no such key; {nearest(str(problem['loc'][-1]), _keys_at(kind, problem['loc'][:-1]))}"
    return f"  {key} = {_shown(problem['input'])}: {message}"


def _shown(value: object) -> str:
    """Return a value as Python writes it, without the middle of a long one."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of too many digits"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}...{text[-_SHOWN // 2 :]}"


def _keys_at(kind: type[Config], parents: Sequence[str | int]) -> list[str]:
    for parent in parents:
        field = kind.model_fields.get(str(parent))
        annotation = field.annotation if field else None
        for inner in (annotation, *get_args(annotation)):
            if isinstance(inner, type) and issubclass(inner, Config):
                kind = inner
    objects: list[type[Config]] = [type(kind.model_fields[name].default) for name in kind.beside]
    return [*kind.model_fields, *(name for inner in objects for name in inner.model_fields)]


def named_model(option: Any) -> str | None:
    """NAME where an option of an environment is { model = "NAME" }, as for a reviewer or a reward model; else None."""
    match option:
        case {"model": str(name), **others} if not others:
            return name
        case _:
            return None


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one, with dotted keys."""
    values_by_name: dict[str, Any] = {}
    for name, value in values.items():
        values_by_name |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}  # pyright: ignore[reportUnknownArgumentType]
    return values_by_name
