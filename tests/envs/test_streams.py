from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import pytest
from models import AGENTS, Match, same, softmax_team, weights
from tasks import Duo

import llm_dec_pomdp
from llm_dec_pomdp.agents import Sampling, Scripted, Team
from llm_dec_pomdp.algorithms.magrpo import MAGRPO, MAGRPOConfig
from llm_dec_pomdp.benchmarks.setup import build_task
from llm_dec_pomdp.benchmarks.suite import EvaluationConfig, Suite
from llm_dec_pomdp.envs.tasks import TaskError, TaskSource
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.training import TrainerConfig, restore, train
from llm_dec_pomdp.training.checkpoint import CheckpointError, Checkpoints
from llm_dec_pomdp.types import Group

SAMPLING = Sampling(max_new_tokens=4)


class Rows:
    """Rows that begin anew whenever they are asked for; `read` counts what was taken."""

    def __init__(self, row: Callable[[int], Any], count: int | None = None) -> None:
        self.row, self.count, self.read = row, count, 0

    def __iter__(self) -> Iterator[Any]:
        for number in itertools.count() if self.count is None else range(self.count):
            self.read += 1
            yield self.row(number)


def good(number: int) -> dict[str, str]:
    return {"prompt": f"post {number}"}


def prompts(env: Any, start: int, count: int) -> list[str]:
    return [item.prompt for item in env.stream.read(start, count)]


def test_an_endless_stream_is_read_as_far_as_it_is_asked_for() -> None:
    rows = Rows(good)
    env = Duo(tasks=rows)  # type: ignore[arg-type]
    assert [prompts(env, start, 2) for start in (0, 2)] == [["post 0", "post 1"], ["post 2", "post 3"]]
    assert rows.read == 4
    assert prompts(env, 1, 1) == ["post 1"]  # what was passed is read again


def test_a_stream_that_ends_begins_anew() -> None:
    env = Duo(tasks=datasets.Dataset.from_list([good(i) for i in range(3)]).to_iterable_dataset())
    assert prompts(env, 2, 3) == ["post 2", "post 0", "post 1"]
    assert [item.id for item in env.stream.read(4, 1)] == ["row/2"]  # type: ignore[union-attr]


def test_a_data_set_that_is_shuffled_is_shuffled_anew_in_every_epoch() -> None:
    rows = datasets.Dataset.from_list([good(i) for i in range(20)]).to_iterable_dataset()
    env = Duo(tasks=rows.shuffle(seed=3, buffer_size=20))
    first, second = prompts(env, 0, 20), prompts(env, 20, 20)
    assert sorted(first) == sorted(second)
    assert first != second
    assert prompts(env, 20, 20) == second


def test_a_file_is_read_line_by_line_and_split_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\ufeff" + "\n\n".join(json.dumps(good(i)) for i in range(30)), encoding="utf-8")
    whole, stream = (Duo(tasks=path, split="train", streaming=streaming) for streaming in (False, True))
    assert stream.stream is not None
    assert tuple(item.prompt for item in whole.items) == tuple(prompts(stream, 0, len(whole.items)))


def test_the_slices_of_a_published_set_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(name: str, config: Any, *, split: str, streaming: bool, trust_remote_code: bool) -> Any:
        assert (name, streaming, trust_remote_code) == ("acme/duo", True, False)
        return datasets.Dataset.from_list([{"prompt": f"{split} {i}"} for i in range(9)]).to_iterable_dataset()

    class Published(Duo):
        source = TaskSource("duo", "acme/duo", {"train": "train[2:4]", "test": "test"})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert prompts(Published("hub", streaming=True), 0, 3) == ["train 2", "train 3"]  # once each
    assert prompts(Published("hub", streaming=True, split="test"), 0, 1) == ["test 0"]


BAD: dict[str, tuple[Any, str]] = {
    "empty": (Rows(good, 0), r"given stream: no rows"),
    "field": (Rows(lambda i: {"text": "x"}), r"row 1: field 'prompt'.*'text'"),
    "generator": ((good(i) for i in range(3)), r"twice"),
    "sample": ("sample", r"'sample'"),
    "list file": ("rows.json", r"'rows.json'"),
    "no file": ("none.jsonl", r"none.jsonl'"),
}


