"""Strict configurations: pydantic models that refuse unknown keys, with TOML files and `a.b=value` assignments."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar, cast, get_args

import pydantic

from .registries import nearest
from .storage.reading import FileError, read_text

ConfigT = TypeVar("ConfigT", bound="Config")
Kinds: TypeAlias = "Mapping[str, Mapping[str, type[Config]]]"
Count = Annotated[int, pydantic.Field(ge=0)]
Positive = Annotated[int, pydantic.Field(ge=1)]
Single = Annotated[int, pydantic.Field(ge=1, le=1)]
NotNegative = Annotated[float, pydantic.Field(ge=0)]
ALIASES: Mapping[str, tuple[str, ...]] = {
    "num_generations": ("group_size",),
    "max_completion_length": ("max_new_tokens",),
    "epsilon": ("clip_low", "clip_high"),
}
"""Names of options in TRL, and the options of this package that each name sets."""
_SHOWN = 400  # characters of a value in a message
_LARGEST = 1 << 20  # bytes of a TOML file


class ConfigError(ValueError):
    """A configuration is invalid; the message names the key, its value and the remedy."""


class Config(pydantic.BaseModel):
    """Base of all configurations: frozen, without unknown keys, with field docstrings as descriptions."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
    kinds: ClassVar[Kinds] = {}
    """Fields whose value is an object of one of several classes: the classes by name, for each field. A user sets the
    field to a name, and writes the options of this class next to the field. Without a name, the class of the default
    applies."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _from_user(cls, values: Any) -> Any:
        if isinstance(values, dict):
            values = without_aliases(cast("dict[str, Any]", values), _options_of(cls))
            for field in cls.kinds:
                values = _with_object(cls, values, field)
        return values

    def given(self) -> dict[str, Any]:
        """Return the options that the user set, by name, in the form that suites and `--set` accept."""
        values = self.model_dump(exclude_unset=True, exclude=set(self.kinds))
        for field in self.kinds.keys() & self.model_fields_set:
            held: Config = getattr(self, field)
            values[field] = next(name for name, kind in self.kinds[field].items() if kind is type(held))
            values |= held.given()
        return values


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file of at most `_LARGEST` bytes.

    Raises:
        ConfigError: The file is missing, not a regular file, too large, too deeply nested or not TOML.
    """
    try:
        return tomllib.loads(read_text(path, _LARGEST))
    except FileError as error:
        raise ConfigError(f"configuration file {error}") from None
    except (ValueError, RecursionError) as error:  # a number with too many digits also raises ValueError
        raise ConfigError(f"configuration file {str(path)!r} is not valid TOML: {error}") from error


def override(values: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Return a nested dictionary with assignments applied.

    Args:
        values: The dictionary, which is not changed.
        assignments: `a.b=value` each, with the value in the syntax of TOML; a bare word is a string.

    Raises:
        ConfigError: An assignment is malformed, or its key is below a key that has a plain value.
    """
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
                raise ConfigError(f"{assignment!r}: {parent!r} has a value and no keys; remove {last!r}")
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
        values: Nested dictionary, e.g. from `read_toml`; options by name, or by an alias of `ALIASES`.
        source: Origin of the values, for error messages.
        names: The user's names of keys, where they differ from the names of the fields.

    Raises:
        ConfigError: Values are invalid. The message has one line per problem: the key, its value, the reason, and the
            nearest known key.
    """
    try:
        return kind.model_validate(values)
    except pydantic.ValidationError as error:
        lines = [_explain(kind, problem, names or {}) for problem in error.errors()]
        raise ConfigError("\n".join([f"{source}: {len(lines)} problem(s)", *lines])) from None


def without_aliases(values: Mapping[str, Any], options: Collection[str] | None = None) -> dict[str, Any]:
    """Return `values` with each alias (`ALIASES`) replaced by the options that it sets.

    Args:
        values: Options by name or alias.
        options: Replace only aliases of these options; None: replace all aliases.

    Raises:
        ConfigError: An option is given together with its alias.
    """
    result = dict(values)
    for alias, names in ALIASES.items():
        if alias in values and (options is None or (alias not in options and set(names) <= set(options))):
            if both := [name for name in names if name in values]:
                raise ConfigError(
                    f"{both[0]} = {_shown(values[both[0]])} and {alias} = {_shown(values[alias])} set the same option "
                    f"({alias} is TRL's name of {' and '.join(names)}); give one of them"
                )
            result |= dict.fromkeys(names, result.pop(alias))
    return result


def changed(config: ConfigT, *changes: Mapping[str, Any], source: str) -> ConfigT:
    """Return a configuration in which a user's values replace some options; `source` and errors as in `build`."""
    kind, values = type(config), config.model_dump()
    for change in changes:
        values |= without_aliases(change, kind.model_fields)
    return build(kind, values, source=source)


def _options_of(kind: type[Config]) -> list[str]:
    """Return the names of the options of a class: its fields, then those of the classes that fields may hold."""
    held = [field for classes in kind.kinds.values() for inner in classes.values() for field in inner.model_fields]
    return list(dict.fromkeys([*kind.model_fields, *held]))


def _with_object(kind: type[Config], values: dict[str, Any], field: str) -> dict[str, Any]:
    """Return `values` in which `field` holds an object of the class that it names; see `Config.kinds`."""
    classes, named = kind.kinds[field], values.get(field)
    own = {name for inner in classes.values() for name in inner.model_fields} & values.keys()
    if isinstance(named, Config) or not (named or own):
        return values
    if named is not None and not (isinstance(named, str) and named in classes):
        raise ConfigError(f"{field} is {_shown(named)}, which does not exist; {nearest(named, classes)}")
    default: Config = kind.model_fields[field].default
    inner = classes[named] if named else type(default)
    held = build(inner, {name: values[name] for name in own}, source=f"options of {field}")
    return {name: value for name, value in values.items() if name not in own} | {field: held}


def _explain(kind: type[Config], problem: Any, names: Mapping[str, str]) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    key = names.get(key, key)
    message = problem["msg"].removeprefix("Value error, ")
    if not key:  # the problem concerns several keys
        return f"  {message}"
    if problem["type"] == "extra_forbidden":
        return f"  {key}: no such key; {nearest(str(problem['loc'][-1]), _keys_at(kind, problem['loc'][:-1]))}"
    return f"  {key} = {_shown(problem['input'])}: {message}"


def _shown(value: object) -> str:
    """Return the repr of a value, without the middle part if it is long."""
    try:
        text = repr(value)
    except ValueError:
        return "a number with too many digits"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}...{text[-_SHOWN // 2 :]}"


def _keys_at(kind: type[Config], parents: Sequence[str | int]) -> list[str]:
    for parent in parents:
        field = kind.model_fields.get(str(parent))
        annotation = field.annotation if field else None
        for inner in (annotation, *get_args(annotation)):
            if isinstance(inner, type) and issubclass(inner, Config):
                kind = inner
    return _options_of(kind)


def named_model(option: Any) -> str | None:
    """Return NAME if an option of an environment is { model = "NAME" }, such as a reviewer; else None."""
    match option:
        case {"model": str(name), **others} if not others:
            return name
        case _:
            return None


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested dictionaries as one dictionary with dotted keys."""
    values_by_name: dict[str, Any] = {}
    for name, value in values.items():
        values_by_name |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}  # pyright: ignore[reportUnknownArgumentType]
    return values_by_name
