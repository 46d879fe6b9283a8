"""JSON schemas of tools of other programs: accepted if a check is safe and finite, and then used to check arguments.

A schema may refer only to its own definitions (`#/$defs/...`). Patterns run in an engine of linear time (pydantic's,
without lookaround and backreferences). A check has a budget of steps, so that recursive references and long arguments
end too.
"""

# Values of any type pass through here.
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Annotated, Any, cast

import jsonschema
import pydantic
import pydantic_core
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from ...printable import escape_controls, replace_surrogates

MOST_BYTES = 1 << 16  # bytes of a schema as JSON
MOST_ARGUMENTS = 500
_DEEPEST = 50  # levels of a schema
_MOST_STEPS = 200_000  # steps of a check: applied keywords, and characters read by patterns; about a second
_WEIGHT = 2000  # weight of a pattern: its length times its counted repetitions
_MOST_LEVELS = 120  # nested keywords of a check; a recursive schema ends before the stack does
_REFERENCE = 20  # steps of a reference
_STEP = 200  # weight times characters that count as one step
_COUNT = re.compile(r"([\w.\]])?\{(\d+)(?:,(\d*))?\}")  # a counted repetition, after its character if it is one
_REFERENCES, _BASES = ("$ref", "$dynamicRef", "$recursiveRef"), ("$schema", "$id")
_left: ContextVar[list[int]] = ContextVar("steps and levels that a check has left")


class TooMuchError(Exception):
    """A check exceeds its budget of steps."""


def accepted(name: str, schema: Any) -> dict[str, Any]:
    """Validate a tool's argument schema and return it; `true` or `false` as an argument's schema becomes a dict.

    Raises:
        ValueError: The schema is invalid or too large, does not describe an object, refers to anything outside of
            itself, or has a pattern or a name that cannot be used. The message names the tool and the part.
    """
    what = f"the schema of {name!r}"
    if not isinstance(schema, Mapping):
        raise ValueError(f"{what} is of type {type(schema).__name__}; give a table that describes an object")
    try:
        text = json.dumps(dict(schema))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{what} is no JSON: {error}; give a JSON schema") from None
    if len(text) > MOST_BYTES:
        raise ValueError(f"{what} has {len(text)} bytes; give at most {MOST_BYTES}")
    table = {key: value for key, value in json.loads(text).items() if key not in _BASES}
    references = list(_references(what, table))
    try:
        _Checker.check_schema(table, format_checker=None)
    except jsonschema.SchemaError as error:
        raise ValueError(f"{what} is no JSON schema: {escape_controls(error.message):.200}") from None
    if table.get("type", "object") != "object":
        raise ValueError(f"{what} is of type {table['type']!r}; give the type 'object'")
    resolver = Registry().with_resource("", DRAFT202012.create_resource(table)).resolver()
    for reference in references:
        try:
            _Checker.check_schema(resolver.lookup(reference).contents, format_checker=None)
        except Exception:  # of several unrelated types
            raise ValueError(
                f"{what} refers to {reference!r:.80}, which is not a schema in it; put it into $defs"
            ) from None
    return table | {"properties": _arguments(what, table.get("properties", {}))}


