"""`llm-dec-pomdp serve`: an environment for other processes and machines."""

from __future__ import annotations

from typing import Annotated

import typer

from .console import stop, usage
from .options import EnvId, EnvOption, Fields, Tasks, Turns, given_task
from .trust import typed


def serve(
    env_id: EnvId,
    port: Annotated[int, typer.Option(help="0: one that is free.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen at; any but 127.0.0.1 or localhost needs --token.")] = (
        "127.0.0.1"
    ),
    token: Annotated[
        str | None,
        typer.Option(envvar="LLM_DEC_POMDP_TOKEN", help="Secret of every request; safer in the variable."),
    ] = None,
    sessions: Annotated[int, typer.Option(help="Sessions at the same time.")] = 256,
    megabytes: Annotated[int, typer.Option(help="Memory of a session, in MiB.")] = 64,
    total_megabytes: Annotated[int, typer.Option(help="Memory of all sessions together, in MiB.")] = 2048,
    idle: Annotated[float, typer.Option(help="Seconds without a request after which a session ends.")] = 3600.0,
    tasks: Tasks = "sample",
    field: Fields = None,
    turns: Turns = None,
    env_option: EnvOption = None,
) -> None:
    """Serve an environment to RemoteEnv and to clients of OpenEnv and MCP; Ctrl-C ends it.

    Example: [bold]llm-dec-pomdp serve tldr-v0[/], then in Python: env = RemoteEnv("http://127.0.0.1:8000")
    """
    typed(env_id)
    with usage():
        from ..serving.server import Server
        from ..serving.sessions import Limits

        limits = Limits(sessions, megabytes, idle, total_megabytes)
        env = given_task(env_id, env_option, tasks, field, turns)
        try:
            server = Server(env, host, port, token=token, limits=limits)
        except OSError as error:
            stop(f"nothing can listen at {host} port {port}: {error}; give another --port, or 0", code=1)
    typer.echo(server.url)
    server.run()
