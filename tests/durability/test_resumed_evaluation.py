"""An evaluation that ends early, and is resumed: nothing finished is asked for again, and the numbers are the same."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evaluated import timeless
from servers import Reply, Server, reply_of
from typer.testing import CliRunner, Result

from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.cli import app
from llm_dec_pomdp.episodes import read, to_episode
from llm_dec_pomdp.episodes.files import last_evaluation
from llm_dec_pomdp.types import Episode

TASKS = ["tldr-v0", "--split", "all", "--items", "30", "--turns", "2", "--max-new-tokens", "9"]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def answer(body: dict[str, Any], number: int) -> Reply:
    """A text, and counts of tokens, that follow from what was asked."""
    usage = {"prompt_tokens": len(str(body["messages"])), "completion_tokens": body["seed"] % 7}
    return reply_of({"content": f"word {body['seed'] % 11} and word {body['seed'] % 13}."}, usage=usage)


def failing_after(count: int) -> Callable[[dict[str, Any], int], Reply]:
    """A server that is out of order from a request on."""
    return lambda body, number: answer(body, number) if number < count else (400, b'{"error": "broken"}')


def cell_of(run: Path) -> Path:
    [cell] = (run / "cells").iterdir()
    return cell


def measured(run: Path) -> tuple[list[Episode], dict[str, Any]]:
    """Episodes and numbers, without times."""
    file = last_evaluation(cell_of(run))
    assert file is not None
    summary = json.loads((run / "results.json").read_text())[0]["summary"]
    times = ("tokens_per_second", "response_seconds")
    summary["measured"].pop("orchestration", None)
    return [timeless(to_episode(trace)) for trace in read(file)], {k: v for k, v in summary.items() if k not in times}


def prompts(asked: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps([body["messages"], body["seed"]]) for body in asked)


@pytest.mark.slow
@pytest.mark.parametrize("requests", [58, 117])  # in the first turn, and close to the end
def test_an_evaluation_whose_server_fails_keeps_what_is_finished(server: Server, tmp_path: Path, requests: int) -> None:
    model = ["--model", f"{server.url}#m"]
    server.answer = answer
    assert call("eval", *TASKS, *model, "--out", str(tmp_path / "whole")).exit_code == 0
    whole = prompts(server.asked)
    assert len(whole) == 120

    server.asked.clear()
    run = tmp_path / "run"
    server.answer = failing_after(requests)
    failed = call("eval", *TASKS, *model, "--out", str(run))
    assert failed.exit_code == 1
    assert f"eval --trust --resume {run}" in failed.output.replace("\n", " ")
    answered = server.asked[:requests]

    server.asked.clear()
    server.answer = answer
    resumed = call("eval", "--resume", str(run), "--trust")
    assert resumed.exit_code == 0, resumed.output
    assert prompts([*answered, *server.asked]) == whole  # each was answered once
    assert measured(run) == measured(tmp_path / "whole")
    assert [path.name for path in (cell_of(run) / "episodes").iterdir()] == ["step-0.jsonl"]


def test_a_resumed_evaluation_must_be_the_same(server: Server, tmp_path: Path) -> None:
    run, model = tmp_path / "run", ["--model", f"{server.url}#m"]
    server.answer = failing_after(5)
    assert call("eval", *TASKS, *model, "--out", str(run)).exit_code == 1
    other = call("eval", *TASKS, *model, "--temperature", "0.5", "--resume", str(run))
    assert other.exit_code == 2
    assert "sampling.temperature: 1.0 -> 0.5" in other.output.replace("\n", " ")
    assert call("eval", "--resume", str(run), "--items", "3", "--trust").exit_code == 2
    assert call("eval", "--resume", str(tmp_path / "none")).exit_code == 2
    server.answer = answer
    again = call("eval", *TASKS, *model, "--resume", str(run), "--json")
    assert again.exit_code == 0, again.output
    done = len(server.asked)
    assert call("eval", *TASKS, *model, "--resume", str(run)).exit_code == 0
    assert len(server.asked) == done  # nothing is left to do


@pytest.mark.slow
def test_an_evaluation_of_a_local_model_continues_after_its_last_portion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["tldr-v0", "--model", "builtin:tiny", "--split", "all", "--items", "40", "--max-new-tokens", "2"]
    assert call("eval", *given, "--out", str(tmp_path / "whole")).exit_code == 0
    run, calls, stop = tmp_path / "run", 0, threading.Event()
    original = LanguageModel.generate

    def generate(self: LanguageModel, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2 and not stop.is_set():
            raise OSError("the device is gone")
        return original(self, *arguments)

    monkeypatch.setattr(LanguageModel, "generate", generate)
    assert call("eval", *given, "--out", str(run)).exit_code == 1
    stop.set()
    calls = 0
    with (cell_of(run) / "episodes" / "part-0.jsonl").open("a") as file:
        file.write('{"number": 32, "more"')  # the process was killed while it wrote
    resumed = call("eval", "--resume", str(run))
    assert resumed.exit_code == 0, resumed.output
    assert calls == 1
    assert measured(run) == measured(tmp_path / "whole")


@pytest.mark.slow
def test_an_evaluation_of_a_trained_team_is_resumed_with_its_weights(tmp_path: Path) -> None:
    small = ["--prompts", "1", "--group-size", "2", "--max-new-tokens", "4", "--items", "3", "--device", "cpu"]
    teams = [tmp_path / "team", tmp_path / "other"]
    for seed, team in enumerate(teams):
        trained = call("train", "tldr-v0", *small, "--steps", "1", "--seed", str(seed), "--out", str(team))
        assert trained.exit_code == 0, trained.output
    run = tmp_path / "run"
    assert call("eval", "--team", str(teams[0]), "--out", str(run)).exit_code == 0
    before = measured(run)
    (cell_of(run) / "result.json").unlink()
    resumed = call("eval", "--resume", str(run))
    assert resumed.exit_code == 0, resumed.output
    assert measured(run) == before
    other = call("eval", "--team", str(teams[1]), "--seed", "0", "--resume", str(run))
    assert other.exit_code in (1, 2)
    assert "other" in other.output
