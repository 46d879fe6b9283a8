"""Environments as tasks of Inspect, with its mock model (`nox -s inspect`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="inspect-ai is not installed: pip install -e '.[inspect]'")

from inspect_ai import eval as evaluate
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from llm_dec_pomdp.board import load
from llm_dec_pomdp.envs.relay import WORDS
from llm_dec_pomdp.episodes import validate
from llm_dec_pomdp.integrations.inspect_tasks import board1, team, traces
from llm_dec_pomdp.rollout import replay

BOARD = '''
import llm_dec_pomdp
from llm_dec_pomdp.envs.tools import kit
from llm_dec_pomdp.envs.wrappers import WithTools

def pin(state: tuple[str, ...], word: str) -> tuple[tuple[str, ...], str]:
    """Pin a word to the board."""
    return (*state, word), "pinned"

def build(**options):
    return WithTools(llm_dec_pomdp.make("relay-v0", **options), [kit("board", pin, initial=())], rounds=2)
'''
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Inspect and its requirements


def model(say: Any) -> Any:
    """A model of Inspect that answers by a function of its messages and tools."""

    def answer(messages: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
        said = say([message.text for message in messages], tools)
        output = said if isinstance(said, ModelOutput) else ModelOutput.from_content("mockllm", said)
        output.usage = ModelUsage(input_tokens=3, output_tokens=1, total_tokens=4)  # counting them needs a download
        return output

    return get_model("mockllm/model", custom_outputs=answer, memoize=False)


def word(texts: list[str], tools: Any) -> str:
    """The word of the observation."""
    return next((word for word in WORDS if word in texts[-1]), "pass")


def played(task: Any, folder: Path, **options: Any) -> tuple[Any, list[Any]]:
    [log] = evaluate(task, log_dir=str(folder), display="none", **options)
    assert log.status == "success", log.error
    return log, list(traces(log.location))


@pytest.mark.slow
def test_a_team_of_mock_models_has_our_returns_and_its_traces_replay(tmp_path: Path) -> None:
    log, found = played(team("relay-v0", "sequential"), tmp_path, model=model(word), limit=3)
    assert [sample.scores["team_return"].value for sample in log.samples] == [1.0] * 3
    assert log.results.scores[0].metrics["mean"].value == 1.0
    assert [validate(trace) for trace in found] == [[]] * 3
    assert [replay(trace) for trace in found] == [""] * 3


@pytest.mark.slow
def test_roles_are_model_roles_and_epochs_have_other_seeds(tmp_path: Path) -> None:
    roles: Any = {"listener": model(lambda texts, tools: "nothing")}
    log, found = played(
        team("relay-v0", "sequential"), tmp_path, model=model(word), model_roles=roles, limit=2, epochs=2
    )
    assert [sample.scores["team_return"].value for sample in log.samples] == [0.0] * 4
    said = {e["content"] for e in found[0]["events"] if e.get("role") == "listener" and e["agent"] != "environment"}
    assert said == {"nothing"}
    assert len({trace["events"][0]["header"]["text_seed"] for trace in found}) == 4


@pytest.mark.slow
def test_the_suite_of_the_leaderboard_has_its_episodes(tmp_path: Path) -> None:
    suite = load("board-1")
    log, found = played(board1("scouts-v0"), tmp_path, model=model(word), limit=2)
    seeds = [planned.seed for planned in suite.plan(suite.task("scouts-v0"))]
    assert [trace["events"][0]["header"]["text_seed"] for trace in found] == seeds[:2]
    assert [*log.results.scores[0].metrics] == ["scouts-v0"]
    assert len(board1().dataset) == sum(len(suite.plan(task)) for task in suite.tasks)


@pytest.mark.slow
def test_tools_of_a_role_are_tools_of_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results: list[str] = []

    def call(texts: list[str], tools: Any) -> Any:
        if len(texts) == 1 and tools:
            return ModelOutput.for_tool_call("mockllm", "pin", {"word": "red"})
        results.extend(texts[2:3])
        return "done"

    (tmp_path / "pinboard.py").write_text(BOARD, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    _, [trace] = played(team("pinboard:build"), tmp_path, model=model(call), limit=1)
    assert "pinned" in results
    called = [event for event in trace["events"] if event["type"] == "tool_call"]
    assert {event["tool"] for event in called} == {"pin"}
    texts = [event.get("content") for event in trace["events"] if event["agent"] == called[0]["agent"]]
    assert str(texts[0]).endswith('<tool_call>{"name": "pin", "arguments": {"word": "red"}}</tool_call>')
