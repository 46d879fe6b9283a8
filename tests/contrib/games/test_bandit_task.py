"""bandit-v0: the right word, the effect of the options on every text, and the optimum."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import llm_dec_pomdp
from llm_dec_pomdp.contrib.games.bandit import WORDS


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
