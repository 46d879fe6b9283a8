"""The command `check`: hold an environment to the laws of the suite."""

from __future__ import annotations

import typer

from ..visible import plain
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
    """Check an environment against every law of the suite; exit code 1 when one is broken.

    Example: [bold]llm-dec-pomdp check tldr-v0[/]
    """
    from ..envs.check import CheckFailure, check_env

    typed(env_id)
    with usage():
        env = given_task(env_id, env_option, tasks, field, turns)
    try:
        with err.status(plain(f"checking {env_id}")):
            passed, failure = check_env(env, rows=None), ""
    except CheckFailure as broken:
        passed, failure = [], str(broken)
    if as_json:
        print_json({"id": env_id, "passed": passed, "failure": failure or None})
    elif failure:
        err.print(plain("broken:", "red"), failure)
    else:
        for law in passed:
            out.print(plain("holds", "green"), "", law)
        out.print(f"{env_id}: {len(passed)} laws hold on {len(env.items)} tasks")
    if failure:
        raise typer.Exit(1)
