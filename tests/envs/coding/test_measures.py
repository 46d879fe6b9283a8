"""What `measure` says of played pairs: which function made a pair fail, and what a scheme of cooperation receives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from test_schemes import EVENS, SUM

import llm_dec_pomdp
from llm_dec_pomdp.types import Completion, Episode, Group, TaskItem, Turn

MAIN = "def main(xs):\n    return sum(x * x for x in aux(xs))\n"
ROW = replace(SUM, reference=(EVENS, MAIN))
STUB = "def aux(xs):\n    return None\n"
CUBES = "def main(xs):\n    return sum(x ** 3 for x in aux(xs))\n"
TUPLE = "def aux(xs):\n    return tuple(x for x in xs if x % 2 == 0)\n"
OF_LISTS = "def main(xs):\n    return sum(x * x for x in aux(xs) + [])\n"
WITHOUT = "def main(xs):\n    return sum(x * x for x in xs if x % 2 == 0)\n"


def measured(row: TaskItem, pairs: Sequence[tuple[str, str]]) -> dict[str, dict[str, float]]:
    env = llm_dec_pomdp.make("coophumaneval-v0", tasks=[row])
    episodes: list[Episode] = []
    for pair in pairs:
        env.reset(options={"index": 0})
        texts = dict(zip(env.possible_agents, pair, strict=True))
        env.step(texts)
        score = env.last_score
        assert score is not None
        actions = {agent: Completion(text) for agent, text in texts.items()}
        episodes.append(Episode(row.id, 0, (Turn(dict.fromkeys(texts, "?"), actions, score.total, score),), True))
    return {name: dict(table) for name, table in env.measure([Group(row.id, tuple(episodes))]).items()}


def test_a_failed_pair_is_put_down_to_the_function_that_fails_with_a_right_one() -> None:
    pairs = [(EVENS, MAIN), (STUB, MAIN), (STUB, MAIN), (EVENS, CUBES), (TUPLE, OF_LISTS), (STUB, CUBES)]
    assert measured(ROW, pairs)["failed pairs"] == {
        "failed %": pytest.approx(500 / 6),
        "aux broke main %": 40.0,
        "main broke aux %": 20.0,
        "both right %": 20.0,
        "both wrong %": 20.0,
    }


def test_without_references_and_without_failures_there_is_less_to_say() -> None:
    assert "failed pairs" not in measured(SUM, [(STUB, MAIN)])
    assert measured(ROW, [(EVENS, MAIN)])["failed pairs"] == {"failed %": 0.0}


def test_the_return_of_a_scheme_is_that_of_the_episodes_that_show_it() -> None:
    tables = measured(ROW, [(EVENS, MAIN), (EVENS, WITHOUT), (STUB, WITHOUT)])
    assert tables["schemes"]["decorator"] == pytest.approx(1 / 3)
    assert tables["return by scheme"] == {"decorator %": 100.0, "no scheme %": 62.5}