@pytest.mark.parametrize(("tasks", "message"), BAD.values(), ids=BAD)
def test_what_is_no_stream_of_tasks_is_named(tasks: Any, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        Duo(tasks, streaming=True)


def test_a_later_row_that_is_bad_is_named_when_it_comes() -> None:
    env = Duo(tasks=Rows(lambda i: {"prompt": "x" if i < 4 else ""}))  # type: ignore[arg-type]
    env.stream.read(0, 4)  # type: ignore[union-attr]
    with pytest.raises(TaskError, match="row 5, field 'prompt'"):
        env.stream.read(4, 1)  # type: ignore[union-attr]
    broken = Duo(tasks=Rows(lambda i: good(i) if i < 1 else 1 / 0))  # type: ignore[arg-type]
    with pytest.raises(TaskError, match=r"row 2, .*ZeroDivisionError"):
        broken.stream.read(0, 2)  # type: ignore[union-attr]
    twice = Duo(tasks=Rows(lambda i: {"id": "a", **good(i)}))  # type: ignore[arg-type]
    with pytest.raises(TaskError, match="id 'a'"):
        twice.stream.read(0, 2)  # type: ignore[union-attr]


def test_an_evaluation_of_a_stream_has_to_know_how_many_tasks() -> None:
    rows = Rows(lambda i: {**good(i), "reference": ["alpha", "beta"]})
    env = with_protocol(Duo(tasks=rows), "sequential")  # type: ignore[arg-type]
    team = Team(dict.fromkeys(AGENTS, Scripted(lambda agent, history: "alpha")))
    assert llm_dec_pomdp.evaluate(team, env, items=3).episodes == 3
    with pytest.raises(TaskError, match=r"duo-v0.*items"):
        llm_dec_pomdp.evaluate(team, env)
    with pytest.raises(TaskError, match="duo-v0"):
        env.reset(seed=0)


def test_a_cell_trains_on_a_stream_and_is_measured_on_the_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps({"prompt": f"post {i}"}) for i in range(30)), encoding="utf-8")
    [cell] = Suite.model_validate(
        {
            "name": "streamed",
            "environments": [{"id": "tldr-v0", "tasks": str(path), "options": {"streaming": True}}],
            "methods": ["magrpo"],
            "models": ["builtin:tiny"],
            "evaluation": {"items": 2},
        }
    ).cells()
    assert len(build_task(cell, evaluation=True).items) == 2
    assert build_task(cell, evaluation=False).stream is not None
    with pytest.raises(TaskError, match="--items 100"):
        build_task(dataclasses.replace(cell, evaluation=EvaluationConfig()), evaluation=True)


class Seen(MAGRPO):
    """Remembers which tasks it was given."""

    tasks: list[str]

    def update(self, groups: Sequence[Group]) -> dict[str, float]:
        self.tasks += [group.item_id for group in groups]
        return super().update(groups)


def trained(folder: Path, steps: int, rows: Any = None) -> tuple[list[str], Any]:
    """The tasks that a run played, and its weights."""
    team = softmax_team()
    learner, env = Seen(team, SAMPLING, MAGRPOConfig(learning_rate=0.1)), Match(tasks=rows or Rows(good, 7))
    learner.tasks = []
    checkpoints = Checkpoints(folder, {})
    config = TrainerConfig(steps=steps, prompts_per_step=2, group_size=3, save_every=1)
    train(learner, env, SAMPLING, config, 5, checkpoints=checkpoints, done=restore(learner, env, checkpoints))
    return learner.tasks, weights(team)


def test_a_resumed_run_goes_on_at_the_right_row(tmp_path: Path) -> None:
    whole, at_end = trained(tmp_path / "whole", 6)
    first, _ = trained(tmp_path / "parts", 4)
    rest, resumed = trained(tmp_path / "parts", 6)
    assert first + rest == whole == [f"row/{row}" for row in (1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5)]
    assert same(at_end, resumed)


def test_a_run_goes_on_with_its_own_stream_alone(tmp_path: Path) -> None:
    trained(tmp_path, 1)
    with pytest.raises(CheckpointError, match="stream"):
        trained(tmp_path, 2, Rows(lambda i: {"prompt": f"another {i}"}))
