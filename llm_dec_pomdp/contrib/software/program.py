"""Assembly of a class from the methods of several authors, and the assignment of methods to authors."""

from __future__ import annotations

import ast
import functools
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from llm_dec_pomdp.envs import parsing
from llm_dec_pomdp.envs.coding import analysis
from llm_dec_pomdp.types import TaskItem

from .classes import SLOW, methods_of

MODULE = "solution.py"
_STUB = "def {name}(*arguments, **named):\n    raise NotImplementedError({name!r})\n"


@dataclass(frozen=True)
class Spec:
    """The class of a row.

    Attributes:
        class_name: Its name.
        solution: A module that defines it.
        test: A module of `unittest` classes.
        methods: The methods that authors write: name and test class of each.
        slow: Whether a test takes seconds.
    """

    class_name: str
    solution: str
    test: str
    methods: Mapping[str, str]
    slow: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the methods that authors write, in order."""
        return tuple(self.methods)

    @property
    def tests(self) -> str:
        """The tests as the sandbox runs them."""
        return f"from solution import {self.class_name}\n{self.test}"


def spec_of(item: TaskItem) -> Spec:
    """Return the class of a row."""
    fields = item.fields
    texts = [fields[name] for name in ("class_name", "solution", "test", "methods")]
    return _spec(*texts, slow=item.id in SLOW)


@functools.lru_cache(maxsize=512)
def _spec(class_name: str, solution: str, test: str, methods: str, *, slow: bool) -> Spec:
    return Spec(class_name, solution, test, json.loads(methods), slow)


@functools.lru_cache(maxsize=512)
def signatures(skeleton: str, class_name: str, methods: tuple[str, ...]) -> tuple[str, Mapping[str, str]]:
    """Return the skeleton without the docstrings of these methods, and the methods with docstrings by name.

    Raises:
        SyntaxError: The skeleton does not parse.
    """
    tree, found = parsing.module(skeleton), dict[str, str]()
    for method in methods_of(tree, class_name):
        if method.name in methods:
            found[method.name] = ast.unparse(method)
            method.body = [ast.Expr(ast.Constant(...))]
    return ast.unparse(tree), found


# --- the class --------------------------------------------------------------------------------------------------------


def assembled(spec: Spec, bodies: Mapping[str, str]) -> str:
    """Return the module of a row with these methods; methods without a source raise NotImplementedError.

    Args:
        spec: The class of the row, with the constructor and other code that authors do not write.
        bodies: Sources of functions that parse, by name. If they are nested too deeply, the module raises an error.
    """
    tree = ast.parse(spec.solution)
    for method in methods_of(tree, spec.class_name):
        if method.name in spec.methods:
            source = bodies.get(method.name) or _STUB.format(name=method.name)
            written = _function(source)
            assert written is not None
            written.decorator_list = method.decorator_list
            method.__dict__.update(written.__dict__)
    try:
        return ast.unparse(tree)
    except RecursionError:
        return "raise RecursionError('the methods are nested too deeply')"


@functools.lru_cache(maxsize=64)
def gold_of(solution: str, class_name: str) -> Mapping[str, str]:
    """Return the sources of all methods of a solution, without docstrings and decorators."""
    found: dict[str, str] = {}
    for method in methods_of(ast.parse(solution), class_name):
        method.body = analysis.without_docstring(method.body) or [ast.Pass()]
        method.decorator_list = []
        found[method.name] = ast.unparse(method) + "\n"
    return found


def _function(source: str) -> ast.FunctionDef | None:
    """Return the function if the source is exactly one function definition, else None."""
    tree = analysis.parse(source)
    match tree.body if tree else []:
        case [ast.FunctionDef() as function]:
            return function
        case _:
            return None


# --- the authors' methods ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """The methods of a class in the texts of its authors.

    Attributes:
        bodies: For each method its source in the text of its author. If authors choose, it is the text of the first
            author that wrote the method. Methods that this author did not write are missing.
        owners: For each method its author, a number from 0. If authors choose, methods without exactly one author are
            missing.
        copies: Methods that several authors wrote, or one author twice.
        foreign: (method, author) for each method that was written by an author other than its own.
    """

    bodies: Mapping[str, str]
    owners: Mapping[str, int]
    copies: frozenset[str]
    foreign: frozenset[tuple[str, int]]

    def is_right(self, spec: Spec, method: str) -> bool:
        """Return whether the method was written once, by its author, with the parameters of the skeleton."""
        if method not in self.bodies or method in self.copies or method not in self.owners:
            return False
        parameters = _parameters(self.bodies[method])
        return parameters is not None and parameters == _parameters(gold_of(spec.solution, spec.class_name)[method])

    def right(self, spec: Spec) -> Mapping[str, str]:
        """Return the sources of the methods that count, by name; see `is_right`."""
        return {method: self.bodies[method] for method in spec.names if self.is_right(spec, method)}

    def of(self, author: int) -> list[str]:
        """Return the methods of an author."""
        return [method for method, owner in self.owners.items() if owner == author]


def written(spec: Spec, texts: Sequence[str], dealt: Mapping[str, int] | None) -> Written:
    """Find the methods in the texts of the authors.

    Args:
        spec: The class of the row.
        texts: The text of each author.
        dealt: For each method its author; None if authors choose their methods.
    """
    times = {method: [_defined(text, method) for text in texts] for method in spec.names}
    writers = {m: [author for author, count in enumerate(counts) if count] for m, counts in times.items()}
    copies = frozenset(method for method, counts in times.items() if sum(counts) > 1)
    owners = dict(dealt) if dealt is not None else {m: found[0] for m, found in writers.items() if len(found) == 1}
    bodies: dict[str, str] = {}
    for method in spec.names:
        author = owners.get(method, writers[method][0] if writers[method] else -1)
        if author in writers[method]:
            bodies[method] = analysis.find_function(texts[author], method)
    foreign = {(m, author) for m, found in writers.items() for author in found if owners.get(m, author) != author}
    return Written({m: body for m, body in bodies.items() if body}, owners, copies, frozenset(foreign))


def _defined(text: str, method: str) -> int:
    """Count the definitions of a function in a text."""
    return len(re.findall(rf"^[ \t]*(?:async[ \t]+)?def[ \t]+{re.escape(method)}[ \t]*\(", text, re.MULTILINE))


def _parameters(source: str) -> tuple[str, ...] | None:
    """Return the names of the parameters and the number of optional ones; None if the source does not parse."""
    function = _function(source)
    if function is None:
        return None
    given = function.args
    for argument in ast.walk(given):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    optional = [*given.defaults, *(default for default in given.kw_defaults if default is not None)]
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    rest = [f"*{argument.arg}" for argument in (given.vararg, given.kwarg) if argument is not None]
    return (*names, *rest, str(len(optional)))


# --- assignment of methods --------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def dealt(spec_key: tuple[str, str, str], n_authors: int) -> Mapping[str, int]:
    """Assign methods to authors in equal shares, so that coupled methods have different authors.

    Args:
        spec_key: The source of the solution, the name of the class, and the names of the methods separated by spaces.
        n_authors: The number of authors, at most the number of methods.

    Returns:
        For each method its author, a number from 0.
    """
    solution, class_name, listed = spec_key
    names = listed.split()
    weights = bonds(solution, class_name, names)
    places = [number % n_authors for number in range(len(names))]

    def crossing(owners: Sequence[int]) -> int:
        return sum(weight for (a, b), weight in weights.items() if owners[a] != owners[b])

    improved = True
    while improved:
        improved = False
        for a, b in itertools.combinations(range(len(names)), 2):
            swapped = list(places)
            swapped[a], swapped[b] = places[b], places[a]
            if crossing(swapped) > crossing(places):
                places, improved = swapped, True
    return dict(zip(names, places, strict=True))


def bonds(solution: str, class_name: str, names: Sequence[str]) -> Mapping[tuple[int, int], int]:
    """Compute how strongly pairs of methods are coupled: 2 if one calls the other, plus 1 if they share a field.

    Returns:
        The weight of each pair of indices into `names`; pairs with weight 0 are missing.
    """
    used = {method.name: _attributes(method) for method in methods_of(ast.parse(solution), class_name)}
    found: dict[tuple[int, int], int] = {}
    for (a, first), (b, second) in itertools.combinations(enumerate(names), 2):
        calls = second in used[first] or first in used[second]
        weight = 2 * calls + bool(used[first] & used[second] - set(names))
        if weight:
            found[a, b] = weight
    return found


def _attributes(method: ast.FunctionDef) -> set[str]:
    return {node.attr for node in ast.walk(method) if isinstance(node, ast.Attribute)}


def key_of(spec: Spec) -> tuple[str, str, str]:
    """Return the key for `dealt`."""
    return spec.solution, spec.class_name, " ".join(spec.names)


def in_order(names: Iterable[str], spec: Spec) -> list[str]:
    """Return the methods in the order of the class."""
    wanted = set(names)
    return [name for name in spec.names if name in wanted]
