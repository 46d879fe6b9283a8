"""A program in a file as the id of an environment: `make("program.py:solve", tasks="tasks.jsonl")`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack

from ..envs.task import TaskOptions
from ..envs.tasks import TaskError, Tasks, is_sample
from ..registries import nearest
from .task import ProgramTask, from_program


def program_env(
    program: str,
    tasks: Tasks = "sample",
    *,
    roles: Sequence[str] | str = (),
    window: float = 0.02,
    timeout: float = 60.0,
    **common: Unpack[TaskOptions],
) -> ProgramTask:
    """Return the environment of `FILE.py:FUNCTION`.

    The file may define `ROLES`, `TASKS`, `CHOICES`, `SCORE_RANGE`, `REWARD_RANGE`, `score` and `rewards`, with the
    meaning of the arguments of `from_program`.

    Args:
        program: The path of the file and the name of the function.
        tasks: "sample": `TASKS` of the file; else see `envs.tasks.load_tasks`.
        roles: Names of the roles, a list or a text with commas; empty: `ROLES` of the file.
        window, timeout, common: See `from_program`.

    Raises:
        ImportError: There is no such file or function.
        TaskError: No tasks are given.
    """
    path, _, function = program.rpartition(":")
    module = _loaded(Path(path))
    if not callable(solve := getattr(module, function, None)):
        raise ImportError(f"{path} has no function {function!r}; {nearest(function, vars(module))}")
    names = [name.strip() for name in roles.split(",")] if isinstance(roles, str) else list(roles)
    own: Any = getattr(module, "TASKS", None)
    if is_sample(tasks) and own is None:
        raise TaskError(f"{program} has no tasks; give tasks='tasks.jsonl' (--tasks), or define TASKS in the file")
    return from_program(
        solve,
        roles=[name for name in names if name] or getattr(module, "ROLES", ()),
        tasks=own if is_sample(tasks) else tasks,
        score=getattr(module, "score", None),
        rewards=getattr(module, "rewards", None),
        choices=getattr(module, "CHOICES", None),
        name=f"{Path(path).stem}.{function}",
        score_range=getattr(module, "SCORE_RANGE", (0.0, 1.0)),
        reward_range=getattr(module, "REWARD_RANGE", None),
        window=window,
        timeout=timeout,
        **common,
    )


def _loaded(path: Path) -> ModuleType:
    """Return the module of a file; it is run once in a process."""
    name = f"llm_dec_pomdp_program_{path.resolve().as_posix().encode().hex()[-80:]}"
    if name in sys.modules:
        return sys.modules[name]
    if not path.is_file():
        raise ImportError(f"there is no file {str(path)!r}; give FILE.py:FUNCTION, relative to {str(Path.cwd())!r}")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
