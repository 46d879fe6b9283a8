"""What commands load: nothing that happens to lie in the working folder, and nothing that a stranger's file names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llm_dec_pomdp.cli import app

QUICK = ("--items", "1", "--max-new-tokens", "4")
TRAIN = ("train", "tldr-v0", *QUICK, "--steps", "1", "--prompts", "1", "--group-size", "2")
SUITE = """
name = "small"
methods = [{ name = "concat" }]
environments = [{ id = "tldr-v0" }, { id = "coophumaneval-v0" }]
models = [{ name = "builtin:tiny" }]
sampling = { max_new_tokens = 4 }
evaluation = { items = 1 }
"""
# Names of modules that the commands, or processes that they start, import.
SHADOWED = ("jinja2", "torch", "transformers", "peft", "typer", "rich", "pickle", "scipy", "datasets", "signal")
SPY = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\nraise SystemExit('it ran')\n"
MODULE = """
from pathlib import Path
Path(__file__).with_suffix(".ran").touch()
from llm_dec_pomdp.algorithms.magrpo import MAGRPO
from llm_dec_pomdp.envs.writing.tldr import TLDR
"""


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as it is installed: a script in another folder, which is the first place searched for modules."""
    script = folder.parent / "bin" / "llm-dec-pomdp"
    script.parent.mkdir(exist_ok=True)
    script.write_text(
        "import sys\nfrom llm_dec_pomdp.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"
    )
    program = [sys.executable, str(script), *arguments]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)


def ran(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.ran"))


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with files that are named like libraries."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in SHADOWED:
        (folder / f"{name}.py").write_text(SPY)
    return folder


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    return result.exit_code, " ".join(result.output.split())


# --- the working folder -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_files_of_the_working_folder_are_not_libraries(hostile: Path) -> None:
    result = command(hostile, "eval", "tldr-v0", *QUICK, "--out", "run")
    assert result.returncode == 0, result.stderr
    for arguments in (["report", "run"], ["runs", "."], ["list"]):
        assert command(hostile, *arguments).returncode == 0
    assert ran(hostile) == []


@pytest.mark.slow
def test_nor_are_they_in_processes_that_a_command_starts(hostile: Path) -> None:
    assert command(hostile, "check", "tldr-v0").returncode == 0
    (hostile / "suite.toml").write_text(SUITE)
    benched = command(hostile, "bench", "suite.toml", "--out", "bench")
    assert benched.returncode == 0, benched.stderr
    assert ran(hostile) == []


@pytest.mark.slow
def test_a_class_that_is_typed_is_loaded_after_everything_installed(hostile: Path) -> None:
    (hostile / "mine.py").write_text(MODULE)
    result = command(hostile, "eval", "mine:TLDR", *QUICK, "--out", "run")
    assert result.returncode == 0, result.stderr
    assert ran(hostile) == ["mine"]


# --- what files name --------------------------------------------------------------------------------------------------


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run, and in the working folder a file whose code its files may be made to name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert call(*TRAIN, "--out", "run")[0] == 0
    (tmp_path / "strangers.py").write_text(MODULE)
    sys.modules.pop("strangers", None)
    return tmp_path / "run"


def rewrite(run: Path, *, environment: str = "tldr-v0", method: str = "magrpo", model: str = "builtin:tiny") -> None:
    """Let all files of a run name something else."""
    for path in (path for name in ("cell", "team", "result") for path in run.rglob(f"{name}.json")):
        values = json.loads(path.read_text())
        for cell in (values, values.get("cell", {})):
            if "environment" in cell:
                cell["environment"]["id"], cell["method"]["name"], cell["model"]["name"] = environment, method, model
        values.pop("maximum", None)  # earlier versions wrote none and looked it up in the environment
        path.write_text(json.dumps(values))


OUTSIDE = {
    "an environment": {"environment": "strangers:TLDR"},
    "a method": {"method": "strangers:MAGRPO"},
    "a function of the standard library": {"environment": "subprocess:run"},
    "a server": {"model": "http://127.0.0.1:9/v1#m"},
}
COMMANDS = {
    "train": ("train", "--resume", "run", "--json"),
    "more": ("train", "--resume", "run", "--steps", "3", "--json"),
    "export": ("export", "run", "out"),
    "measure": ("eval", "--team", "run", "--out", "new", "--json"),
    "eval": ("eval", "tldr-v0", *QUICK, "--team", "run", "--out", "new", "--json"),
}


@pytest.mark.slow
def test_a_strangers_run_is_not_loaded_unless_trusted(stranger: Path) -> None:
    for what, names in OUTSIDE.items():
        rewrite(stranger, **names)
        (name,) = names.values()
        for title, arguments in COMMANDS.items():
            if title == "eval" and "environment" in names:
                continue  # the environment is typed
            result = CliRunner().invoke(app, arguments)
            output = " ".join(result.output.split())
            assert (what, title, result.exit_code) == (what, title, 2), output
            assert f"'run' names {name!r}" in output
            assert "give --trust" in output
        CliRunner().invoke(app, ["report", "run"])
        CliRunner().invoke(app, ["runs", "run"])
        assert ran(stranger.parent) == []
    assert "strangers" not in sys.modules


@pytest.mark.slow
def test_a_run_that_is_trusted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own.py").write_text(MODULE)
    code, output = call(*TRAIN, "--algorithm", "own:MAGRPO", "--out", "run")
    assert code == 0, output
    assert sys.path[-1] == str(tmp_path)
    assert call("train", "--resume", "run", "--steps", "2")[0] == 2
    code, output = call("train", "--resume", "run", "--steps", "2", "--trust")
    assert code == 0, output


@pytest.mark.parametrize(
    "line",
    [
        'methods = [{ name = "strangers:MAGRPO" }]\nenvironments = [{ id = "tldr-v0" }]',
        'methods = [{ name = "concat" }]\nenvironments = [{ id = "strangers:TLDR" }]',
        'methods = [{ name = "concat" }]\nenvironments = [{ id = "tldr-v0", options.expert.model = "http://h/v1#m" }]',
        'methods = [{ name = "concat" }]\nenvironments = [{ id = "tldr-v0", model = { name = "http://h/v1#m" } }]',
    ],
)
def test_a_suite_file_names_code_only_where_it_is_trusted(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "strangers.py").write_text(MODULE)
    (tmp_path / "suite.toml").write_text(f'name = "s"\n{line}\n')
    for more in ([], ["--dry-run"]):
        code, output = call("bench", "suite.toml", *more)
        assert code == 2
        assert "'suite.toml' names '" in output
        assert "give --trust" in output
    assert ran(tmp_path) == []


def test_a_team_file_names_servers_only_where_it_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "team.toml").write_text(
        '[[members]]\nagents = ["summary", "elaboration"]\nmodel = "http://127.0.0.1:9/v1#m"\n'
    )
    for arguments in (["eval", "tldr-v0", *QUICK], [*TRAIN]):
        code, output = call(*arguments, "--team", "team.toml")
        assert code == 2
        assert "'team.toml' names 'http://127.0.0.1:9/v1#m'" in output
