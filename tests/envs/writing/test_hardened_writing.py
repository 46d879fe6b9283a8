"""The reward of v1 of the writing tasks: the formula of v0 times the properties of the texts."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from tasks import references

import llm_dec_pomdp
from llm_dec_pomdp.envs.writing.reward import connective_part
from llm_dec_pomdp.envs.writing.v1 import quality
from llm_dec_pomdp.envs.writing.v1.quality import PROPERTIES
from llm_dec_pomdp.types import Score

HARDENED = {env_id: llm_dec_pomdp.make(env_id) for env_id in ("tldr-v1", "arxiv-v1")}
hardened = pytest.mark.parametrize("env_id", list(HARDENED))


def scored(env: Any, first: str, second: str, row: int = 0) -> Score:
    return env.score(env.items[row], {"agent_0": first, "agent_1": second})


@hardened
def test_every_component_is_multiplied_by_the_same_factor(env_id: str) -> None:
    """References are natural text; with a third of copied words some lie between 0 and 1."""
    env = llm_dec_pomdp.make(env_id)
    between = 0
    for row, item in enumerate(env.items):
        first, second = item.reference
        source, words = env.source_text(item).split(), second.split()
        copied = min(len(source), len(words) // 3)
        score = scored(env, first, " ".join([*words[: len(words) - copied], *source[:copied]]), row)
        share = math.prod(score.diagnostics[name] for name in PROPERTIES)
        between += 0.0 < share < 1.0
        assert score.components["structure"] == pytest.approx(0.5 * share)
        coherence = 0.4 * connective_part(score.diagnostics["connective_categories"])
        assert score.components["coherence"] == pytest.approx(coherence * share)
    assert between >= 5


@hardened
def test_the_score_is_that_of_v0_where_connectives_and_properties_are_full(env_id: str) -> None:
    """The parts that do not count connectives are those of v0 for references, which have every property in full."""
    env, plain = llm_dec_pomdp.make(env_id), llm_dec_pomdp.make(env_id.replace("v1", "v0"))
    for row, item in enumerate(env.items):
        score, before = scored(env, *item.reference, row), scored(plain, *item.reference, row)
        assert all(score.diagnostics[name] == 1.0 for name in PROPERTIES)
        assert {**score.components, "coherence": 0} == pytest.approx({**before.components, "coherence": 0})


@hardened
def test_the_properties_are_in_the_infos(env_id: str) -> None:
    env = llm_dec_pomdp.make(env_id)
    observations, infos = env.reset(seed=0)
    names = {f"diagnostic/{name}" for name in PROPERTIES}
    assert all(infos[agent][name] == 0.0 for agent in observations for name in names)
    _, _, _, _, infos = env.step(references(env, env.item))
    found = quality.WordPair(*env.item.reference).properties(env.source_text(env.item))
    for info in infos.values():
        assert {f"diagnostic/{name}": value for name, value in found.items()}.items() <= info.items()


@hardened
@pytest.mark.parametrize("first", ["", "too short", "word " * 300])
def test_a_closed_gate_earns_nothing_and_measures_nothing_more(env_id: str, first: str) -> None:
    env = llm_dec_pomdp.make(env_id)
    score = scored(env, first, env.items[0].reference[1])
    assert score.total == 0.0
    assert set(score.components.values()) == {0.0}
    assert {score.diagnostics[name] for name in PROPERTIES} == {0.0}
    assert score.diagnostics["words_first"] == len(first.split())
    assert set(score.diagnostics) == set(env.facts.diagnostics)
    assert score.notes["stopped_at"] == "structure"


@hardened
def test_a_property_of_zero_leaves_nothing_behind_an_open_gate(env_id: str) -> None:
    env = llm_dec_pomdp.make(env_id)
    text = "zebra zebra " * 70
    score = scored(env, text, text)
    assert score.notes.get("stopped_at") != "structure"
    assert score.total == 0.0
    assert score.diagnostics["variety"] == 0.0


def test_the_cue_of_published_posts_is_no_source() -> None:
    """Relevance is about what the agents are shown."""
    item = llm_dec_pomdp.make("tldr-v1").items[0]
    env = llm_dec_pomdp.make("tldr-v1", tasks=[dataclasses.replace(item, prompt=f"{item.prompt}\n\nTL;DR:")])
    assert scored(env, *item.reference) == scored(llm_dec_pomdp.make("tldr-v1", tasks=[item]), *item.reference)
    assert scored(env, "tl dr " * 8, "tl dr " * 16).diagnostics["relevance"] == 0.0
