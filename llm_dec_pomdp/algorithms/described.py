"""Options of a learner with name, type, default and description, as `llm-dec-pomdp list NAME` prints them."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from ..config import Config

_BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a learner.

    Attributes:
        name: Name, as in `--set NAME=VALUE`.
        type: Type of its values, e.g. "int >= 1" or "std | mean".
        default: Default value; "" if there is no fixed one.
        about: First sentence of its description.
        of: Value of another option that it needs, e.g. "credit=crossed"; "" for none.
    """

    name: str
    type: str
    default: str
    about: str
    of: str = ""


def options_of(config: type[Config], fixed: Mapping[str, Any] | None = None) -> list[Option]:
    """Return the options of a configuration, followed by the options of its nested objects, such as its credit.

    Args:
        config: The configuration of a learner.
        fixed: Options that the name of the learner fixes. They are left out, like options with a single allowed value.
    """
    options: list[Option] = []
    for name, field in config.model_fields.items():
        if classes := config.kinds.get(name):
            default = next(kind for kind, made in classes.items() if isinstance(field.default, made))
            options.append(Option(name, " | ".join(classes), default, _first_sentence(field)))
        else:
            options.append(_option(name, field))
    for holder, classes in config.kinds.items():
        having: dict[Option, list[str]] = {}  # the kinds that have the option with this default
        for kind, made in classes.items():
            for name, field in made.model_fields.items():
                having.setdefault(_option(name, field), []).append(kind)
        for option, where in having.items():
            of = "" if len(where) == len(classes) else f"{holder}={' or '.join(where)}"
            options.append(dataclasses.replace(option, of=of))
    return [option for option in options if option.name not in (fixed or {}) and option.type != option.default]


def _option(name: str, field: FieldInfo) -> Option:
    bounds = {_BOUNDS[k]: v for m in field.metadata for k in _BOUNDS if (v := getattr(m, k, None)) is not None}
    kind = " ".join([_type(field.annotation), ", ".join(f"{sign} {bound:g}" for sign, bound in bounds.items())]).strip()
    default = "" if field.default is None else str(field.default)
    if isinstance(field.default, bool):
        default = default.lower()
    if ">=" in bounds and bounds[">="] == bounds.get("<="):  # fixed by a subclass
        kind = default
    return Option(name, kind, default, _first_sentence(field))


def _type(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(map(str, parts))
    if origin in (Union, types.UnionType):
        return " | ".join(_type(part) for part in parts if part is not types.NoneType)
    if origin is Annotated:
        return _type(parts[0])
    if origin is not None:
        return f"{origin.__name__} of {', '.join(map(_type, parts))}"
    return str(getattr(annotation, "__name__", annotation))


def _first_sentence(field: FieldInfo) -> str:
    return re.split(r"(?<!Dr\.)(?<=\.) (?=[A-Z])", " ".join((field.description or "").split()))[0]
