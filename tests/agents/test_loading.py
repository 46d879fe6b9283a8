"""Models by name, and the teams that are made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from models import AGENTS, network, same, smollm2, tokenizer
from peft import LoraConfig, get_peft_model
from requests_of_agents import REQUESTS, SHORT, pairs, recorded
from transformers import LlamaForCausalLM

from llm_dec_pomdp.agents import Remote
from llm_dec_pomdp.agents.base import Request, Sampling
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.io.models import ModelError, load_model, load_policy, locate
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.config import ConfigError
from llm_dec_pomdp.types import Completion, conversation

SHARINGS = ["separate", "shared", "lora"]

# --- adapters on one base ---------------------------------------------------------------------------------------------


def adapters(folder: str, **options: Any) -> LanguageModel:
    team = load_team(AGENTS, folder, sharing="lora", device="cpu", **options)
    [policy] = team.policies
    assert isinstance(policy, LanguageModel)
    return policy


@pytest.fixture(scope="module")
def stirred(folder: str) -> LanguageModel:
    """Every adapter has an effect of its own: LoRA starts with one factor at zero."""
    policy = adapters(folder)
    for i, parameter in enumerate(policy.parameters()):
        with torch.no_grad():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i)))
    return policy


def test_adapters_start_as_the_base(folder: str) -> None:
    base, _ = load_model(folder, device="cpu")
    wanted = [c.logprobs for _, c in pairs(LanguageModel(base, tokenizer()))]
    logprobs = [c.logprobs for _, c in pairs(adapters(folder))]
    for a, b in zip(wanted, logprobs, strict=True):
        assert a == pytest.approx(b, abs=1e-5)


def test_each_agent_has_its_own_adapter(stirred: LanguageModel) -> None:
    [[first], [second]] = stirred.generate([Request(a, conversation("say red"), (1,)) for a in AGENTS], SHORT)
    assert first.logprobs[0] != pytest.approx(second.logprobs[0], abs=1e-3)


def test_a_mixed_batch_samples_and_computes_what_separate_ones_do(stirred: LanguageModel) -> None:
    alone = [[c.text for c in stirred.generate([request], SHORT)[0]] for request in REQUESTS]
    assert [[c.text for c in answer] for answer in stirred.generate(REQUESTS, SHORT)] == alone
    samples = pairs(stirred)
    together, mask = stirred.token_logprobs(samples, 1.0)
    torch.testing.assert_close(together * mask, recorded(samples, together.shape[1]), rtol=0, atol=1e-4)
    for row, sample in enumerate(samples):
        single, _ = stirred.token_logprobs([sample], 1.0)
        torch.testing.assert_close(together[row, : single.shape[1]], single[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("agent", AGENTS)
def test_training_one_adapter_leaves_the_other_unchanged(stirred: LanguageModel, agent: str) -> None:
    stirred.model.zero_grad()
    logprobs, _ = stirred.token_logprobs([(agent, Completion("x", (5, 6, 4), (7, 8, 2)))], 1.0)
    logprobs.sum().backward()
    touched = {name for name, p in stirred.model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert touched
    assert all(f".{agent}." in name for name in touched)


@pytest.mark.parametrize(
    "agents",
    [
        *(("a.b", "a%2Eb", "a_b"), ("keys", "%keys", "training"), ("__base__", "", "%"), ("writer", "writer_critic")),
        *(("q_proj", "layers"), ("lora_A", "lora_B")),  # as parts of the model
    ],
)
def test_agents_may_have_any_name(folder: str, agents: tuple[str, ...]) -> None:
    """Each has an adapter of its own, and a critic beside it has another one."""
    policy: Any = load_team(agents, folder, sharing="lora", device="cpu").members[agents[0]]
    parameters = [{id(p) for p in policy.parameters_of(agent)} for agent in agents]
    assert sum(map(len, parameters)) == len(set().union(*parameters)) == len(list(policy.parameters()))
    critic = policy.critic([agents], separate=True)
    assert {id(p) for p in critic.parameters()}.isdisjoint(set().union(*parameters))
    assert critic.values([(agent, (5, 6)) for agent in agents]).shape == (len(agents),)
    files = policy.weight_files(agents)
    assert set(files) == set(agents)
    assert len({frozenset(file.tensors) for file in files.values()}) == 1
    base = policy.base().token_logprobs([(agent, Completion("x", (5,), (6, 7))) for agent in agents], 1.0)[0]
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.3)
    again = policy.base().token_logprobs([(agent, Completion("x", (5,), (6, 7))) for agent in agents], 1.0)[0]
    assert torch.equal(base, again)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_adapters_that_no_agent_is_said_to_use_are_refused() -> None:
    model = get_peft_model(network(), LoraConfig(target_modules="all-linear"))
    with pytest.raises(ValueError, match=r"adapters \(default\)"):
        LanguageModel(model, tokenizer())


def test_the_seed_decides_the_adapters_and_global_randomness_is_left_alone(folder: str) -> None:
    before = torch.get_rng_state()
    first, second, other = (adapters(folder, seed=seed) for seed in (1, 1, 2))
    assert same([first.state_dict()], [second.state_dict()])
    assert not same([first.state_dict()], [other.state_dict()])
    assert torch.equal(torch.get_rng_state(), before)


def test_an_agent_without_adapter_is_named(stirred: LanguageModel) -> None:
    with pytest.raises(KeyError, match="'agent_7'"):
        stirred.generate([Request("agent_7", conversation("red"))], SHORT)


# --- teams ------------------------------------------------------------------------------------------------------------


def test_separate_models_start_equal_and_share_nothing(folder: str) -> None:
    first, second = load_team(AGENTS, folder, device="cpu").trainable
    assert same([first.state_dict()], [second.state_dict()])
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(1)
    assert not same([first.state_dict()], [second.state_dict()])


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("chosen", [True, False])
def test_options_reach_every_member(folder: str, sharing: Any, chosen: bool) -> None:
    options: dict[str, Any] = {"truncate_prompts": chosen, "gradient_checkpointing": not chosen, "train": chosen}
    team = load_team(AGENTS, folder, sharing=sharing, device="cpu", **options)
    for policy in team.policies:
        assert isinstance(policy, LanguageModel)
        assert (policy.truncate_prompts, policy.gradient_checkpointing) == (chosen, not chosen)
    assert len(team.trainable) == chosen * len(team.policies)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"sharing": "separate"}, torch.float32),
        ({"sharing": "shared"}, torch.float32),
        ({"sharing": "shared", "train": False}, torch.bfloat16),
        ({"sharing": "separate", "train": False}, torch.bfloat16),
        ({"sharing": "lora"}, torch.bfloat16),
        ({"sharing": "separate", "dtype": "bfloat16"}, torch.bfloat16),
    ],
)
def test_on_an_accelerator_weights_that_are_trained_are_in_single_precision(
    folder: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], wanted: torch.dtype
) -> None:
    monkeypatch.setattr(LlamaForCausalLM, "to", lambda model, device: model)  # there is none to go to
    team = load_team(AGENTS, folder, device="cuda", **options)
    for policy in team.policies:
        assert isinstance(policy, LanguageModel)
        frozen = [p for name, p in policy.model.named_parameters() if "lora_" not in name]
        assert {p.dtype for p in frozen} == {wanted}
        assert {p.dtype for p in policy.parameters()} <= {torch.float32, wanted}


def test_a_model_on_a_server_plays_everyone_and_refuses_what_only_a_model_here_can_do() -> None:
    team = load_team(AGENTS, "http://localhost/v1#name")
    assert [type(policy) for policy in team.policies] == [Remote]
    with pytest.raises(ModelError, match="http://localhost/v1"):
        load_team(AGENTS, "http://localhost/v1")  # without a name
    refused: dict[str, Any] = {"truncate_prompts": True, "batch_rows": 3, "chat_template_kwargs": {"a": 1}}
    for option, value in refused.items():
        with pytest.raises(ModelError, match=f"{option} is {value}"):
            load_team(AGENTS, "http://localhost/v1#name", **{option: value})


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
    ("options", "message"),
    [
        ({"device": "cpu,meta", "sharing": "lora"}, "cpu,meta"),
        ({"ranks": 2}, "ranks is 2"),
        ({"engine": {"kind": "vllm", "url": "http://a:1", "model": "base", "adapters": "x"}}, "sharing is 'separate'"),
        ({"sharing": "seperate"}, "'seperate'"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_loaded(
    options: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llm_dec_pomdp.agents.io.load.load_model", None)
    with pytest.raises(ConfigError, match=message):
        load_team(AGENTS, **options)


# --- models -----------------------------------------------------------------------------------------------------------


def test_attention_is_computed_as_asked_with_the_same_result(folder: str) -> None:
    texts = [("a", Completion("x", (5, 6), (7, 8, 2))), ("a", Completion("x", (9,), (3, 2)))]
    found = [load_policy(folder, device="cpu", attention=kind) for kind in ("eager", "sdpa")]
    assert [policy.model.config._attn_implementation for policy in found] == ["eager", "sdpa"]  # type: ignore[attr-defined]
    eager, sdpa = (policy.token_logprobs(texts, 1.0)[0] for policy in found)
    torch.testing.assert_close(eager, sdpa, atol=1e-5, rtol=0)
    with pytest.raises(ModelError, match="spda"):
        load_policy(folder, device="cpu", attention="spda")


def test_a_saved_folder_is_loaded(folder: str) -> None:
    model, loaded_tokenizer = load_model(folder, device="cpu")
    wanted = network(3)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), wanted.parameters(), strict=True))
    assert loaded_tokenizer.chat_template == tokenizer().chat_template


@pytest.mark.parametrize(("dtype", "wanted"), [("auto", torch.float32), ("bfloat16", torch.bfloat16)])
def test_the_dtype_is_as_asked(folder: str, dtype: str, wanted: torch.dtype) -> None:
    model, _ = load_model(folder, device="cpu", dtype=dtype)
    assert {p.dtype for p in model.parameters()} == {wanted}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("{here}", {"dtype": "float23"}, "'float23'.*float32"),
        ("{saved}", {"device": "tpu9"}, "tpu9"),
        ("builtin:tyny", {}, "'builtin:tyny'.*builtin:tiny"),
        ("builtin:words", {}, "builtin:words.*vocabulary"),
        ("random:Qwen3-1.8B", {}, r"Qwen3-1\.8B.*Qwen3-1\.7B"),
        ("{here}/nothing.gguf", {}, r"nothing\.gguf"),
        ("{here}/team.toml", {}, r"--team .*team\.toml"),
        ("{here}/nowhere", {"device": "cpu"}, "nowhere"),
        ("{here}/empty", {"device": "cpu"}, r"empty.*config\.json.*weights.*tokenizer"),
        ("{here}/half", {"device": "cpu"}, "half.*weights.*tokenizer"),
        ("{here}/exported", {"device": "cpu"}, r"exported' has no config\.json.*agent_0.*--team"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_named(
    name: str, options: dict[str, Any], message: str, tmp_path: Path, folder: str
) -> None:
    (tmp_path / "team.toml").write_text("[members]\n")
    for place in ("empty", "half", "exported/agent_0"):
        (tmp_path / place).mkdir(parents=True)
    for place in ("half", "exported/agent_0"):
        (tmp_path / place / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=message):
        load_model(name.format(here=tmp_path, saved=folder), **options)


def test_a_model_of_the_hub_is_looked_for_there_and_without_a_network_in_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(url: str, **options: Any) -> None:
        raise OSError("no network\nand more about it")

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *names: None)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", lambda url, **options: None)
    assert locate("acme/writer") == ("acme/writer", {})
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", refuse)
    unknown = "'acme/writer'.*no network"
    with pytest.raises(ModelError, match=unknown):
        locate("acme/writer")
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *names: "config.json")
    assert locate("acme/writer") == ("acme/writer", {"local_files_only": True})


@pytest.mark.slow
def test_a_real_gguf_file_plays_two_agents() -> None:
    team = load_team(AGENTS, smollm2(), sharing="lora", device="cpu")
    requests = [Request(agent, conversation("Say hello to the other agent."), (1,)) for agent in AGENTS]
    answers = team.generate(requests, Sampling(temperature=0.8, top_p=0.9, max_new_tokens=8))
    for [completion] in answers:
        assert 1 <= len(completion.token_ids) <= 8
        assert completion.text
