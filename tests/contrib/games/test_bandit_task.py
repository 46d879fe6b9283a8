"""bandit-v0: the right word, the effect of the options on every text, and the optimum."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import llm_dec_pomdp
from llm_dec_pomdp.contrib.games.bandit import WORDS
from llm_dec_pomdp.envs.tasks import TaskError
from llm_dec_pomdp.types import TaskItem


@pytest.mark.parametrize("pay", [{}, {"scale": 100.0}, {"offset": 100.0}, {"slope": 10.0, "scale": 2.0, "offset": 3.0}])
def test_the_optimum_and_chance_are_those_of_all_words_in_all_contexts(pay: dict[str, float]) -> None:
    env = llm_dec_pomdp.make("bandit-v0", **pay)
    earned = np.zeros((len(env.items), len(WORDS)))
    for (row, item), (column, word) in itertools.product(enumerate(env.items), enumerate(WORDS)):
        env.reset(options={"task_id": item.id})
        earned[row, column] = env.step({"agent_0": word})[1]["agent_0"]
    assert env.facts.optimum == pytest.approx(earned.max(axis=1).mean())
    assert env.facts.score_scale.percent(earned.mean()) == pytest.approx(100 / len(WORDS))
    assert sorted(earned.argmax(axis=1)) == list(range(len(WORDS)))  # every context has a word of its own


def test_only_the_word_alone_is_right() -> None:
    env: Any = llm_dec_pomdp.make("bandit-v0")
    word = env.items[0].fields["word"]
    texts = (word, f" {word}\n", f"{word} {word}", "", "c0")
    assert [env.score(env.items[0], {"agent_0": text}).total for text in texts] == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_the_optimum_of_other_rules_of_pay_is_not_claimed() -> None:
    assert llm_dec_pomdp.make("bandit-v0", max_turns=2, turn_reward="each").facts.optimum is None
    assert llm_dec_pomdp.make("bandit-v0", max_turns=2).facts.optimum == 1.0


@pytest.mark.parametrize("name", ["scale", "offset", "slope"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_pay_that_is_negative_or_not_finite_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        llm_dec_pomdp.make("bandit-v0", **{name: value})
    with pytest.raises(ValueError, match=r"scale is 0\.0"):
        llm_dec_pomdp.make("bandit-v0", scale=0.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"word": "w8", "number": "0"}, "field 'word': 'w8'"), ({"word": "w0", "number": "8"}, "field 'number': '8'")],
)
def test_rows_that_can_never_be_scored_are_refused(fields: dict[str, str], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        llm_dec_pomdp.make("bandit-v0", tasks=[TaskItem("t", "c", fields=fields)])
