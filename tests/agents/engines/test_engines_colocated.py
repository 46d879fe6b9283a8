"""vLLM in this process: what is learnt from its texts, and that no weights are lost on their way to it."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from fake_colocated import FakeColocated
from fake_vllm import AGENTS, SHORT, flat, trained
from models import match

from llm_dec_pomdp.agents.base import Sampling, Team
from llm_dec_pomdp.agents.engines import EngineError, colocated
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.benchmarks import device_speed
from llm_dec_pomdp.benchmarks.device_checks import DeviceChecks
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.rollout import Trajectories


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> FakeColocated:
    fake = FakeColocated()
    fake.install(monkeypatch)
    return fake


def team_of(sharing: str = "lora", **options: Any) -> Team:
    return load_team(AGENTS, sharing=sharing, engine={"kind": "vllm-colocate", **options})


@pytest.mark.slow
@pytest.mark.parametrize(("sharing", "rate"), [("lora", 1e-2), ("shared", 1e-3)])
def test_training_with_it_is_training_with_the_own_loop(vllm: FakeColocated, sharing: str, rate: float) -> None:
    """Up to the rounding of batches that were drawn otherwise."""
    texts, there = trained(team_of(sharing), rate)
    wanted, here = trained(load_team(AGENTS, sharing=sharing), rate)
    assert texts == wanted
    assert (there - here).norm() < 0.01 * (here - flat(load_team(AGENTS, sharing=sharing))).norm()


@pytest.mark.slow
def test_truncation_and_stop_strings_draw_the_texts_of_the_own_loop(vllm: FakeColocated) -> None:
    sampling = Sampling(temperature=0.8, top_p=0.9, top_k=9, max_new_tokens=12, stop=("e", "a t"))
    drawn, wanted = (
        [
            e.turns[0].actions["agent_0"]
            for e in Trajectories().play(match(), team, ["t0"], [1], sampling, 8)[0].episodes
        ]
        for team in (team_of(), load_team(AGENTS, sharing="lora"))
    )
    assert [(c.text, c.token_ids, c.truncated) for c in drawn] == [(c.text, c.token_ids, c.truncated) for c in wanted]
    assert not all(c.truncated for c in wanted)
    assert all(sum(c.logprobs) > sum(w.logprobs) for c, w in zip(drawn, wanted, strict=True))  # of what was kept
    assert all(c.seconds > 0 for c in drawn)


@pytest.mark.slow
def test_it_sleeps_while_weights_are_updated_and_wakes_before_it_is_given_new_ones(vllm: FakeColocated) -> None:
    texts, there = trained(team_of(sleep=True), 1e-2)
    assert vllm.orders.count("sleep") == 3  # after each batch; what is asked of it asleep is an error of the fake
    wanted, here = trained(team_of(), 1e-2)
    assert texts == wanted
    assert torch.equal(there, here)


@pytest.mark.parametrize(
    ("sharing", "lost", "message"),
    [
        ("shared", "lm_head", "model"),
        ("lora", "mlp.down_proj", "'agent_0'"),
        ("lora", "lora_B", "'agent_0'"),
    ],
)
def test_weights_that_do_not_arrive_end_the_run(vllm: FakeColocated, sharing: str, lost: str, message: str) -> None:
    vllm.keeps = lost
    with pytest.raises(EngineError, match=message):
        Trajectories().play(match(), team_of(sharing), ["t0"], [1], SHORT, 2)


def test_what_it_raises_is_an_error_of_the_engine(vllm: FakeColocated) -> None:
    team = team_of(options={"max_lora_rank": 4})
    with pytest.raises(EngineError, match="AssertionError"):
        Trajectories().play(match(), team, ["t0"], [1], SHORT, 2)


def test_without_vllm_or_its_sleep_it_is_refused_before_a_model_is_loaded(
    vllm: FakeColocated, monkeypatch: pytest.MonkeyPatch
) -> None:
    vllm.can_sleep = False
    with pytest.raises(ConfigError, match="'cpu'"):
        team_of(sleep=True)
    monkeypatch.delitem(sys.modules, "vllm")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="vllm"):
        team_of()


@pytest.mark.slow
def test_the_checks_of_a_device_reach_it(vllm: FakeColocated, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = DeviceChecks("cpu", "builtin:tiny")
    found = checks.vllm_in_this_process()
    assert found.holds
    assert all(0 < gap < 1e-5 for gap in found.figures.values())
    assert [*found.figures] == ["mean gap before a step, nats", "mean gap after it, nats"]
    vllm.keeps = "lora_B"
    with pytest.raises(EngineError, match="adapter"):
        checks.vllm_in_this_process()
    vllm.keeps = "nothing"
    for name, small in {"_AT_ONCE": {"cpu": (4,)}, "_LEARNT": {"cpu": ()}, "_SIDE": {"cpu": 64}}.items():
        monkeypatch.setattr(device_speed, name, small)
    assert _measured() == ["all weights", "adapters"]

    def refuse(policy: Any) -> None:
        raise ConfigError("it is elsewhere")

    monkeypatch.setattr(colocated, "_refuse_place", refuse)
    assert (checks.vllm_in_this_process().holds, checks.vllm_in_this_process().meaning) == (None, "it is elsewhere")
    assert not _measured()


def _measured() -> list[str]:
    """The weights with which vLLM was measured."""
    rows = device_speed.speeds("cpu", "builtin:tiny", new_tokens=3)
    return [row["weights"] for row in rows if row["what"] == "texts by vLLM" and row["tokens_per_s"] > 0]
