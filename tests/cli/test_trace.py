"""`trace` and `bench --traces`: a run becomes traces, which are checked, played again and counted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from llm_dec_pomdp.benchmarks.cell import run_cell
from llm_dec_pomdp.benchmarks.runner import run_folder
from llm_dec_pomdp.benchmarks.suite import Suite
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs.registration import make
from llm_dec_pomdp.episodes import Header, from_episode, read, read_whole, to_groups, validate
from llm_dec_pomdp.rollout import replay
from llm_dec_pomdp.types import Completion, Episode, Turn

EXAMPLE = Path(__file__).parents[1] / "episodes" / "example_trace.json"
SUITE = Suite.model_validate(
    {
        "name": "traced",
        "methods": [{"name": "discussion"}, {"name": "magrpo"}],
        "models": [{"name": "builtin:tiny"}],
        "environments": [{"id": "tldr-v0", "options": {"turn_reward": "each"}, "max_turns": 2}],
        "sampling": {"max_new_tokens": 12},
        "training": {"steps": 2, "prompts_per_step": 1, "group_size": 2},
        "evaluation": {"items": 2, "every": 1},
        "tracking": [],
    }
)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["trace", *arguments], env={"COLUMNS": "200"})


def played(folder: Path, *, traces: bool, methods: int) -> Path:
    """A run of the first cells."""
    with run_folder(folder):
        for cell in SUITE.cells()[:methods]:
            run_cell(cell, folder / "cells" / cell.label, tracking=(), traces=traces)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played(tmp_path_factory.mktemp("runs") / "run", traces=True, methods=2)


@pytest.mark.slow
def test_a_run_becomes_traces_that_play_again(run: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "t.jsonl")
    assert call("export", str(run), place, "--texts", "hashed", "--token-ids").stdout.startswith("wrote 4 traces to ")
    assert call("validate", place).stdout == "4 traces: 4 replayable, 0 valid by the published schema, none wrong\n"
    assert call("replay", place).stdout == "4 traces, none of them with differences\n"
    means = json.loads(call("stats", place, str(EXAMPLE), "--json").stdout)
    assert [mean["traces"] for mean in means.values()] == [4, 1]
    assert means[place]["tokens"] > 0
    headers = [trace["events"][0]["header"] for trace in read_whole(Path(place))]
    weights = {h["protocol"]: [player["weights"] for player in h["players"].values()] for h in headers}
    assert weights == {"discussion": [0, 0], "parallel": [2, 2]}


@pytest.mark.slow
def test_every_evaluation_has_its_traces_with_token_ids(run: Path) -> None:
    files = sorted(str(path.relative_to(run / "cells")) for path in run.glob("cells/*/episodes/*"))
    untrained, trained = (cell.label for cell in SUITE.cells())
    assert files == sorted(
        [f"{untrained}/episodes/step-0.jsonl", *(f"{trained}/episodes/step-{n}.jsonl" for n in (0, 1, 2))]
    )
    groups = to_groups(trace for name in files for trace in read(run / "cells" / name))
    assert [len(group.episodes) for group in groups] == [1, 1, 3, 3]  # two tasks, under two protocols


@pytest.mark.slow
def test_a_run_without_them_becomes_traces_too_but_for_token_ids(tmp_path: Path) -> None:
    run = played(tmp_path / "run", traces=False, methods=1)
    place = tmp_path / "t.jsonl"
    refused = call("export", str(run), str(place), "--token-ids")
    assert refused.exit_code == 2
    assert "bench --traces" in refused.output
    assert not place.exists()
    assert call("export", str(run), "--out", str(place)).exit_code == 0
    assert [validate(trace) for trace in read(place)] == [[], []]
    assert [replay(trace) for trace in read(place)] == ["", ""]


def test_foreign_traces_are_checked_and_counted(tmp_path: Path) -> None:
    done = call("validate", str(EXAMPLE))
    assert done.exit_code == 0
    assert "0 replayable, 1 valid by the published schema, none wrong" in done.output
    assert call("stats", str(EXAMPLE)).exit_code == 0


def test_a_trace_of_this_package_has_to_be_replayable(tmp_path: Path) -> None:
    env = make("tldr-v0")
    turn = Turn({"agent_0": "a post"}, {"agent_0": Completion("a text")}, 0.0)
    trace = from_episode(Episode(env.items[0].id, 0, (turn,), True), Header.of(env), env.items[0])
    del trace["events"][1]["turn"]
    (tmp_path / "t").write_text(json.dumps(trace))
    refused = call("validate", str(tmp_path / "t"))
    assert refused.exit_code == 1
    assert "trace 1: event 'e1'" in refused.output
    assert "0 replayable, 0 valid by the published schema, 1 wrong" in refused.output


@pytest.mark.parametrize("command", ["validate", "replay", "stats"])
@pytest.mark.parametrize("content", ["", "no", '{"a": NaN}', "[]", None])
def test_what_is_no_trace_ends_with_a_sentence(command: str, content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "t").write_text(content)
    result = call(command, str(tmp_path / "t"))
    assert result.exit_code in (1, 2)
    assert str(tmp_path) in re.sub(r"\s", "", result.output)
    assert isinstance(result.exception, SystemExit)


def test_a_page_is_made_of_traces_of_any_system(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    assert call("view", str(EXAMPLE), str(place)).exit_code == 0
    assert "demo-trace-001" in place.read_text() or place.stat().st_size > 10_000  # packed
    (tmp_path / "large").write_bytes(b"")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    refused = call("view", str(tmp_path / "large"))
    assert refused.exit_code == 2
    assert "a page at most 64 MB" in re.sub(r"\s+", " ", refused.output)


def test_a_log_is_imported_and_a_file_of_traces_exported_as_spans(tmp_path: Path) -> None:
    log, traces, spans = EXAMPLE.parent / "logs" / "openai_agents.jsonl", tmp_path / "t.jsonl", tmp_path / "s.jsonl"
    done = call("import", str(log), str(traces), "--from", "openai-agents")
    assert done.exit_code == 0
    assert "the spans do not say: reward, score, amplification" in done.output
    assert call("validate", str(traces)).exit_code == 0
    assert call("export", str(traces), str(spans), "--to", "otel").exit_code == 0
    assert call("import", str(spans), str(tmp_path / "again.jsonl")).exit_code == 0
    means = json.loads(call("stats", str(traces), str(tmp_path / "again.jsonl"), "--json").stdout)
    assert [mean["utilisation"] for mean in means.values()] == [1.0, 1.0]


def test_a_log_without_agents_or_of_another_system_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"resourceSpans": []}')
    for arguments, words in (
        ([], "no span of an agent"),
        (["--from", "openai-agents"], "field object"),
        (["--from", "otl"], "otel"),
    ):
        refused = call("import", str(tmp_path / "log"), str(tmp_path / "out"), *arguments)
        assert refused.exit_code == 2
        assert words in refused.output
    assert not (tmp_path / "out").exists()
    refused = call("export", str(tmp_path / "log"), str(tmp_path / "out"), "--to", "otel", "--token-ids")
    assert refused.exit_code == 2
    assert "--token-ids" in refused.output


def test_code_that_a_trace_names_is_not_run_unless_it_is_trusted(tmp_path: Path) -> None:
    text = json.dumps(next(read(_written(tmp_path)))).replace('"keys-v0"', '"json:loads"')
    (tmp_path / "t").write_text(text)
    result = call("replay", str(tmp_path / "t"))
    assert result.exit_code == 2
    assert "'json:loads' is code" in result.output


def _written(folder: Path) -> Path:
    import llm_dec_pomdp
    from llm_dec_pomdp.agents import Sampling, Scripted
    from llm_dec_pomdp.episodes import Header, from_episode, write
    from llm_dec_pomdp.rollout import Trajectories

    env = llm_dec_pomdp.make("keys-v0")
    [group] = Trajectories("own").play(env, Scripted(env.script("optimal")), [env.items[0].id], [0], Sampling())
    write([from_episode(group.episodes[0], Header.of(env), env.items[0])], folder / "own")
    return folder / "own"
