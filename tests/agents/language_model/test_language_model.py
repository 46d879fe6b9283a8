"""A language model as a policy: what it says, and the log-probabilities to train on."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from models import AGENTS, WORDS, language_model, network, same, tokenizer
from peft import LoraConfig, get_peft_model
from requests_of_agents import REQUESTS, SHORT, adapted, pairs, recorded
from transformers import AutoModelForCausalLM, GPT2Config, GraniteConfig

from llm_dec_pomdp.agents.base import Request, Sampling
from llm_dec_pomdp.agents.language_model.policy import LanguageModel, PromptTooLongError
from llm_dec_pomdp.types import Completion, conversation


@pytest.fixture
def policy() -> LanguageModel:
    return language_model(seed=1)


# --- acting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 3, 64])
def test_answers_keep_the_order_of_requests_and_the_batch_size_changes_no_text(rows: int) -> None:
    policy = LanguageModel(network(1, double=True), tokenizer(), batch_rows=rows)
    alone = [policy.generate([request], SHORT)[0] for request in REQUESTS]
    together = policy.generate(REQUESTS, SHORT)
    assert [[c.token_ids for c in a] for a in together] == [[c.token_ids for c in a] for a in alone]


def test_a_text_is_its_tokens_without_the_special_ones(policy: LanguageModel) -> None:
    for _, c in pairs(policy):
        assert c.text == policy.tokenizer.decode(list(c.token_ids), skip_special_tokens=True).strip()
        assert "<eos>" not in c.text


def test_a_text_ends_before_a_stop_string_and_keeps_the_tokens_that_were_sampled(policy: LanguageModel) -> None:
    request = Request("agent_0", conversation("say red"), tuple(range(20)))
    stop = (" please", "right left")
    [whole] = policy.generate([request], Sampling(max_new_tokens=8))
    [ended] = policy.generate([request], Sampling(max_new_tokens=8, stop=stop))
    assert {c.truncated for c in ended} == {True, False}
    for long, short in zip(whole, ended, strict=True):
        place = min((long.text.find(string) for string in stop if string in long.text), default=len(long.text))
        stopped = place < len(long.text)
        assert short.text == long.text[:place].strip()
        assert short.token_ids == long.token_ids[: len(short.token_ids)]
        assert any(string in policy.decode(short.token_ids) for string in stop) == stopped
        assert not any(string in policy.decode(short.token_ids[:-1]) for string in stop)
        assert short.truncated == (long.truncated and not stopped)


def test_completions_carry_the_prompt_they_were_drawn_from(policy: LanguageModel) -> None:
    for request, answer in zip(REQUESTS, policy.generate(REQUESTS, SHORT), strict=True):
        assert all(list(c.prompt_ids) == policy.encode(request.history) for c in answer)


@pytest.mark.parametrize(
    ("chat", "prompt"),
    [(True, "user red <eos> assistant green <eos> user blue <eos> assistant"), (False, "red green blue")],
)
def test_the_chat_template_gives_turns_their_roles_and_without_one_there_is_plain_text(chat: bool, prompt: str) -> None:
    policy = language_model(chat=chat)
    assert policy.tokenizer.decode(policy.encode(conversation("red", "green", "blue"))) == prompt


def test_no_token_is_cut_off_unless_asked() -> None:
    """A flat distribution over 90 words: more than 50 of them are drawn, whatever the model's own settings say."""
    model = network(0, spread=1e-4, vocab_size=95)
    model.generation_config.top_k = 50
    policy = LanguageModel(model, tokenizer(words=[f"w{i}" for i in range(90)]))
    [drawn] = policy.generate([Request("a", conversation("w1"), tuple(range(400)))], Sampling(max_new_tokens=1))
    assert len({c.token_ids for c in drawn}) > 80


def test_dropout_is_off() -> None:
    model = network(1, attention_dropout=0.5).train()
    policy = LanguageModel(model, tokenizer())
    assert not model.training
    first, second = (policy.token_logprobs([("a", Completion("x", (5, 6), (7, 8)))], 1.0)[0] for _ in "12")
    assert torch.equal(first, second)


# --- context ----------------------------------------------------------------------------------------------------------


def narrow(**options: Any) -> LanguageModel:
    """A model with room for 16 tokens."""
    return LanguageModel(network(1, max_position_embeddings=16), tokenizer(), **options)


