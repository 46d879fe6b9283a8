"""The leaderboard: a submission verifies exactly if replay gives everything that it says."""

from __future__ import annotations

import json
import lzma
import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from llm_dec_pomdp import make
from llm_dec_pomdp.board import BoardError, page, read, submission, suite, verify
from llm_dec_pomdp.board.suite import digest
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs.tasks import item_as_json
from llm_dec_pomdp.storage.files import MANIFEST, Draft

MEETING, TIGER = "meeting-v0", "dectiger-v0"


def task(env_id: str, rows: int, further: str) -> str:
    items = make(env_id, split="test").items[:rows]
    ids = [item.id for item in items]
    rows_digest = digest([item_as_json(item) for item in items])
    return f'[[tasks]]\nenvironment = "{env_id}"\nitems = {ids}\ndigest = "{rows_digest}"\n{further}\n'


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["board", *arguments], env={"COLUMNS": "200"})


def played(place: Path, *options: str) -> Path:
    ran = invoke("run", "--suite", "small", "--out", str(place), *options)
    assert ran.exit_code == 0, ran.output
    return place


@pytest.fixture(scope="module")
def teams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Submissions for a suite of two tasks: of a team in both, of a single agent in one, and of a team in the other."""
    folder = tmp_path_factory.mktemp("board")
    tasks = task(MEETING, 3, "silent = 3\nmax_new_tokens = 8\nmax_turns = 3")
    tasks += task(TIGER, 1, "silent = 2\nmax_new_tokens = 4\nsamples = 3")
    (folder / "small.toml").write_text(f'name = "small"\nseed = 1\n{tasks}', encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(suite, "_SUITES", folder)
        played(folder / "team", "--model", "script:optimal", "--name", "optimal")
        played(folder / "single", "--model", "script:optimal", "--method", "single", "--task", MEETING)
        played(folder / "part", "--model", "script:uniform", "--task", TIGER)
        yield folder


def traces(folder: Path, name: str) -> list[dict[str, Any]]:
    return list(submission.read_traces(folder / name))


def with_file(folder: Path, name: str, content: bytes) -> None:
    """Replace a file and write the manifest again, as a forger would."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST} | {name: content}
    with Draft(folder) as draft:
        for file, bytes_ in files.items():
            draft.write(file, [bytes_])
        draft.publish()


def in_traces(change: Callable[[list[dict[str, Any]]], object], of: str = "") -> Callable[[Path], None]:
    def forge(folder: Path) -> None:
        name = submission.file_of(MEETING, of)
        there = traces(folder, name)
        change(there)
        with_file(folder, name, lzma.compress("".join(json.dumps(trace) + "\n" for trace in there).encode()))

    return forge


