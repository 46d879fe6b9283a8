"""The programs of docs/tutorials, of docs/tools.md and of the README print what the pages say."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import llm_dec_pomdp
from llm_dec_pomdp.cli import app
from tests.servers import Server, reply, serving

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PROGRAM, PRINTED, SHELL, TOML = (
    re.compile(rf"^```{kind}\n(.*?)^```", re.DOTALL | re.MULTILINE) for kind in ("python", "text", "sh", "toml")
)


def run(program: str, folder: Path) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


def types(commands: str) -> str:
    """Run lines of a shell that call `llm-dec-pomdp` in the working folder, and return the output of the last one."""
    printed = ""
    for line in commands.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line)
        assert program == "llm-dec-pomdp"
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        printed = done.stdout
    return printed


def programs(page: str) -> tuple[list[str], str]:
    """The programs of a page, and all that they print."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return PROGRAM.findall(text), "".join(PRINTED.findall(text))


def plays(page: str, module: str, folder: Path, **later: str) -> None:
    """The first program of a page is a module of the user's, as are `later` ones, by a class; the others form one."""
    (first, *others), printed = programs(page)
    (folder / f"{module}.py").write_text(first, encoding="utf-8")
    for name, kind in later.items():
        (program,) = (program for program in others if f"class {kind}(" in program)
        others.remove(program)
        (folder / f"{name}.py").write_text(program, encoding="utf-8")
    assert run("\n".join([f"import {module}", *others]), folder) == printed


@pytest.mark.slow
def test_the_environment_of_the_tutorial_is_learnt(tmp_path: Path) -> None:
    plays("tutorials/environment.md", "echo", tmp_path)


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving()


@pytest.mark.slow
def test_the_team_of_the_first_path_learns_and_its_control_does_not(tmp_path: Path) -> None:
    (program,), printed = programs("tutorials/train.md")
    assert run(program, tmp_path) == printed


@pytest.mark.slow
def test_a_folder_and_a_server_play_as_the_path_for_models_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "tutorials" / "model.md").read_text(encoding="utf-8").replace("http://localhost:8000/v1", server.url)
    local, remote = SHELL.findall(page)
    (program,) = PROGRAM.findall(page)
    model = llm_dec_pomdp.load_team(llm_dec_pomdp.make("tldr-v0"), "builtin:tiny", sharing="shared").policies[0]
    for part in (model.model, model.tokenizer):  # type: ignore[attr-defined]  # of a LanguageModel
        part.save_pretrained(tmp_path / "my-model")
    server.answer = lambda body, number: reply(f"summary {number}")
    types(local)
    assert sorted(path.name for path in (tmp_path / "my-team").iterdir() if path.is_dir()) == ["agent_0", "agent_1"]
    assert not server.asked
    types(remote)
    assert {(body["model"], body["max_tokens"]) for body in server.asked} == {("my-model", 256)}
    assert run(program, tmp_path) == "".join(PRINTED.findall(page))


@pytest.mark.slow
def test_the_suite_of_the_path_for_comparisons_finds_what_its_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "tutorials" / "compare.md").read_text(encoding="utf-8")
    (suite,), (commands,) = TOML.findall(page), SHELL.findall(page)
    (tmp_path / "mine.toml").write_text(suite, encoding="utf-8")
    assert re.search(r"magrpo \+\d\d\.\d points over control on dectiger-v0, 3 seeds: p = 0\.0", types(commands))
    assert (tmp_path / "runs" / "mine" / "report.html").is_file()


