"""The command `serve-team`, which serves a team to agent programs."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

from ..options import Sampling
from .console import err, stop, usage
from .options import EnvOption, Fields, Model, Tasks, configured, from_options, given, given_task, with_options
from .trust import Trust, allow, typed


@with_options(configured(Sampling, "temperature", "top_p", "max_new_tokens"))
def serve_team(
    context: typer.Context,
    team: Annotated[str, typer.Argument(help="A run with a trained team, or the id of an environment with --model.")],
    model: Model = "",
    port: Annotated[int, typer.Option(help="0: one that is free.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    tasks: Tasks = "sample",
    field: Fields = None,
    env_option: EnvOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first text.")] = 0,
    trust: Trust = False,
    **options: Any,
) -> None:
    """Serve a team to agent programs by OpenAI's chat-completions API; Ctrl-C ends it.

    The field `model` of a request names the role. Clients need the key in OPENAI_API_KEY; if it is not set, a key is
    made and printed.

    Examples: [bold]llm-dec-pomdp serve-team runs/my-run[/]
              [bold]llm-dec-pomdp serve-team program.py:solve --model builtin:tiny[/]
    """
    with usage():
        from ..programs.team import TeamBackend, team_server

        if Path(team).is_dir():
            policy, env, sampling = _trained(context, Path(team), trust=trust)
        else:
            from .. import load_team

            typed(team)
            env = given_task(team, env_option, tasks, field, None)
            policy, sampling = load_team(env, model, seed=seed), Sampling()
        changes = {name: value for name, value in options.items() if given(context, name)}
        sampling = sampling.changed(from_options(Sampling, **changes))
        agents: dict[str, str] = {}  # the first agent of each role
        for agent in env.possible_agents:
            agents.setdefault(env.role(agent), agent)
        key = os.environ.get("OPENAI_API_KEY") or secrets.token_urlsafe(24)
        try:
            server = team_server(TeamBackend(policy, agents, sampling, seed), key, host, port)
        except OSError as error:
            stop(f"nothing can listen at {host} port {port}: {error}; give another --port, or 0", code=1)
    err.print(f"roles: {', '.join(agents)}", soft_wrap=True)
    if not os.environ.get("OPENAI_API_KEY"):
        typer.echo(f"export OPENAI_API_KEY={key}")
    typer.echo(f"export OPENAI_BASE_URL={server.url}/v1")
    server.run()


def _trained(context: typer.Context, run: Path, *, trust: bool) -> tuple[Any, Any, Sampling]:
    """Return the team of a run, its environment, and its sampling options."""
    from ..benchmarks.cell import build_cell
    from .cells import saved_team

    folder, cell = saved_team(context, run, "tasks", "field", "env_option")
    allow([cell], run, trust=trust)
    setup = build_cell(cell.loaded(), folder)
    return setup.team, setup.eval_env, setup.sampling
