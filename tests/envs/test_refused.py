"""Options and rows that no environment can play: the error names the option or field, and the value."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import llm_dec_pomdp
from llm_dec_pomdp.envs import TaskError

OPTIONS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "arxiv-v0": {"length_ratio": ["papre"]},
    "bandit-v0": {name: [-1.0, math.nan, math.inf] for name in ("scale", "offset", "slope")} | {"scale": [0.0]},
    "calls-v0": {"reward": ["proces"]},
    "classeval-v0": {"n_agents": [0, 9], "assign": ["taken"]},
    "debate-v0": {"evidence": ["heard"]},
    "dectiger-v0": {"words": ["paraphrase"]},
    "document-v0": {"writers": [1, 9], "facts": [5], "foreign": [4], "count": [2]},
    "humaneval-v0": {"feedback_tests": [-1], "turn_reward": ["sum"]},
    "incident-v0": {"cost": [2], "responders": [4]},
    "keys-v0": {"relations": [1], "entities": [1], "delegations": [0], "context": [-1], "filler": [True]},
    "meeting-v0": {"n_agents": [6], "days": [0], "common": [0], "turn_cost": [-1], "word_cost": [math.nan]},
    "memory-v0": {"notes": [0]},
    "modules-v0": {"modules": [2], "call_cost": [-1]},
    "relay-v0": {"n_agents": [1, 6, True]},
    "repair-v0": {"settings": [0], "accounts": [5], "rewards": ["own"], "words": ["fix"], "count": [2]},
    "research-v0": {
        "max_invocations": [0],
        "context": [0],
        "cost_per_turn": [-1],
        "specialists": ["reader"],
    },
    "review-v0": {"rewards": ["own"], "rewrite_cost": [2], "count": [181]},
    "scouts-v0": {"scouts": [0], "offers": [1.5], "cost": [0, math.nan]},
    "staghunt-v0": {"hare": [1.0], "rewards": ["own"], "n_agents": [7]},
    "support-v0": {"user": ["model"], "goals": [5], "turn_cost": [-1]},
    "telegrams-v0": {"n_agents": [0, 9, -1, 2.5, True, "3"]},
    "tldr-v0": {"turn_reward": ["sum"]},
    "trip-v0": {"wishes": [1], "events": [3, 9], "lists": [-1]},
    "verify-v0": {"rewards": ["own"]},
}
TOGETHER: Sequence[tuple[str, dict[str, Any], str]] = [
    ("calls-v0", {"rows": [200]}, "200 rows"),
    ("classeval-v0", {"reviewer": True, "max_turns": 2}, "max_turns is 2"),
    ("meeting-v0", {"days": 1, "hours": 2, "common": 3}, "common is 3"),
    ("meeting-v0", {"days": 5, "hours": 8}, "5 days of 8 hours"),
    ("research-v0", {"specialists": ["readr"]}, "'readr'"),
    ("research-v0", {"orchestration": {"spilt": 1.0}}, "'spilt'"),
    ("research-v0", {"orchestration": {"split": -1.0}}, "-1.0"),
    ("research-v0", {"orchestration": {"split": math.nan}}, "nan"),
    ("repair-v0", {"settings": 2, "accounts": 1, "faults": 4}, "faults is 4"),
    ("classeval-v0", {"candidates": True, "n_agents": 3}, "classeval-v0"),
    ("classeval-v0", {"candidates": True, "assign": "chosen"}, "classeval-v0"),
    ("humaneval-v0", {"candidates": True}, "humaneval-v0"),
    ("tldr-v0", {"candidates": True}, "tldr-v0"),
    ("coophumaneval-v2", {"feedback": "expert"}, "'expert'"),
]
ROWS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "bandit-v0": {"word": ["w8"], "number": ["8"]},
    "debate-v0": {"documents": ["yes no"]},
    "incident-v0": {"leaves": ["4"]},
    "relay-v0": {"word": ["pink"], "speaker": ["-1", "9" * 5000]},
    "review-v0": {"place": ["3", "first"], "test": ["import unittest"]},
    "staghunt-v0": {"warned": ["3"]},
    "support-v0": {"persona": ["angry"], "goal": ["sleep"], "later": [""], "phone": ["on"], "account": ["pack maybe"]},
    "telegrams-v0": {"prompt": ["the of and"]},
    "verify-v0": {"solver": ["maybe"]},
}


@pytest.mark.parametrize(
    ("env_id", "option", "value"),
    [(env_id, name, value) for env_id, of in OPTIONS.items() for name, values in of.items() for value in values],
    ids=str,
)
def test_a_wrong_option_is_named_with_its_value(env_id: str, option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(option)) as caught:
        llm_dec_pomdp.make(env_id, **{option: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(("env_id", "options", "named"), TOGETHER, ids=str)
def test_options_that_are_wrong_in_part_or_together_are_named(env_id: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        llm_dec_pomdp.make(env_id, **options)


@pytest.mark.parametrize(
    ("env_id", "field", "text"),
    [(env_id, field, text) for env_id, of in ROWS.items() for field, texts in of.items() for text in texts],
    ids=lambda value: value[:12],
)
def test_a_row_that_cannot_be_played_is_named_with_its_field(env_id: str, field: str, text: str) -> None:
    item = llm_dec_pomdp.make(env_id).items[0]
    row = {"prompt": item.prompt, **item.fields}
    assert llm_dec_pomdp.make(env_id, tasks=[row]).items
    with pytest.raises(TaskError, match=f"field '{field}'"):
        llm_dec_pomdp.make(env_id, tasks=[{**row, field: text}])