def test_a_prompt_that_just_fits_is_taken_and_one_token_more_names_the_lengths() -> None:
    request = Request("a", conversation("red " * 5))
    [[completion]] = narrow().generate([request], Sampling(max_new_tokens=8))
    assert len(completion.prompt_ids) == 8
    with pytest.raises(PromptTooLongError, match=r"8 tokens.* 9 .* 16"):
        narrow().generate([request], Sampling(max_new_tokens=9))


def test_a_prompt_that_is_too_long_is_shown_and_how_to_shorten_it_said() -> None:
    message = "'green red red.*truncate_prompts"
    with pytest.raises(PromptTooLongError, match=message):
        narrow().encode(conversation("green " + "red " * 50))


def test_on_request_the_end_of_a_long_prompt_is_kept() -> None:
    policy = narrow(truncate_prompts=True)
    long = conversation("green " * 30 + "blue")
    [[completion]] = policy.generate([Request("a", long, (1,))], Sampling(max_new_tokens=6))
    assert list(completion.prompt_ids) == language_model(1).encode(long)[-10:]
    assert policy.encode(conversation("red")) == narrow().encode(conversation("red"))
    with pytest.raises(PromptTooLongError, match="up to 16 new ones"):
        policy.generate([Request("a", conversation("red"), (1,))], Sampling(max_new_tokens=16))


# --- tokenizers and stopping ------------------------------------------------------------------------------------------


def test_a_tokenizer_of_another_model_is_refused() -> None:
    with pytest.raises(ValueError, match=r"55 tokens.* 24"):
        LanguageModel(network(vocab_size=24), tokenizer(words=[f"w{i}" for i in range(50)]))


def test_a_tokenizer_without_pad_token_is_taken(policy: LanguageModel) -> None:
    words = tokenizer()
    words.pad_token = None
    without = LanguageModel(policy.model, words)
    assert without.pad_id == 2
    samples = pairs(policy)
    assert [c.token_ids for _, c in pairs(without)] == [c.token_ids for _, c in samples]
    for actual, wanted in zip(without.token_logprobs(samples, 1.0), policy.token_logprobs(samples, 1.0), strict=True):
        torch.testing.assert_close(actual, wanted, rtol=0, atol=1e-6)


def test_a_model_without_an_end_token_is_refused() -> None:
    with pytest.raises(ValueError, match="eos_token"):
        LanguageModel(network(eos=None), tokenizer(eos=False))


def test_the_models_and_the_tokenizers_end_tokens_both_stop() -> None:
    assert LanguageModel(network(eos=None), tokenizer()).stop_ids == {2}
    model = network()
    model.generation_config.eos_token_id = [7, 9]
    assert LanguageModel(model, tokenizer()).stop_ids == {2, 7, 9}


