"""Python functions as tools.

    def book(city: str, day: int, seats: int = 1) -> str:
        '''Book seats on a train.

        Args:
            city: Destination.
            day: Day of the month.
        '''

`function(book)` derives name, description and JSON schema from the signature and the Google docstring. A function whose
first parameter is called `state` receives the state and returns (state, answer):

    def note(state: tuple[str, ...], text: str) -> tuple[tuple[str, ...], str]: ...

A state is an immutable value, so that forks and replays of an episode are exact. Functions that share a state form a
`Kit`.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import pydantic

from ...printable import escape_controls
from ...registries import nearest
from ...types import Tool
from ..task import mutable_part

_STATE = "state"  # name of the parameter that receives the state
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}")
_SECTION = re.compile(r"^\s*(Args|Arguments|Returns|Raises|Yields|Example|Examples|Note|Notes):\s*$", re.MULTILINE)
_LONGEST = 8192  # maximum number of characters in the description of another program's tool
_ARGUMENT = re.compile(r"^( +)(\w+)(?: \([^)]*\))?: (.*)$")


class ArgumentsError(ValueError):
    """A call has wrong arguments; the agent observes the message."""


class LateError(ValueError):
    """A call exceeded its time limit; the agent observes the message."""


class Function(NamedTuple):
    """A tool with its implementation.

    Attributes:
        tool: Name, description and schema for the agents.
        run: (state, arguments by name) -> (state, answer); it may raise.
        accepted: Converts arguments for `run`; raises ArgumentsError.
    """

    tool: Tool
    run: Callable[[Any, Mapping[str, Any]], tuple[Any, Any]]
    accepted: Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Kit:
    """Functions that share a state; `kit` makes one from typed functions.

    Args:
        name: Name, unique in a toolbox.
        functions: Functions with different names.
        initial: State at the beginning of an episode, an immutable value.
        private: True if each agent has its own state, False if all agents with the kit share one.
        bounded: True if every call ends soon without a time limit, as for the ready tools.
        copies: True if a copy of the state is independent. False if the state refers to data in another program; after
            a call of such a kit, the episode cannot be forked.

    Raises:
        TypeError: The state is mutable.
        ValueError: Two functions have the same name.
    """

    name: str
    functions: tuple[Function, ...]
    initial: Any = None
    private: bool = False
    bounded: bool = False
    copies: bool = True

    def __post_init__(self) -> None:
        if problem := mutable_part(self.initial):
            raise TypeError(f"the initial state of the kit {self.name!r} is mutable: {problem}")
        check_unique([f.tool.name for f in self.functions])


def kit(
    name: str, *functions: Callable[..., Any], initial: Any = None, private: bool = False, bounded: bool = False
) -> Kit:
    """Return a kit of typed functions; see `Kit` and `function`."""
    return Kit(name, tuple(map(function, functions)), initial, private, bounded)


def check_unique(names: Iterable[str]) -> None:
    """Raise ValueError if a name occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"two tools have the name {name!r}; rename one of them")
        seen.add(name)


# --- typed functions --------------------------------------------------------------------------------------------------


def function(call: Callable[..., Any], name: str = "") -> Function:
    """Return a typed function as a tool; see the module.

    Args:
        call: The function. Its parameters have types that JSON can represent (text, numbers, bool, lists, tables,
            literals, pydantic models, None).
        name: Name of the tool. Default: the name of the function.

    Raises:
        TypeError: The function has no docstring, has *args, or has a parameter without a type or with a type that JSON
            cannot represent.
        ValueError: The name cannot be the name of a tool.
    """
    typed = Typed(call, check_name(name or getattr(call, "__name__", "")))
    return Function(typed.tool, typed.run, typed.accepted)


class Typed:
    """A typed function as a tool; it can be pickled if the function is defined in a module or is a method."""

    def __init__(self, call: Callable[..., Any], name: str) -> None:
        lead, described = _documented(call, name)
        parameters = list(inspect.signature(call).parameters.values())
        self.call, self.name = call, name
        self.stateful = bool(parameters) and parameters[0].name == _STATE
        self.fields = _fields(call, name, parameters[self.stateful :], described)
        config = pydantic.ConfigDict(extra="forbid", strict=True, protected_namespaces=())
        try:
            self._model = pydantic.create_model(name, __config__=config, **cast("Any", self.fields))
            schema = _plain(self._model.model_json_schema())
        except (pydantic.errors.PydanticUserError, TypeError) as error:
            raise TypeError(
                f"the function {name!r} cannot be a tool: {error}; give its parameters types that JSON can represent"
            ) from error
        self.tool = Tool(name, lead, schema=json.dumps(schema))

    def __reduce__(self) -> tuple[Any, ...]:
        return Typed, (self.call, self.name)

    def accepted(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the function takes them; raise ArgumentsError if they are wrong."""
        try:
            values = self._model.model_validate_json(json.dumps(dict(arguments)))
        except pydantic.ValidationError as error:
            raise ArgumentsError(_explained(self.name, list(self.fields), error)) from None
        return {key: getattr(values, key) for key in self.fields}

    def run(self, state: Any, arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        """Call the function; return the state and the answer."""
        return self.call(state, **arguments) if self.stateful else (state, self.call(**arguments))


def check_name(name: str) -> str:
    """Return the name; raise ValueError if it cannot be the name of a tool."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r:.80} cannot be the name of a tool; use at most 64 letters, digits, '_', '.' and '-'")
    return name


