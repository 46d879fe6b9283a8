"""The command `check`: run the conformance checks on an environment."""

from __future__ import annotations

import typer

from ..printable import plain
from ..user_code import is_of_user, user_traceback
from .console import err, out, print_json, usage
from .options import EnvId, EnvOption, Fields, Json, Tasks, Turns, given_task
from .trust import typed


def check(
    env_id: EnvId,
    tasks: Tasks = "sample",
    field: Fields = None,
    turns: Turns = None,
    env_option: EnvOption = None,
    as_json: Json = False,
) -> None:
    """Run the conformance checks on an environment, for example determinism and no leaks between agents.

    The exit code is 1 if a check fails.

    Example: [bold]llm-dec-pomdp check tldr-v0[/]
    """
    from ..envs.checks import CheckFailure, check_env

    typed(env_id)
    with usage():
        env = given_task(env_id, env_option, tasks, field, turns)
    try:
        with err.status(plain(f"checking {env_id}")):
            passed, failure = check_env(env, rows=None), None
    except CheckFailure as failed:
        passed, failure = list[str](), failed
    if as_json:
        print_json({"id": env_id, "passed": passed, "failure": None if failure is None else str(failure)})
    elif failure is not None:
        if failure.__cause__ is not None and is_of_user(failure.__cause__):
            err.print(user_traceback(failure.__cause__), soft_wrap=True)
        err.print(plain("failed:", "red"), str(failure), soft_wrap=True)
    else:
        for name in passed:
            out.print(plain("passed", "green"), "", name)
        out.print(f"{env_id}: {len(passed)} checks passed on {len(env.items)} tasks")
    if failure is not None:
        raise typer.Exit(1)