def _arguments(what: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    if len(properties) > MOST_ARGUMENTS:
        raise ValueError(f"{what} has {len(properties)} arguments; give at most {MOST_ARGUMENTS}")
    for key in properties:
        if not key or not key.isprintable():
            raise ValueError(f"{what} has the argument {key!r:.80}; give a name of printable characters")
    always = {True: cast("dict[str, Any]", {}), False: {"not": {}}}
    return {key: always[about] if isinstance(about, bool) else about for key, about in properties.items()}


def _references(what: str, part: Any, depth: int = 0) -> Iterator[str]:
    """Yield the references of a schema; every table in it may be the target of a reference."""
    if depth > _DEEPEST:
        raise ValueError(f"{what} has more than {_DEEPEST} levels; give a flatter schema")
    if isinstance(part, dict):
        for key, inner in part.items():
            if isinstance(inner, str):
                if key in _BASES:
                    raise ValueError(
                        f"{what} uses {key} in a nested schema ({inner!r:.80}); it is allowed only at the top"
                    )
                if key in _REFERENCES:
                    if not inner.startswith("#"):
                        raise ValueError(
                            f"{what} has the {key} {inner!r:.80} outside this schema; copy its target into $defs"
                        )
                    yield inner
            if key.startswith("unevaluated"):
                raise ValueError(f"{what} has {key}, which is not supported; use additionalProperties or items")
            patterns = [inner] if key == "pattern" and isinstance(inner, str) else []
            for pattern in (*patterns, *(inner if key == "patternProperties" and isinstance(inner, dict) else ())):
                try:
                    _compiled(pattern)
                except ValueError as error:
                    raise ValueError(f"{what} has the pattern {pattern!r:.80}, {error}") from None
    if isinstance(part, (dict, list)):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _references(what, inner, depth + 1)


# --- a check ----------------------------------------------------------------------------------------------------------


def first_problem(schema: str, arguments: Mapping[str, Any]) -> jsonschema.ValidationError | None:
    """Return the first error of arguments under an accepted schema; None if there is none.

    Raises:
        TooMuchError: The check exceeds its budget of steps.
    """
    _left.set([_MOST_STEPS, _MOST_LEVELS])
    try:
        return next(_checker(schema).iter_errors(dict(arguments)), None)
    except RecursionError:
        raise TooMuchError from None


@functools.lru_cache(maxsize=1024)
def _checker(schema: str) -> Any:
    return _Checker(json.loads(schema), registry=Registry())


def _spend(steps: int) -> None:
    left = _left.get()
    left[0] -= steps
    if left[0] < 0:
        raise TooMuchError


def _counted(key: str, check: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the check of a keyword, so that it uses the budget of steps and levels."""
    steps = _REFERENCE if key in _REFERENCES else 1

    def counted(*about: Any) -> Iterator[Any]:
        _spend(steps)
        left = _left.get()
        left[1] -= 1
        try:
            if left[1] < 0:
                raise TooMuchError
            yield from check(*about) or ()
        finally:
            left[1] += 1

    return counted


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> tuple[pydantic.TypeAdapter[str], int]:
    """Return a compiled pattern and its weight, a bound of search time; raise ValueError if it cannot be used."""
    counts = [(one, max(int(least), int(most or 0), 1)) for one, least, most in _COUNT.findall(pattern)]
    single, groups = sum(n for one, n in counts if one), math.prod(n for one, n in counts if not one)
    weight = (len(pattern) + single) * groups
    if weight > _WEIGHT or re.search(r"\(\?[^:<P=!]", pattern):
        raise ValueError("which is too long or repeats too much to be checked")
    try:
        return pydantic.TypeAdapter(Annotated[str, pydantic.StringConstraints(pattern=pattern)]), weight
    except (pydantic_core.SchemaError, ValueError):
        raise ValueError("which is none without lookaround and backreferences") from None


def _matches(pattern: str, text: str) -> bool:
    adapter, weight = _compiled(pattern)
    _spend(1 + weight * len(text) // _STEP)
    try:
        adapter.validate_python(replace_surrogates(text))
    except pydantic.ValidationError:
        return False
    return True


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, table: dict[str, Any], instance: Any, schema: Any) -> Iterator[Any]:
    for pattern, inner in table.items() if isinstance(instance, dict) else ():
        for key, value in instance.items():
            if _matches(pattern, key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _additional(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    more = [key for key in instance if key not in known and not any(_matches(pattern, key) for pattern in patterns)]
    if allowed is False and more:
        names = ", ".join(map(repr, more))
        yield jsonschema.ValidationError(
            f"Additional properties are not allowed ({names} {'was' if len(more) == 1 else 'were'} unexpected)"
        )
    for key in more if isinstance(allowed, dict) else ():
        yield from validator.descend(instance[key], allowed, path=key)


def _unique(validator: Any, unique: bool, instance: Any, schema: Any) -> Iterator[Any]:
    if unique and isinstance(instance, list) and len({json.dumps(i, sort_keys=True) for i in instance}) < len(instance):
        yield jsonschema.ValidationError(f"{instance!r} has non-unique elements")


_OWN = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "uniqueItems": _unique,
}
_Checker: Any = extend(
    jsonschema.Draft202012Validator,
    {key: _counted(key, check) for key, check in {**jsonschema.Draft202012Validator.VALIDATORS, **_OWN}.items()},
)