def in_results(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def forge(folder: Path) -> None:
        values = json.loads((folder / submission.SUBMISSION).read_text(encoding="utf-8"))
        change(values)
        with_file(folder, submission.SUBMISSION, json.dumps(values).encode())

    return forge


def events(trace: dict[str, Any], kind: str, agent: str) -> list[dict[str, Any]]:
    return [event for event in trace["events"] if event["type"] == kind and event["agent"] == agent]


def act(trace: dict[str, Any], turn: int, text: str) -> None:
    events(trace, "message", "agent_0")[turn]["content"] = text


def header(trace: dict[str, Any]) -> dict[str, Any]:
    return trace["events"][0]["header"]


def longer(trace: dict[str, Any]) -> None:
    """Append spaces, which change neither the reward nor a later observation."""
    last = events(trace, "message", "agent_0")[-1]
    act(trace, -1, last["content"] + 60 * " ")


def damage(folder: Path) -> None:
    path = folder / submission.file_of(MEETING)
    path.write_bytes(path.read_bytes()[:-1])


def pipe(folder: Path) -> None:
    (folder / submission.file_of(MEETING)).unlink()
    os.mkfifo(folder / submission.file_of(MEETING))


FORGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a reward": (in_traces(lambda t: events(t[1], "aggregate", "environment")[-1].update(reward=0.5)), "episode 2"),
    "a return": (in_results(lambda s: s["tasks"][0]["returns"].__setitem__(1, 50.0)), "returns.1: .*50"),
    "a statistic": (in_results(lambda s: s["tasks"][0]["statistics"]["influence"].update(mean=1.5)), "influence.*1.5"),
    "an additional statistic": (in_results(lambda s: s["tasks"][0]["statistics"].update(new={"mean": 1})), "new"),
    "a message": (in_traces(lambda t: act(t[0], 0, "hello")), "episode 1"),
    "the last text": (in_traces(lambda t: act(t[2], -1, "Monday 9")), "episode 3"),
    "a long text": (in_traces(lambda t: longer(t[0])), "64"),
    "an episode dropped": (in_traces(lambda t: t.pop()), "2 episodes, and the suite has 3"),
    "no episode of the silent team": (in_traces(lambda t: t.clear(), "silent"), "0 episodes, and the suite has 3"),
    "episodes reordered": (in_traces(lambda t: t.reverse()), "episode 1, header.task"),
    "another seed of chance": (in_traces(lambda t: header(t[0]).update(seed=5)), "header.seed"),
    "other options": (in_traces(lambda t: header(t[0])["environment"]["options"].update(days=1)), "header.environment"),
    "another task text": (in_traces(lambda t: header(t[0])["task"].update(digest="sha256:0")), "header.task"),
    "NaN in a trace": (in_traces(lambda t: t[0]["costs"].update(wall_clock_s=math.nan)), "finite"),
    "NaN in a statistic": (in_results(lambda s: s["tasks"][0]["statistics"]["return"].update(mean=math.nan)), "finite"),
    "a text left out": (in_traces(lambda t: events(t[0], "message", "agent_0")[0].pop("content")), "content"),
    "code as a protocol": (in_results(lambda s: s["tasks"][0].update(protocol="os:system")), "tasks.0.protocol"),
    "no header": (in_traces(lambda t: t[0]["events"].clear()), "trace"),
    "tasks reordered": (in_results(lambda s: s["tasks"].reverse()), "small"),
    "an unknown suite": (in_results(lambda s: s.update(suite="../other")), r"'\.\./other'"),
    "another suite": (in_results(lambda s: s.update(digest="0")), "small"),
    "markup in a name": (in_results(lambda s: s.update(name="<b>|")), "name"),
    "a file that is no archive": (lambda f: with_file(f, submission.file_of(MEETING), bytes(99)), "meeting-v0"),
    "a damaged file": (damage, r"meeting-v0.jsonl.xz has \d+ bytes"),
    "a pipe": (pipe, "meeting-v0"),
    "a missing file": (lambda f: (f / submission.file_of(TIGER)).unlink(), "dectiger-v0"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_submission_is_refused_with_the_first_difference(name: str, teams: Path, tmp_path: Path) -> None:
    forge, message = FORGED[name]
    shutil.copytree(teams / "team", tmp_path / "forged")
    forge(tmp_path / "forged")
    with pytest.raises(BoardError, match=message):
        verify(tmp_path / "forged")


def test_a_silent_member_may_not_write(teams: Path, tmp_path: Path) -> None:
    """The episodes with all members are valid, but they are not those of a team with a silent member."""
    shutil.copytree(teams / "team", tmp_path / "forged")
    whole = (tmp_path / "forged" / submission.file_of(MEETING)).read_bytes()
    with_file(tmp_path / "forged", submission.file_of(MEETING, "silent"), whole)
    with pytest.raises(BoardError, match="silent"):
        verify(tmp_path / "forged")


def test_an_archive_is_only_unpacked_up_to_a_size(teams: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(teams / "team", tmp_path / "forged")
    with_file(tmp_path / "forged", submission.file_of(MEETING), lzma.compress(bytes(5000)))
    monkeypatch.setattr(submission, "LARGEST", 1000)
    with pytest.raises(BoardError, match="meeting-v0"):
        verify(tmp_path / "forged")


def test_valid_submissions_are_verified_and_wrong_ones_named_by_the_command(teams: Path, tmp_path: Path) -> None:
    checked = invoke("verify", *(str(teams / name) for name in ("team", "single", "part")))
    assert checked.exit_code == 0, checked.output
    assert "valid, 2 tasks of small" in checked.output
    shutil.copytree(teams / "team", tmp_path / "forged")
    damage(tmp_path / "forged")
    assert invoke("verify", str(teams / "part"), str(tmp_path / "forged")).exit_code == 1


def test_statistics_follow_from_the_texts(teams: Path) -> None:
    meeting, tiger = read(teams / "team").tasks
    assert meeting.returns == [pytest.approx(100)] * 3
    assert meeting.statistics["turns"].mean == 2
    assert meeting.statistics["silent loss"].mean > 50  # nobody can book without the calendar of the silent person
    assert meeting.statistics["influence"].mean > 0
    assert len(tiger.returns) == 3  # a single row: episodes are the units of the interval
    [single] = read(teams / "single").tasks
    assert not {"influence", "silent loss"} & single.statistics.keys()


def test_the_page_has_means_of_complete_rows_and_teams_against_a_single_agent(teams: Path) -> None:
    whole, single, part = (
        read(teams / name).model_copy(update={"kind": "model"}) for name in ("team", "single", "part")
    )
    overall, against, of_tasks = page([whole, single, part]).split("\n## ")
    assert "| optimal | model |" in overall
    assert "uniform" not in overall  # it has one of two tasks
    assert "| optimal |  | +0.0 [" in against  # in one of two tasks, so there is no mean over tasks
    assert "| script:uniform, concat | no single agent |" in against
    assert "script:uniform, concat" in of_tasks


def test_a_run_that_was_stopped_keeps_its_finished_tasks_and_no_other_team_takes_them(
    teams: Path, tmp_path: Path
) -> None:
    options = ("--suite", "small", "--out", str(tmp_path / "new"), "--model", f"{MEETING}=script:optimal")
    stopped = invoke("run", *options, "--model", f"{TIGER}=script:nobody", "--name", "mine")
    assert stopped.exit_code == 2
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "new.part").glob("meeting*")}
    assert kept
    other = invoke("run", *options, "--model", f"{TIGER}=script:optimal", "--name", "other")
    assert other.exit_code == 2
    assert "another team" in other.output


def test_a_dry_run_prints_a_bound_and_plays_nothing(teams: Path, tmp_path: Path) -> None:
    dry = invoke("run", "--suite", "small", "--out", str(tmp_path / "new"), "--dry-run", "--price", "1000000")
    assert dry.exit_code == 0, dry.output
    sampled = 6 * 3 * 3 * 8 + 5 * 2 * 3 * 4  # episodes x agents x turns x tokens
    assert f"cost at most {sampled:,}" in dry.output
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_trained_team_plays_the_task_of_its_training_and_is_marked(teams: Path, tmp_path: Path) -> None:
    options = ("--model", "builtin:table", "--sharing", "separate", "--steps", "1", "--prompts", "1", "--samples", "2")
    for seed in ("0", "1"):
        ran = CliRunner().invoke(app, ["train", TIGER, *options, "--seed", seed, "--out", str(tmp_path / seed)])
        assert ran.exit_code == 0, ran.output
    team, partner = (["--team", str(tmp_path / "0")], ["--partner", str(tmp_path / "1")])
    [result] = verify(played(tmp_path / "trained", *team, *partner)).tasks
    assert (result.environment, result.trained_on, result.partner) == (TIGER, TIGER, "magrpo, seed 1")
    assert "partner loss" in result.statistics
    assert "| table, trained |" in page([read(tmp_path / "trained")])
    dropped = traces(tmp_path / "trained", name := submission.file_of(TIGER, "partner"))[:1]
    with_file(tmp_path / "trained", name, lzma.compress(json.dumps(dropped[0]).encode()))
    with pytest.raises(BoardError, match=r"partner.*1 episodes, and the suite has 2"):
        verify(tmp_path / "trained")
    own = invoke("run", "--suite", "small", "--out", str(tmp_path / "new"), *team, "--partner", team[1])
    assert own.exit_code == 2
    assert "it is the run of --team itself" in own.output
