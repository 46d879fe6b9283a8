"""The address of a server stands where the id of an environment may."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_the_tasks_are_those_of_the_server(serving: Serving) -> None:
    test_posts = serving(make("tldr-v0", split="test"))
    with pytest.raises(TaskError, match=r"tasks is 'own\.jsonl'"):
        make(test_posts, tasks="own.jsonl")
    with pytest.raises(TaskError, match="has no tasks in split 'train' among 30"):
        make(test_posts, split="train")
    with pytest.raises(TaskError, match="split 'tset' does not exist; did you mean test"):
        make(test_posts, split="tset")
    with pytest.raises(ValueError, match="takes no argument 'token'"):  # which would be stored with the run
        make(test_posts, token="secret")


@pytest.mark.slow
def test_commands_take_it(serving: Serving, tmp_path: Path) -> None:
    url = serving(make("tldr-v0", split="all"))
    small = ("--items", "2", "--max-new-tokens", "8")
    there, here = (call("eval", source, *small, "--out", str(tmp_path / source[:4])) for source in (url, "tldr-v0"))
    assert (there.exit_code, here.exit_code) == (0, 0), there.output
    results = [next((tmp_path / name).glob("cells/*/result.json")) for name in ("http", "tldr")]
    parts = [json.loads(result.read_text())["summary"]["components"] for result in results]
    assert parts[0] == parts[1]


def test_scripted_teams_are_refused_in_a_sentence(serving: Serving) -> None:
    env: Any = make(serving(make("dectiger-v0")))
    assert not env.facts.scripts
    with pytest.raises(ValueError, match="scripted teams"):
        env.script("optimal")


def test_a_server_that_is_not_there_is_a_sentence(hasty: None) -> None:
    done = call("check", NOBODY)
    assert done.exit_code == 1
    assert "127.0.0.1:9 gave no usable answer in 3 tries" in done.stderr
    assert "is the server running?" in done.stderr
