"""Every registered environment keeps every law; a new one is tested without touching this file."""

from __future__ import annotations

import sys
from typing import Any

import pettingzoo
import pytest
from every import make_least

import llm_dec_pomdp
from llm_dec_pomdp.envs.checks import CHECKS
from llm_dec_pomdp.envs.registration import least_arguments
from llm_dec_pomdp.envs.wrappers import with_protocol

env_ids = pytest.mark.parametrize("env_id", sorted(llm_dec_pomdp.registry))


JUDGED = (
    "humaneval-v0",
    "humaneval-v1",
    "coophumaneval-v0",
    "coophumaneval-v1",
    "coophumaneval-v2",
    "mbpp-v0",
    "classeval-v0",
    "merge-v0",
    "modules-v0",
    "review-v0",
)  # by programs
BY_A_MODEL = ("tldr-v2", "arxiv-v2")
but_long_ones = pytest.mark.parametrize(
    "env_id",
    [
        pytest.param(env_id, marks=pytest.mark.slow if env_id in (*JUDGED, *BY_A_MODEL) else ())
        for env_id in sorted(llm_dec_pomdp.registry)
    ],
)


@pytest.mark.slow
@but_long_ones
def test_every_law_is_kept_over_several_turns(env_id: str) -> None:
    assert llm_dec_pomdp.check_env(make_least(env_id, max_turns=3), rows=1) == list(CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", sorted(set(llm_dec_pomdp.registry) - {"modules-v0", *BY_A_MODEL}))
def test_every_law_is_kept_over_as_many_turns_as_usual(env_id: str) -> None:
    """Those that take long were played over three turns."""
    assert llm_dec_pomdp.check_env(make_least(env_id), rows=1) == list(CHECKS)


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("telegrams-v0", {"n_agents": 1, "max_turns": 2}),
        ("telegrams-v0", {"n_agents": 8, "max_turns": 2}),
        ("tldr-v0", {"turn_reward": "shifted", "max_turns": 2}),
        ("tldr-v0", {"turn_reward": "each", "max_turns": 2}),
        ("keys-v0", {"context": 7}),
        pytest.param("coophumaneval-v2", {"candidates": True}, marks=pytest.mark.slow),
        pytest.param("calls-v0", {"candidates": True, "reward": "call"}, marks=pytest.mark.slow),
        pytest.param("research-v0", {"candidates": True, "context": 20}, marks=pytest.mark.slow),
        pytest.param("research-v0", {"specialists": ["reader", "analyst+calculator"]}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_every_law_is_kept_with_options(env_id: str, options: dict[str, Any]) -> None:
    assert llm_dec_pomdp.check_env(llm_dec_pomdp.make(env_id, **options), rows=1) == list(CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", sorted(set(llm_dec_pomdp.registry) - {*BY_A_MODEL}))
def test_the_reference_of_every_row_earns_its_share(env_id: str) -> None:
    """Those that a model judges have the rows of tldr-v1 and arxiv-v1, and no share."""
    assert CHECKS["references"](make_least(env_id, split="all"), None) is None


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("tldr-v9", "tldr-v0"), ("humanevil-v0", "humaneval-v0"), ("coop-humaneval-v0", "coophumaneval-v0")],
)
def test_an_unknown_id_names_the_nearest(wrong: str, meant: str) -> None:
    with pytest.raises(KeyError) as caught:
        llm_dec_pomdp.make(wrong)
    assert f"no environment {wrong!r}; did you mean" in caught.value.args[0]
    assert meant in caught.value.args[0]


@pytest.mark.skipif(not hasattr(pettingzoo, "make"), reason="PettingZoo has a registry from 1.27 on")
@env_ids
def test_pettingzoo_makes_it_too(env_id: str) -> None:
    env = pettingzoo.make("parallel", f"llm_dec_pomdp/{env_id}", **least_arguments(env_id))
    assert type(env.unwrapped) is llm_dec_pomdp.spec(env_id).load()


@env_ids
def test_an_id_makes_what_its_spec_names(env_id: str) -> None:
    env = make_least(env_id)
    assert type(env) is llm_dec_pomdp.spec(env_id).load()
    assert env.metadata["name"] == env_id
    assert env.spec is not None
    assert env.spec.name == env_id


def test_an_id_without_a_version_is_v0_with_a_sentence(caplog: pytest.LogCaptureFixture) -> None:
    env = llm_dec_pomdp.make("tldr", split="test")
    assert caplog.messages == ["'tldr' has no version; using tldr-v0; known versions: tldr-v0, tldr-v1, tldr-v2"]
    assert with_protocol(env, "centralized").spec == llm_dec_pomdp.spec("tldr-v0")
    assert llm_dec_pomdp.spec("tldr-v1").load()(split="test").spec is None


@env_ids
def test_the_manual_names_the_reward_and_the_version_history(env_id: str) -> None:
    manual = sys.modules[llm_dec_pomdp.spec(env_id).load().__module__].__doc__ or ""
    assert manual.startswith(f"{env_id}: ")
    for part in ("Observation", "Reward", "Version history", "Example"):
        assert part in manual