def _fields(
    call: Callable[..., Any], name: str, parameters: list[inspect.Parameter], described: Mapping[str, str]
) -> dict[str, tuple[Any, Any]]:
    """Return type and default of each argument for pydantic."""
    try:
        hints = typing.get_type_hints(call)
    except Exception as error:  # annotations may be any text
        raise TypeError(
            f"the type annotations of {name!r} cannot be read ({type(error).__name__}: {error}); correct them"
        ) from error
    fields: dict[str, tuple[Any, Any]] = {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{name!r} has the parameter {parameter}; use only parameters that can be passed by name")
        if parameter.name not in hints:
            raise TypeError(f"the argument {parameter.name!r} of {name!r} has no type; write {parameter.name}: str")
        default = ... if parameter.default is parameter.empty else parameter.default
        field = pydantic.Field(default, description=described.get(parameter.name) or None)
        fields[parameter.name] = (hints[parameter.name], field)
    return fields


def _documented(call: Callable[..., Any], name: str) -> tuple[str, dict[str, str]]:
    """Return the description of a function and of each argument, from its Google docstring."""
    text = inspect.getdoc(call) or ""
    parts = _SECTION.split(text)
    lead = " ".join(parts[0].split())
    if not lead:
        raise TypeError(f"the function {name!r} has no docstring; add one, which describes the tool to the agents")
    described: dict[str, str] = {}
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        last, depth = "", 0
        for line in body.splitlines() if title.startswith("Arg") else ():
            match = _ARGUMENT.match(line)
            if match and (not last or len(match[1]) <= depth):
                last, depth = match[2], len(match[1])
                described[last] = match[3].strip()
            elif last and line.strip():
                described[last] += f" {line.strip()}"
    return lead, described


def _plain(schema: Any) -> Any:
    """Return a schema without the titles that pydantic derives from names."""
    if isinstance(schema, dict):
        table = cast("dict[str, Any]", schema)
        return {k: _plain(v) for k, v in table.items() if k != "title" or isinstance(v, dict)}
    return list(map(_plain, cast("list[Any]", schema))) if isinstance(schema, list) else schema


def _explained(name: str, known: list[str], error: pydantic.ValidationError) -> str:
    """Return the message about wrong arguments for the agent: the first problem, and the tool's arguments."""
    problems = error.errors(include_url=False, include_context=False)
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])  # usually a wrong name
    where, kind = ".".join(map(str, problem["loc"])), problem["type"]
    takes = f"it takes {', '.join(known) or 'no arguments'}"
    if kind == "extra_forbidden" and "." not in where:
        meant = f"; {nearest(where, known)}" if known else ""
        return f"unknown argument {where!r:.60} of {name}; {takes}{meant if 'mean' in meant else ''}"
    if kind == "missing":
        return f"the argument {where!r} of {name} is missing; {takes}"
    return f"the argument {where!r} of {name} is {json.dumps(problem['input'], default=str)[:60]}: {problem['msg']}"


# --- tools of a schema ------------------------------------------------------------------------------------------------


def of_schema(
    name: str, description: str, schema: Mapping[str, Any], run: Callable[[Any, Mapping[str, Any]], tuple[Any, Any]]
) -> Function:
    """Return a tool whose arguments are described by a JSON schema, such as a tool of another program.

    Args:
        name, description: Name and description for the agents.
        schema: Schema of the object of arguments.
        run: See `Function`.

    Raises:
        ValueError: The schema cannot be used (see `schemas.accepted`), the name is invalid, or the description is too
            long.
    """
    from . import schemas

    check_name(name)
    if len(description) > _LONGEST:
        raise ValueError(f"the description of {name!r} has {len(description)} characters; give at most {_LONGEST}")
    tool = Tool(name, escape_controls(description), schema=json.dumps(schemas.accepted(name, schema)))
    return Function(tool, run, functools.partial(_fitting, tool))


def _fitting(tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments; raise ArgumentsError if they do not match the schema."""
    from . import schemas

    try:
        problem = schemas.first_problem(tool.schema, arguments)
    except schemas.TooMuchError:
        raise ArgumentsError(f"the arguments of {tool.name} are too many or too long to be checked") from None
    if problem is None:
        return arguments
    where, why = ".".join(map(str, problem.absolute_path)), escape_controls(problem.message)[:120]
    if where:
        raise ArgumentsError(f"the argument {where!r} of {tool.name} is {json.dumps(problem.instance)[:60]}: {why}")
    known = ", ".join(tool.json_schema["properties"])
    raise ArgumentsError(f"the arguments of {tool.name} are wrong: {why}; it takes {known}")