@pytest.mark.slow
def test_the_program_of_the_page_is_trained_served_and_used(tmp_path: Path) -> None:
    (first, _, use, _), _ = programs("tutorials/program.md")
    (train, serve) = SHELL.findall((DOCS / "tutorials" / "program.md").read_text(encoding="utf-8"))
    (tmp_path / "painters.py").write_text(first, encoding="utf-8")
    start = [sys.executable, "-P", "-m", "llm_dec_pomdp"]
    for line in train.splitlines():
        subprocess.run([*start, *shlex.split(line)[1:]], cwd=tmp_path, check=True, capture_output=True, timeout=500)
    given = {**os.environ, "OPENAI_API_KEY": "key"}
    command = [*start, *shlex.split(serve)[1:], "--port", "0", "--temperature", "0.01"]
    server = subprocess.Popen(command, cwd=tmp_path, env=given, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip().partition("=")[2]
        program = f"import os\nos.environ.update(OPENAI_BASE_URL={url!r}, OPENAI_API_KEY='key')\n{use}"
        scores = [float(part) for part in re.findall(r"[\d.]+", run(program, tmp_path))]
    finally:
        server.terminate()
        server.communicate()
    assert len(scores) == 3
    assert sum(scores) >= 2


@pytest.mark.slow
def test_the_tools_of_the_page_answer_as_it_says(tmp_path: Path) -> None:
    plays("tools.md", "desk", tmp_path)


@pytest.mark.slow
def test_the_learner_of_the_tutorial_learns_and_its_control_does_not(tmp_path: Path) -> None:
    plays("tutorials/learner.md", "best_of", tmp_path, median="Median")


@pytest.mark.slow
def test_the_teams_of_the_page_on_robustness_understand_only_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    train, crossed, games, faults, sizes, varied = SHELL.findall(
        (DOCS / "tutorials" / "robust.md").read_text(encoding="utf-8")
    )
    types(train)
    types(crossed)
    found = json.loads((tmp_path / "runs" / "crossed" / "crossplay.json").read_text(encoding="utf-8"))
    assert found["own"]["mean"] > 90
    assert found["gap"]["mean"] > found["own"]["mean"] / 2
    types(games)
    assert "Elo" in (tmp_path / "runs" / "games" / "report.md").read_text(encoding="utf-8")
    assert "The critical role is" in types(faults)
    assert "Other sizes" in types(sizes)
    types(varied)
    assert list(tmp_path.glob("runs/seed3/cells/*/result.json"))


def test_the_programs_without_another_library_print_what_their_pages_say(tmp_path: Path) -> None:
    found, printed = programs("tutorials/library.md")
    assert run("\n".join(program for program in found if "pip install" not in program), tmp_path) == printed
    (program,), printed = programs("tutorials/report.md")
    assert run(program, ROOT) == printed  # it reads a file of the clone


@pytest.mark.slow
@pytest.mark.parametrize("library", ["stable_baselines3", "torchrl", "benchmarl", "ray.rllib", "trl", "comlrl"])
def test_the_program_for_a_library_runs_where_it_is_installed(library: str, tmp_path: Path) -> None:
    """What trains for hours, or a model of the reader's, is left at its imports."""
    command = [sys.executable, "-c", f"import {library}"]  # elsewhere, because it is large
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if "ModuleNotFoundError" in found.stderr:
        pytest.skip(found.stderr.strip().rpartition("\n")[2])
    first, *others = programs("tutorials/library.md")[0]
    (program,) = (program for program in others if re.search(rf"^(from|import) {library}\b", program, re.MULTILINE))
    if library in ("benchmarl", "trl", "comlrl"):
        program = program.partition("\n\n")[0]
    run(f"{first}\n{program.replace('100_000', '512')}", tmp_path)


@pytest.mark.slow
def test_a_team_of_different_models_is_loaded_as_the_installation_page_says(tmp_path: Path) -> None:
    (program,), _ = programs("installation.md")
    (members,) = TOML.findall((DOCS / "installation.md").read_text(encoding="utf-8"))
    (tmp_path / "team.toml").write_text(members, encoding="utf-8")
    both = "same = llm_dec_pomdp.load_team(env, 'team.toml')\nprint([len(t.policies) for t in (team, same)])"
    assert run(f"{program}\n{both}", tmp_path) == "[2, 2]\n"


def test_the_first_program_of_the_readme_earns_what_it_says(tmp_path: Path) -> None:
    first = PROGRAM.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    assert run(first, tmp_path).strip() == first.strip().rpartition("  # ")[2]
