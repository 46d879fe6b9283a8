"""The commands `crossplay` and `robustness`, and members of saved teams in files."""

from __future__ import annotations

import inspect
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.benchmarks.checks import check_cells
from llm_dec_pomdp.benchmarks.suite import EnvironmentConfig, MethodConfig, ModelConfig, Suite
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs.registration import registry
from llm_dec_pomdp.options import EvaluationConfig, TrainerConfig

FEW = ["--items", "12", "--json"]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})


def document(*arguments: object) -> dict[str, Any]:
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def train(folder: Path, env: EnvironmentConfig, seeds: list[int]) -> list[Path]:
    """Train a table per role for two updates, and return the folders of the cells."""
    suite = Suite(
        name="teams",
        environments=[env],
        methods=[MethodConfig(name="magrpo")],
        models=[ModelConfig(name="builtin:table")],
        seeds=seeds,
        training=TrainerConfig(steps=2, save_every=1, prompts_per_step=2, group_size=2),
        evaluation=EvaluationConfig(timing=0, items=1),
    )
    places = {folder / "cells" / cell.label: cell for cell in check_cells(suite.cells())}
    for place, cell in places.items():
        run_cell(cell, place)
    return list(places)


@pytest.fixture(scope="module")
def teams(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two teams on relay-v0 in one run, and one under another protocol."""
    folder = tmp_path_factory.mktemp("teams")
    relay = EnvironmentConfig(id="relay-v0", protocol="sequential")
    other = relay.model_copy(update={"protocol": "discussion"})
    return [*train(folder / "two", relay, [0, 1]), *train(folder / "one", other, [0])]


def test_every_pair_is_an_evaluation_of_its_own_that_resumes(teams: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "crossed"
    found = document("crossplay", *teams[:2], "--out", out, *FEW)
    assert [place.name for place in sorted(out.glob("cells/*"))] == sorted(
        f"relay_v0-{name}-builtin_table-seed0"
        for name in [
            *("team_1", "team_2"),
            *(f"{r}_of_team_{i}_in_team_{3 - i}" for r in ("speaker_1", "speaker_2", "listener") for i in (1, 2)),
        ]
    )
    for number, team in enumerate(teams[:2]):
        alone = document("eval", "--team", team, "--seed", 0, "--out", tmp_path / f"alone{number}", *FEW)
        assert found["matrix"][number][number] == alone["results"][0]["summary"]["return_percent"]["mean"]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "speaker 1 of team 2 in team 1" not in page, "episodes are compressed"
    assert 'id="traces"' in page
    assert "| 1 | " in (out / "report.md").read_text(encoding="utf-8")
    (out / "cells" / "relay_v0-team_2-builtin_table-seed0" / "result.json").unlink()
    assert document("crossplay", teams[0].parents[1], "--out", out, *FEW) == found


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("one team", "is the only team"),
        ("twice", "is given twice"),
        ("protocol", "protocol: 'sequential' -> 'discussion'"),
        ("environment", "options.n_agents: absent -> 4"),
        ("roles", "meeting-v0/sequential has the roles person 1, .* trained for speaker 1"),
        ("weights", "belong to another model"),
        ("no team", "does not exist"),
    ],
)
def test_teams_that_cannot_be_crossed_are_refused_before_anything_is_written(
    teams: list[Path], tmp_path: Path, case: str, message: str
) -> None:
    first, second, protocol = teams
    given: dict[str, list[object]] = {
        "one team": [first],
        "twice": [first, first],
        "protocol": [first, protocol],
        "roles": [first, second, "--env", "meeting-v0"],
        "no team": [first, tmp_path / "missing"],
    }
    if case in ("environment", "weights"):
        other = tmp_path / "other"
        shutil.copytree(second / "team", other)
        values = json.loads((other / "team.json").read_text(encoding="utf-8"))
        if case == "environment":
            values["environment"]["options"] = {"n_agents": 4}
        else:
            shutil.rmtree(other / "agent_2")
        (other / "team.json").write_text(json.dumps(values), encoding="utf-8")
        given[case] = [first, other]
    result = call("crossplay", *given[case], "--out", tmp_path / "out")
    assert result.exit_code == 2, result.output
    assert re.search(message, result.stderr), result.stderr
    assert not (tmp_path / "out").exists()


def test_code_that_only_a_run_names_is_not_loaded(teams: list[Path], tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    shutil.copytree(teams[1] / "team", stranger)
    text = (stranger / "team.json").read_text(encoding="utf-8")
    (stranger / "team.json").write_text(text.replace('"relay-v0"', '"mine:Relay"'), encoding="utf-8")
    file = tmp_path / "team.toml"
    file.write_text(
        f'members = [{{ agents = ["agent_0", "agent_1", "agent_2"], model = "team:{stranger.as_posix()}" }}]'
    )
    for command in (["crossplay", teams[0], stranger], ["robustness", stranger], ["eval", "relay-v0", "--team", file]):
        result = call(*command, "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert "'mine:Relay': code that would run with your rights" in result.stderr


@pytest.mark.slow
def test_each_change_of_each_role_is_measured_and_a_silent_listener_is_critical(
    teams: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "robust"
    found = document("robustness", teams[0], "--sizes", "2,4", "--items", 48, "--out", out, "--json")
    changes = ["untrained", "after 1 updates", "adversary", "silent", "silent 50%", "noisy 50%"]
    assert {(loss["change"], loss["role"]) for loss in found["losses"]} == {
        (change, role) for change in changes for role in ("speaker 1", "speaker 2", "listener")
    }
    values = {(loss["change"], loss["role"]): loss["value"]["mean"] for loss in found["losses"]}
    assert values["silent", "listener"] == 0
    assert found["critical"] == "listener"
    assert [size["size"] for size in found["sizes"]] == [2, 4]
    assert (found["option"], found["trained_size"]) == ("n_agents", 3)
    assert "fewer than 2 tokens" in found["absent"]["late member"]
    assert "'sequential'" in found["absent"]["script gold"]
    assert (out / "sizes.png").is_file()
    shutil.rmtree(out / "cells" / "relay_v0-listener_noisy_50_-builtin_table-seed0")
    assert document("robustness", teams[0], "--sizes", "2,4", "--items", 48, "--out", out, "--json") == found


def test_the_size_of_an_environment_is_one_of_its_options() -> None:
    tasks: list[Any] = [registry.find(name).load() for name in registry]
    sized = {task.declared.size: task for task in tasks if hasattr(task, "declared") and task.declared.size}
    assert {"n_agents", "modules", "scouts", "delegations", "max_invocations"} <= sized.keys()
    for option, task in sized.items():
        assert isinstance(inspect.signature(task).parameters[option].default, int)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [("two", "'two'"), ("9", "n_agents is 9"), ("2,2", "twice")],
)
def test_sizes_that_do_not_exist_are_refused(teams: list[Path], tmp_path: Path, sizes: str, message: str) -> None:
    result = call("robustness", teams[0], "--sizes", sizes, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (EnvironmentConfig(id="dectiger-v0", max_turns=1), "no option for its number of agents"),
        (
            EnvironmentConfig(
                id="meeting-v0", max_turns=1, options={"n_agents": 2, "days": 1, "hours": 2, "common": 1}
            ),
            "which are other ones in size 3",
        ),
    ],
)
def test_a_table_that_does_not_fit_another_size_is_refused(
    tmp_path: Path, env: EnvironmentConfig, message: str
) -> None:
    (team,) = train(tmp_path / "run", env, [0])
    result = call("robustness", team, "--sizes", "3", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_file_may_take_members_of_saved_teams_and_give_them_faults(teams: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "team.toml"
    place = (teams[0] / "team").as_posix()
    file.write_text(
        f"""
        [members]
        "speaker 1" = "team:{place}#agent_1"
        "speaker 2" = {{ model = "untrained:{place}", fault = {{ kind = "silent" }} }}
        listener = "script:say:red"
        """,
        encoding="utf-8",
    )
    command = ["eval", "relay-v0", "--team", file, "--split", "all", "--json", "--out"]
    assert document(*command, tmp_path / "out")["results"][0]["summary"]["return_percent"]["mean"] == 25
    file.write_text(file.read_text().replace("#agent_1", "#agent_9"), encoding="utf-8")
    result = call(*command, tmp_path / "again")
    assert result.exit_code == 2
    assert "no 'agent_9'" in result.stderr
    file.write_text(
        '[members]\nlistener = "team:nowhere"\n"speaker 1" = "script:random"\n"speaker 2" = "script:random"'
    )
    result = call(*command, tmp_path / "more")
    assert result.exit_code == 2
    assert "'nowhere' is not a saved team" in result.stderr
