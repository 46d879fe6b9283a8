"""Where the models of a team are loaded."""

from __future__ import annotations

import pytest
from models import AGENTS

from llm_dec_pomdp.agents.loading import load_team
from llm_dec_pomdp.agents.transformers.language_model import LanguageModel
from llm_dec_pomdp.config import ConfigError


def test_the_models_of_roles_are_loaded_on_devices_in_turn() -> None:
    agents = [*AGENTS, "agent_2"]
    team = load_team(agents, device="cpu, meta")
    devices: list[str] = []
    for agent in agents:
        policy = team.members[agent]
        assert isinstance(policy, LanguageModel)
        devices.append(policy.device.type)
    assert devices == ["cpu", "meta", "cpu"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"device": "cpu,meta", "sharing": "lora"}, "of which there is one model; give one device"),
        ({"ranks": 2}, "ranks is 2, but the model is loaded into one process; train with --executor"),
        (
            {"engine": {"kind": "vllm", "url": "http://localhost:8000", "model": "base"}},
            "sharing is 'separate', which trains all weights, and engine 'vllm' can be given adapters alone",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_loaded(
    options: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llm_dec_pomdp.agents.loading.load_model", None)
    with pytest.raises(ConfigError, match=said):
        load_team(AGENTS, **options)
