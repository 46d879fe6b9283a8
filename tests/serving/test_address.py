"""The address of a server stands where the id of an environment may."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from llm_dec_pomdp.cli import app
from llm_dec_pomdp.envs import make
from llm_dec_pomdp.envs.tasks import TaskError

Serving = Callable[..., str]
NOBODY = "http://127.0.0.1:9"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


@pytest.mark.parametrize("env_id", ["tldr-v0", "dectiger-v0"])
def test_a_split_has_the_tasks_that_it_has_here(env_id: str, serving: Serving) -> None:
    url = serving(make(env_id, split="all"))
    for split in ("train", "test", "all"):
        assert make(url, split=split).items == make(env_id, split=split).items
    assert make(url).items == make(env_id, split="all").items


def test_what_is_made_by_address_knows_its_address(serving: Serving) -> None:
    url = serving(make("tldr-v0", split="all"))
    env = make(url, split="test", max_turns=2)
    assert env.spec is not None
    assert env.spec.name == url
    assert pickle.loads(pickle.dumps(env)).reset(seed=1) == env.reset(seed=1)


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"tasks": "own.jsonl"}, TaskError, r"own\.jsonl"),
        ({"split": "train"}, TaskError, "'train'"),
        ({"split": "tset"}, TaskError, "test"),
        ({"token": "secret"}, ValueError, "'token'"),  # which would be stored with the run
    ],
)
def test_the_tasks_are_those_of_the_server(
    options: dict[str, str], error: type[Exception], named: str, serving: Serving
) -> None:
    with pytest.raises(error, match=named):
        make(serving(make("tldr-v0", split="test")), **options)


@pytest.mark.slow
def test_commands_take_it(serving: Serving, tmp_path: Path) -> None:
    url = serving(make("tldr-v0", split="all"))
    small = ("--items", "2", "--max-new-tokens", "8")
    there, here = (call("eval", source, *small, "--out", str(tmp_path / source[:4])) for source in (url, "tldr-v0"))
    assert (there.exit_code, here.exit_code) == (0, 0), there.output
    results = [next((tmp_path / name).glob("cells/*/result.json")) for name in ("http", "tldr")]
    parts = [json.loads(result.read_text())["summary"]["components"] for result in results]
    assert parts[0] == parts[1]


def test_a_server_that_is_not_there_is_a_sentence(hasty: None) -> None:
    done = call("check", NOBODY)
    assert done.exit_code == 1
    assert "127.0.0.1:9" in done.stderr
