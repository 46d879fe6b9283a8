"""The import directions of DESIGN.md, enforced on the syntax tree of every module."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import llm_dec_pomdp

ROOT = Path(llm_dec_pomdp.__file__).parent
NAME = "llm_dec_pomdp"
PACKAGE = "__init__"  # the room of the package itself

LEAVES = {"types", "spaces", "seeding", "config", "options", "registries", "printable", "user_code", "__about__"}
# what measures a team, and all below it
EVALUATED = {
    *LEAVES,
    *("sandbox", "data", "storage", "progress", "envs", "agents", "rollout", "episodes", "algorithms", "training"),
    "evaluation",
}
# room -> what it may import: rooms, or single modules of a room ("agents.base")
MAY_IMPORT: dict[str, set[str]] = {
    "types": set(),
    **{leaf: {"types", "registries", "seeding"} for leaf in sorted(LEAVES - {"types"})},
    "config": {"registries", "storage"},
    "sandbox": {"sandbox"},
    "data": set(),
    "envs": {*LEAVES, "sandbox", "storage", "envs"},
    "http": {*LEAVES, "storage"},
    "options": {"config"},
    "agents": {*LEAVES, "storage", "http", "agents"},
    "rollout": {*LEAVES, "storage", "envs.base", "agents.base", "agents.scripted", "episodes", "rollout"},
    "algorithms": {*LEAVES, "agents.base", "agents.oom", "agents.judges", "rollout", "algorithms"},
    "storage": {"storage", "user_code"},
    "training": {*LEAVES, "storage", "envs", "agents", "rollout", "algorithms", "training"},
    "integrations": {*LEAVES, "envs", "agents", "episodes", "rollout", "board.suite", "integrations"},
    "serving": {*LEAVES, "envs", "http", "serving"},
    "programs": {*LEAVES, "envs", "http", "agents.base", "agents.tool_calls", "serving.web", "programs"},
    "episodes": {*LEAVES, "storage", "envs", "agents.base", "episodes"},
    "progress": {"storage"},
    "evaluation": {*LEAVES, "storage", "envs", "agents", "algorithms", "rollout", "episodes", "evaluation"},
    "benchmarks": {*EVALUATED, "benchmarks"},
    "results": {*EVALUATED, "benchmarks", "results"},
    "report": {*EVALUATED, "benchmarks", "results", "report"},
    "board": {*EVALUATED, "board"},
    "api": EVALUATED,
    "contrib": {*LEAVES, "sandbox", "storage.reading", "envs", "integrations.libraries", "contrib"},
    "cli": {
        *EVALUATED,
        PACKAGE,
        "sandbox",
        "data",
        "http",
        "serving",
        "programs",
        "benchmarks",
        "results",
        "report",
        "board",
        "cli",
    },
    "__main__": {"cli"},
    PACKAGE: {"envs", "algorithms.registration", "programs", "__about__"},
}
# The surface for `contrib`: the names in `__all__` of packages, and all names of modules.
PUBLIC_PACKAGES = {"envs", "envs.tools", "sandbox"}
PUBLIC_MODULES = {
    *("types", "registries", "seeding", "sandbox", "storage.reading", "integrations.libraries"),
    *("envs.parsing", "envs.fences", "envs.coding.analysis", "envs.hierarchy.base"),
    *("envs.tools.python", "envs.tools.ready", "envs.tools.search", "envs.tools.sql"),
    "envs.wrappers.choices",
}
# Learners of `contrib` may import more than its environments.
LEARNERS = f"{NAME}.contrib.learners"
FOR_LEARNERS = {"http", "agents", "rollout", "algorithms", PACKAGE}
PACKAGES_FOR_LEARNERS = {"", "envs.wrappers", "agents", "rollout"}
MODULES_FOR_LEARNERS = {
    *("config", "http", "agents.io.models"),
    *("algorithms.base", "algorithms.learner", "algorithms.options", "algorithms.samples"),
}
HEAVY = {"torch", "transformers"}


def dotted(path: Path) -> str:
    """The module name of a file: llm_dec_pomdp.envs.base."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join((NAME, *(parts[:-1] if parts[-1] == "__init__" else parts)))


FILES = {dotted(path): path for path in sorted(ROOT.rglob("*.py"))}


