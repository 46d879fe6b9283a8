"""Tiny random models of many families: the sampler, the update and one pass over a whole text agree.

Their output layers have more rows than the tokenizer has tokens, as those of most published models.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import pytest
import torch
from models import AGENTS, WORDS, tokenizer

from llm_dec_pomdp.agents.base import Request, Sampling
from llm_dec_pomdp.agents.language_model.adapters import new_adapters
from llm_dec_pomdp.agents.language_model.policy import BASE, LanguageModel, PromptTooLongError
from llm_dec_pomdp.agents.language_model.stepping import forward
from llm_dec_pomdp.types import Completion, conversation

# peft asks transformers for an attribute under its old name.
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

TOKENS = 5 + len(WORDS)
SPARE = 7  # rows of the output layer without a token
SAMPLING = Sampling(max_new_tokens=24)
PROMPTS = ("say red", " ".join(WORDS), "green blue")
USUAL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
}
OLD = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
WINDOW = {"sliding_window": 8}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENT = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8}
GROUPS = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1}
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [8.0] * 4, "rope_theta": 1e4}
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}
FAMILIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "Llama": ("llama", {}),
    "Llama, dynamic rotations": ("llama", {"rope_parameters": DYNAMIC}),
    "Qwen2": ("qwen2", {}),
    "Qwen3": ("qwen3", {}),
    "Mistral": ("mistral", WINDOW),
    "Phi-3": ("phi3", {}),
    "Phi-3, long rotations": ("phi3", {"original_max_position_embeddings": 128, "rope_parameters": LONG}),
    "Gemma 2": ("gemma2", WINDOW),
    "Gemma 3": ("gemma3_text", WINDOW),
    "GPT-2": ("gpt2", OLD),
    "GPT-J": ("gptj", {**OLD, "rotary_dim": 4}),
    "GPT-NeoX": ("gpt_neox", {}),
    "OPT": ("opt", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "Bloom": ("bloom", OLD),
    "Falcon": ("falcon", {"head_dim": None}),
    "Falcon, biases of distance": ("falcon", {"head_dim": None, "alibi": True}),
    "StableLM": ("stablelm", {}),
    "Cohere": ("cohere", {}),
    "OLMo 2": ("olmo2", {}),
    "Granite": ("granite", {"logits_scaling": 3.0}),
    "Mixtral": ("mixtral", EXPERTS),
    "Qwen2 of experts": ("qwen2_moe", {**EXPERTS, "shared_expert_intermediate_size": 16}),
    "Qwen3 of experts": ("qwen3_moe", EXPERTS),
    "Llama 4": ("llama4_text", {**EXPERTS, "intermediate_size_mlp": 48}),
    "DeepSeek V3": ("deepseek_v3", {**EXPERTS, **LATENT, **GROUPS, "num_key_value_heads": 4, "head_dim": 4}),
}


def network(family: str, **changes: Any) -> Any:
    """Make a random model."""
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    kind, own = FAMILIES[family]
    settings: dict[str, Any] = {
        "pad_token_id": 1,
        "bos_token_id": None,
        "eos_token_id": 2,
        "vocab_size": TOKENS + SPARE,
    }
    settings |= {k: v for k, v in {**USUAL, **own, **changes}.items() if v is not None}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config: Any = CONFIG_MAPPING[kind](**settings)
        model = cast("torch.nn.Module", AutoModelForCausalLM.from_config(config))
        for parameter in model.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def with_adapters(model: Any) -> Any:
    """Add an adapter for each agent, with an effect of its own."""
    adapted = new_adapters(model, AGENTS, 4, 0)
    draws = torch.Generator().manual_seed(1)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            parameter.data.copy_(0.3 * torch.randn(parameter.shape, generator=draws))
    return adapted


def in_one_pass(policy: LanguageModel, agent: str, text: Completion) -> torch.Tensor:
    """Compute the log-probabilities over the tokens by one pass over the prompt and the text."""
    ids = torch.tensor([[*text.prompt_ids, *text.token_ids]])
    with torch.no_grad():
        adapters = [policy.adapters[agent] if policy.adapters else None]
        logits = forward(policy.model, adapters, input_ids=ids, use_cache=False).logits.float()[0, :, :TOKENS]
    after = logits[len(text.prompt_ids) - 1 : -1].log_softmax(-1)
    return after.gather(1, torch.tensor(text.token_ids)[:, None])[:, 0]


def assert_consistent(policy: LanguageModel) -> list[tuple[str, Completion]]:
    """Compare the log-probabilities of samples with those of the update and of one pass; return the samples."""
    requests = [Request(agent, conversation(prompt), (1, 2)) for prompt in PROMPTS for agent in AGENTS]
    answers = policy.generate(requests, SAMPLING)
    samples = [(r.agent, text) for r, texts in zip(requests, answers, strict=True) for text in texts]
    with torch.no_grad():
        updates = policy.token_logprobs(samples, 1.0)[0], policy.token_logprobs_and_entropies(samples, 1.0)[0]
    for row, (agent, text) in enumerate(samples):
        expected = in_one_pass(policy, agent, text)
        for found in (torch.tensor(text.logprobs), *(update[row, : len(expected)] for update in updates)):
            torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    return samples


@pytest.mark.every(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_sampler_update_and_one_pass_agree(family: str) -> None:
    samples = assert_consistent(LanguageModel(network(family), tokenizer()))
    assert max(token for _, text in samples for token in text.token_ids) < TOKENS


@pytest.mark.slow
@pytest.mark.every(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_adapters_are_those_of_peft(family: str) -> None:
    model = with_adapters(network(family))
    plain = copy.deepcopy(model)
    assert_consistent(LanguageModel(model, tokenizer(), adapters={agent: agent for agent in AGENTS}))
    ids = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 3, 4, 10], [5, 5, 6, 3, 4]])
    with torch.no_grad():
        mixed = forward(model, [*AGENTS, BASE], input_ids=ids, use_cache=False).logits
        for row, agent in enumerate(AGENTS):
            plain.set_adapter(agent)
            torch.testing.assert_close(mixed[row], plain(input_ids=ids[row : row + 1]).logits[0], atol=1e-5, rtol=0)
        with plain.disable_adapter():
            torch.testing.assert_close(mixed[2], plain(input_ids=ids[2:]).logits[0], atol=1e-5, rtol=0)


def test_ids_between_tokens_are_not_sampled_and_take_no_part() -> None:
    """A vocabulary with a hole: the log-probabilities, entropies and gradients of the tokens are finite and exact."""
    words: Any = tokenizer()
    known = {**words.get_vocab(), "<added>": TOKENS + 3}
    words.get_vocab = lambda: known  # as a file with unused ids gives it
    without = [TOKENS, TOKENS + 1, TOKENS + 2, TOKENS + 4, TOKENS + 5]
    model = network("Llama", vocab_size=TOKENS + 6)
    policy: Any = LanguageModel(model, words)
    request = Request("agent_0", conversation("say red"), tuple(range(40)))
    samplings: list[dict[str, Any]] = [{}, {"temperature": 0.0}, {"temperature": 2.0, "top_p": 0.9, "top_k": 30}]
    for options in samplings:
        [texts] = policy.generate([request], Sampling(max_new_tokens=24, **options))
        assert not {token for text in texts for token in text.token_ids} & set(without)
        samples = [("agent_0", text) for text in texts[:4]]
        logprobs, entropies, mask = policy.token_logprobs_and_entropies(samples, 2.0)
        torch.testing.assert_close(policy.token_logprobs(samples, 2.0)[0] * mask, logprobs * mask, atol=1e-5, rtol=0)
        ids = torch.tensor([[*texts[0].prompt_ids, *texts[0].token_ids]])
        logits = model(input_ids=ids).logits[0, len(texts[0].prompt_ids) - 1 : -1, [*known.values()]] / 2.0
        expected = torch.distributions.Categorical(logits=logits).entropy()
        torch.testing.assert_close(entropies[0, : len(expected)], expected, atol=1e-5, rtol=0)
        ((logprobs + entropies) * mask).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in policy.parameters())
    assert not model.lm_head.weight.grad[without].any()


def test_an_end_without_a_token_is_refused() -> None:
    model = network("Llama")
    model.generation_config.eos_token_id = TOKENS + 1
    with pytest.raises(ValueError, match=rf"no token for \[{TOKENS + 1}\]"):
        LanguageModel(model, tokenizer(eos=False))


@pytest.mark.parametrize("switch", [10, 30, 90])
def test_each_text_of_a_batch_has_the_positions_of_its_length(switch: int) -> None:
    """The switch lies before, between and behind the texts of prompts that are read together."""
    long = network("Phi-3, long rotations", original_max_position_embeddings=switch)
    policy = LanguageModel(long, tokenizer())
    prompts = [conversation(prompt) for prompt in ("say red", " ".join([*WORDS, *WORDS[:20]]))]
    lengths = [len(policy.encode(prompt)) for prompt in prompts]
    assert lengths == [5, 43]
    plain = network("Phi-3, long rotations", original_max_position_embeddings=switch)
    requests = [Request("agent_0", prompt, (1, 2)) for prompt in prompts]
    limit = Sampling(max_new_tokens=4)
    samples = [("agent_0", text) for texts in policy.generate(requests, limit) for text in texts]
    given = Completion("", tuple(range(3, 8)), tuple(range(5, 12 if switch == 10 else 20)))  # crosses, from elsewhere
    samples.append(("agent_0", given))
    with torch.no_grad():
        updates = policy.token_logprobs(samples, 1.0)[0]
    for row, (agent, text) in zip(updates, samples, strict=True):
        expected = in_one_pass(LanguageModel(copy.deepcopy(plain), tokenizer()), agent, text)
        torch.testing.assert_close(row[: len(expected)], expected, atol=1e-4, rtol=0)
        if text is not given:
            torch.testing.assert_close(torch.tensor(text.logprobs), expected, atol=1e-4, rtol=0)


def test_no_text_is_sampled_where_positions_change() -> None:
    model = network("Phi-3, long rotations", original_max_position_embeddings=20)
    request = Request("agent_0", conversation("say red please"), (1,))
    with pytest.raises(PromptTooLongError, match="cross 20 tokens"):
        LanguageModel(model, tokenizer()).generate([request], SAMPLING)
    [[text]] = LanguageModel(model, tokenizer(), truncate_prompts=True).generate([request], Sampling(max_new_tokens=17))
    assert len(text.prompt_ids) == 3
    dynamic = LanguageModel(network("Llama, dynamic rotations", max_position_embeddings=20), tokenizer())
    with pytest.raises(PromptTooLongError, match="context of 20"):
        dynamic.generate([request], SAMPLING)


@pytest.mark.every(5)
@pytest.mark.parametrize("family", FAMILIES)
def test_packed_texts_are_those_of_rows_of_their_own_or_refused(family: str) -> None:
    model = network(family)
    try:
        policy = LanguageModel(model, tokenizer(), packed=True)
    except ValueError as refusal:
        assert "packed is true" in str(refusal)
        assert family in ("Mistral", "Gemma 2", "Gemma 3", "Llama 4", "GPT-J", "Bloom", "Falcon, biases of distance")
        return
    assert_consistent(policy)
