"""bfcl-parallel-v0: the published reward on the answers of parallel_published.jsonl, and the rows, where installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.contrib.calls.parallel import BFCLParallel
from llm_dec_pomdp.contrib.calls.parallel_reward import LONGEST, score
from llm_dec_pomdp.contrib.calls.published import COMMAND, installed
from llm_dec_pomdp.envs.check import CHECKS
from llm_dec_pomdp.envs.tasks import TaskError

PUBLISHED = Path(__file__).with_name("parallel_published.jsonl")
ROW = {
    "prompt": "Add 1 and 2, and 3 and 4.",
    "functions": '[{"name": "add", "parameters": {"properties": {"a": {}, "b": {}}}}]',
    "calls": '[{"add": {"a": [1], "b": [2]}}, {"add": {"a": [3], "b": [4]}}]',
}


def test_rewards_are_those_that_the_authors_code_gives() -> None:
    for line in PUBLISHED.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found = score(row["completions"], row["functions"], row["calls"])
        assert (row["id"], found.total) == (row["id"], pytest.approx(row["reward"], abs=1e-6))
        assert sum(found.components.values()) == pytest.approx(found.total)


@pytest.mark.parametrize(
    ("texts", "earned"),
    [
        (("add(1, 2)", "add(a=3, b=4)"), 1.1),
        (("add(a=1, b=2)\nadd(a=3, b=4)", ""), 1.1 - 0.15 - 0.075),  # one does nothing
        (("add(a=1, b=2)", "add(a=1.0, b=2)"), 0.05 + 0.25 * 2 / 3 + 0.35 / 2 + 0.05 + 0.15 - 0.1 - 0.025),
        (("", ""), -0.15),
    ],
)
def test_what_two_agents_earn(texts: tuple[str, str], earned: float) -> None:
    env = BFCLParallel(tasks=[ROW])
    env.reset()
    assert env.step(dict(zip(env.agents, texts, strict=True)))[1]["agent_0"] == pytest.approx(earned)


def test_a_list_is_never_right_but_its_elements_are() -> None:
    right: list[Any] = [{"f": {"a": [[3, 5]]}}]
    assert [score([text], [], right).components["arguments"] for text in ("f(a=[3, 5])", "f(a=3)")] == [0.0, 0.35]


@pytest.mark.parametrize("text", ["f(" * 3000, "[" * 5000, "f(a=" + "9" * 5000 + ")", "f(a=1)\0", "x" * (LONGEST + 1)])
def test_hostile_texts_are_no_calls(text: str) -> None:
    assert score([text, text], [{"name": "f"}], [{"f": {"a": [1.5]}}]).components["arguments"] == 0


def test_a_row_that_cannot_be_read_is_refused_by_its_field() -> None:
    with pytest.raises(TaskError, match="field 'calls'"):
        BFCLParallel(tasks=[{**ROW, "calls": '[{"add": 1}]'}])


@pytest.mark.skipif(not installed(), reason=f"needs {COMMAND}")
def test_rows_and_laws() -> None:
    env: Any = llm_dec_pomdp.make("bfcl-parallel-v0")
    assert len(env.items) == 440
    totals = [env.score(item, dict(zip(env.possible_agents, item.reference, strict=True))).total for item in env.items]
    assert sum(total == pytest.approx(1.1) for total in totals) == 354
    assert llm_dec_pomdp.check_env(env) == list(CHECKS)
