"""The command `serve`, which serves an environment to other processes and machines."""

from __future__ import annotations

from typing import Annotated

import typer

from .console import stop, usage
from .options import EnvId, EnvOption, Fields, Tasks, Turns, given_task
from .trust import typed


def serve(
    env_id: EnvId,
    port: Annotated[int, typer.Option(help="Port; 0 chooses a free one.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Addresses other than 127.0.0.1 and localhost need --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            envvar="LLM_DEC_POMDP_TOKEN",
            help="Secret that every request must contain. Safer in the environment variable than as an option.",
        ),
    ] = None,
    sessions: Annotated[int, typer.Option(help="Most sessions at the same time.")] = 256,
    megabytes: Annotated[int, typer.Option(help="Memory limit of a session, in MiB.")] = 64,
    total_megabytes: Annotated[int, typer.Option(help="Memory limit of all sessions together, in MiB.")] = 2048,
    idle: Annotated[float, typer.Option(help="End a session after this many seconds without a request.")] = 3600.0,
    tasks: Tasks = "sample",
    field: Fields = None,
    turns: Turns = None,
    env_option: EnvOption = None,
) -> None:
    """Serve an environment over HTTP to RemoteEnv and to clients of OpenEnv and MCP; Ctrl-C stops the server.

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
            stop(f"cannot listen on {host} port {port}: {error}; give another --port, or 0 for a free one", code=1)
    typer.echo(server.url)
    server.run()