# --- log-probabilities ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0, 1.8])
@pytest.mark.parametrize("chat", [True, False])
def test_what_was_recorded_is_what_is_recomputed(temperature: float, chat: bool) -> None:
    policy = language_model(seed=2, chat=chat)
    samples = pairs(policy, SHORT.model_copy(update={"temperature": temperature}))
    logprobs, mask = policy.token_logprobs(samples, temperature)
    torch.testing.assert_close(logprobs * mask, recorded(samples, logprobs.shape[1]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_logprobs_and_entropies_are_those_of_a_plain_forward_pass(policy: LanguageModel, temperature: float) -> None:
    """Of every text alone, so that neither the amount of padding nor what it contains matters."""
    samples = pairs(policy)
    logprobs, mask = policy.token_logprobs(samples, temperature)
    beside_entropies, entropies, _ = policy.token_logprobs_and_entropies(samples, temperature)
    torch.testing.assert_close(beside_entropies, logprobs)
    lengths = [len(c.token_ids) for _, c in samples]
    assert len(set(lengths)) > 1
    assert torch.equal(mask, (torch.arange(mask.shape[1]) < torch.tensor(lengths)[:, None]).float())
    for row, (_, c) in enumerate(samples):
        logits = policy.model(torch.tensor([c.prompt_ids + c.token_ids])).logits[0, len(c.prompt_ids) - 1 : -1]
        drawn = torch.distributions.Categorical(logits=logits / temperature)
        wanted = drawn.log_prob(torch.tensor(c.token_ids))
        torch.testing.assert_close(logprobs[row, : lengths[row]], wanted, rtol=0, atol=1e-5)
        torch.testing.assert_close(entropies[row, : lengths[row]], drawn.entropy(), rtol=1e-4, atol=1e-4)


SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"vocab_size": 5 + len(WORDS), "max_position_embeddings": 64, "initializer_range": 0.3}
SIZES |= {"bos_token_id": None, "eos_token_id": 2, "pad_token_id": 1}
GPT2 = GPT2Config(**{**SIZES, "n_embd": 16, "n_layer": 1, "n_head": 2})


@pytest.mark.parametrize(("family", "is_plain"), [("llama", True), ("gpt2", True), ("granite", False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_only_a_head_with_something_around_it_is_computed_with_all_logits(
    family: str, is_plain: bool, dtype: torch.dtype
) -> None:
    granite = GraniteConfig(**SIZES, num_key_value_heads=1, logits_scaling=1.05)
    configs = {"llama": network().config, "gpt2": GPT2, "granite": granite}
    model = AutoModelForCausalLM.from_config(configs[family]).to(dtype)
    assert LanguageModel(model, tokenizer())._plain_head is is_plain


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_an_adapter_on_the_output_layer_is_trained_on() -> None:
    config = LoraConfig(r=4, target_modules=["q_proj", "lm_head"], init_lora_weights=False)
    policy = LanguageModel(
        get_peft_model(network(), config, adapter_name="one"), tokenizer(), adapters=dict.fromkeys(AGENTS, "one")
    )
    samples = pairs(policy)
    logprobs, mask = policy.token_logprobs(samples, 1.0)
    torch.testing.assert_close(logprobs * mask, recorded(samples, logprobs.shape[1]), rtol=0, atol=1e-4)


def test_a_copy_shares_what_is_not_trained_and_keeps_what_is(folder: str) -> None:
    policy = adapted(folder)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    twin = copy.deepcopy(policy)
    ours, theirs = dict(policy.model.named_parameters()), dict(twin.model.named_parameters())
    assert ours.keys() == theirs.keys()
    assert {name for name in ours if ours[name] is not theirs[name]} == policy.state_dict().keys()
    assert twin.tokenizer is policy.tokenizer
    samples = pairs(policy)
    before, _ = twin.token_logprobs(samples, 1.0)
    assert torch.equal(before, policy.token_logprobs(samples, 1.0)[0])
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
    assert torch.equal(before, twin.token_logprobs(samples, 1.0)[0])
    assert not torch.equal(before, policy.token_logprobs(samples, 1.0)[0])


# --- weights ----------------------------------------------------------------------------------------------------------


def test_weights_can_be_saved_and_restored_as_a_copy() -> None:
    first, second = language_model(seed=1), language_model(seed=2)
    second.load_state_dict(first.state_dict())
    assert [c.text for _, c in pairs(first)] == [c.text for _, c in pairs(second)]
    with torch.no_grad():
        next(iter(first.parameters())).add_(1)
    assert not same([first.state_dict()], [second.state_dict()])


@pytest.mark.parametrize("wrong", ["missing", "too many", "another shape"])
def test_weights_that_do_not_fit_are_named_and_change_nothing(policy: LanguageModel, wrong: str) -> None:
    before = {name: t.clone() for name, t in policy.state_dict().items()}
    state = {name: t + 1 for name, t in before.items()}
    first = sorted(state)[0]
    message = rf"1 tensors differ.*{first} is missing"
    if wrong == "missing":
        del state[first]
    elif wrong == "too many":
        state["extra"], message = torch.zeros(1), "extra is unexpected"
    else:
        state, message = language_model(hidden_size=32).state_dict(), r"has shape \(\d+, 32\), not \(\d+, 16\)"
    with pytest.raises(ValueError, match=message):
        policy.load_state_dict(state)
    assert same([policy.state_dict()], [before])


def test_frozen_weights_are_neither_parameters_nor_state(policy: LanguageModel) -> None:
    policy.model.model.embed_tokens.weight.requires_grad_(False)
    assert not any("embed_tokens" in name for name in policy.state_dict())
    assert len(list(policy.parameters())) == len(policy.state_dict())