def room(module: str) -> str:
    """The first level below the package."""
    return module.split(".")[1] if "." in module else PACKAGE


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes that may be executed: bodies of functions too, what only type checkers see not."""
    for child in ast.iter_child_nodes(tree):
        if is_type_checking(child):
            assert isinstance(child, ast.If)
            for node in child.orelse:
                yield node
                yield from nodes(node)
        else:
            yield child
            yield from nodes(child)


def imported(module: str, source: str, *, is_package: bool, typed: bool = False) -> set[str]:
    """Absolute names of all modules that `module` imports, ours and others; with `typed` what type checkers see too."""
    base = module.split(".") if is_package else module.split(".")[:-1]
    found: set[str] = set()
    for node in (ast.walk if typed else nodes)(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = base[: len(base) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{origin}.{alias.name}"
                found.add(whole if whole in FILES else origin)
    return found


def imports_of(module: str, *, typed: bool = False) -> set[str]:
    path = FILES[module]
    return imported(module, path.read_text(encoding="utf-8"), is_package=path.name == "__init__.py", typed=typed)


def ours(names: set[str]) -> set[str]:
    return {name for name in names if name == NAME or name.startswith(f"{NAME}.")}


def allowed(target: str, table: set[str]) -> bool:
    return room(target) in table or target.removeprefix(f"{NAME}.") in table


# --- the walk itself --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from llm_dec_pomdp.types import Score", {"llm_dec_pomdp.types"}),
        ("from .. import types, make", {"llm_dec_pomdp.types", "llm_dec_pomdp"}),
        ("from . import base", {"llm_dec_pomdp.envs.base"}),
        ("def f():\n    import torch.nn", {"torch.nn"}),
        ("if TYPE_CHECKING:\n    import torch\nelse:\n    import math", {"math"}),
    ],
)
def test_imports_are_found(source: str, names: set[str]) -> None:
    assert imported(f"{NAME}.envs.judging", source, is_package=False) == names


def test_the_walk_sees_the_lower_rooms() -> None:
    assert {"types", "registries", "envs", "sandbox", PACKAGE} <= {room(module) for module in FILES}
    assert f"{NAME}.envs.writing.tldr" in FILES


# --- the directions ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """What every module imports."""
    return {module: imports_of(module) for module in FILES}


def test_every_module_lives_in_a_known_room() -> None:
    assert {room(module) for module in FILES} <= set(MAY_IMPORT)


def test_no_module_imports_what_its_room_may_not(imports: dict[str, set[str]]) -> None:
    wrong = {
        (module, target)
        for module, targets in imports.items()
        for target in ours(targets)
        if not allowed(target, MAY_IMPORT[room(module)] | (FOR_LEARNERS if module.startswith(LEARNERS) else set()))
    }
    assert wrong == set()


def test_contrib_imports_public_names_alone() -> None:
    wrong = set[tuple[str, str]]()
    for module in FILES:
        if room(module) != "contrib":
            continue
        learner = module.startswith(LEARNERS)
        packages = PUBLIC_PACKAGES | (PACKAGES_FOR_LEARNERS if learner else set())
        modules = PUBLIC_MODULES | (MODULES_FOR_LEARNERS if learner else set())
        for node in ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.level or not ours({node.module or ""}):
                continue
            origin = str(node.module).removeprefix(NAME).removeprefix(".")
            exported = importlib.import_module(str(node.module)).__all__ if origin in packages else ()
            for alias in node.names:
                whole = f"{origin}.{alias.name}".removeprefix(".")
                if whole not in modules and origin not in modules and alias.name not in exported:
                    wrong.add((module, whole))
                if alias.name.startswith("_"):
                    wrong.add((module, whole))
    assert wrong == set()


def test_a_family_of_contrib_imports_no_other_family(imports: dict[str, set[str]]) -> None:
    families = {module: module.split(".")[2:3] for module in FILES if room(module) == "contrib"}
    others = {(m, t) for m in families for t in imports[m] if t in families and families[t] != families[m]}
    assert others == set()


def is_free_of_circles(module: str) -> bool:
    """The contract of environments, their checks, and the rooms above it."""
    if room(module) == "envs":
        return module.count(".") == 2 or module.startswith(f"{NAME}.envs.checks.")
    return room(module) in ("agents", "algorithms", "evaluation", "benchmarks", "results", "report")


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Not even names that only type checkers see."""
    ours_ = [m for m in FILES if is_free_of_circles(m)]
    waiting = {m: {t for t in imports_of(m, typed=True) if t in ours_ and t != m} for m in ours_}
    while free := [module for module, targets in waiting.items() if not targets & waiting.keys()]:
        for module in free:
            del waiting[module]
    assert waiting == {}


def test_lower_rooms_never_import_a_deep_learning_library(imports: dict[str, set[str]]) -> None:
    lower = {module for module in FILES if room(module) in ("envs", "sandbox", *LEAVES)}
    assert {module for module in lower if {name.split(".")[0] for name in imports[module]} & HEAVY} == set()


def test_the_sandbox_imports_the_standard_library_only(imports: dict[str, set[str]]) -> None:
    names = set().union(*(targets - ours(targets) for module, targets in imports.items() if room(module) == "sandbox"))
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_the_package_does_not_import_programs_of_the_repository(imports: dict[str, set[str]]) -> None:
    folders = ("research", "examples", "scripts")
    programs = {path.stem for folder in folders for path in (ROOT.parent / folder).glob("*.py")}
    assert "collect_results" in programs
    absolute = {name.split(".")[0] for targets in imports.values() for name in targets - ours(targets)}
    assert absolute & {*folders, *programs} == set()


# --- what is loaded ---------------------------------------------------------------------------------------------------


def loaded_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy_and_no_environment() -> None:
    loaded = loaded_after(f"import {NAME}")
    assert NAME in loaded
    assert not loaded & {*HEAVY, "datasets", "rich", "pandas", "pyarrow", "matplotlib"}
    assert not loaded & {f"{NAME}.envs.writing.tldr", f"{NAME}.envs.coding.humaneval"}


def test_playing_an_environment_loads_nothing_heavy() -> None:
    code = f"from {NAME}.envs.registration import *\nfor name in registry: make(name, **least_arguments(name))"
    loaded = loaded_after(f"{code}.reset(seed=0)")
    assert f"{NAME}.envs.coding.humaneval" in loaded
    assert not loaded & {*HEAVY, "datasets"}


@pytest.mark.slow  # torch is loaded
def test_a_table_learns_without_the_library_of_language_models() -> None:
    """Which takes twice as long to load as torch."""
    loaded = loaded_after(
        "import llm_dec_pomdp.training\n"
        "from llm_dec_pomdp.agents import Sampling\n"
        "from llm_dec_pomdp.agents.io.load import load_team\n"
        "from llm_dec_pomdp.algorithms.registration import build_algorithm\n"
        "team = load_team(['a'], 'builtin:table', menus={'a': ['x', 'y']})\n"
        "build_algorithm('magrpo', {}, team, Sampling())"
    )
    assert "torch" in loaded
    assert "transformers" not in loaded
