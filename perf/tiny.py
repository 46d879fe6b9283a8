"""Random models, prompts and a reward for both sides of a comparison, without imports of the package.

Completions have full length on both sides, so that every run samples the same number of tokens. A bias of the output
layer gives the end and padding tokens a probability of zero.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

WORDS = (
    "some people like to read stories about old houses near the sea while others write letters home every week "
    "because their work is far away and nobody answers when they call after dinner"
).split()
PAD, END = 0, 1


def tokenizer(vocabulary: int = 512) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer with a small vocabulary, which can encode any text."""
    draw = random.Random(0)
    inner = Tokenizer(models.BPE(unk_token=None))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<pad>", "<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator((" ".join(draw.choices(WORDS, k=30)) for _ in range(300)), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<end>", padding_side="left", model_max_length=2048
    )


def model(seed: int = 0, *, hidden: int = 64, layers: int = 2, vocabulary: int = 512) -> Qwen2ForCausalLM:
    """Return a random Qwen2 that never samples the end or padding token."""
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        pad_token_id=PAD,
        eos_token_id=END,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    network = Qwen2ForCausalLM(config)
    return silenced(network, [PAD, END])


def silenced(network: Any, ids: Sequence[int]) -> Any:
    """Return the network with a probability of zero for some tokens; weights stay tied."""
    weight = network.get_input_embeddings().weight
    head = torch.nn.Linear(weight.shape[1], 1)
    head.weight = weight
    head.bias = torch.nn.Parameter(torch.zeros(len(weight)))
    with torch.no_grad():
        head.bias[list(ids)] = -1e4
    network.lm_head = head
    return network


def prompts(count: int, words: int = 40) -> list[str]:
    """Return different prompts with equal numbers of words."""
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS, k=words)) for _ in range(count)]


def letters(texts: list[str] | tuple[str, ...]) -> float:
    """Return the share of the letter e in all texts, a cheap reward that varies between texts."""
    joined = "".join(texts)
    return joined.count("e") / max(len(joined), 1)


def token_ids(rows: int, length: int, vocabulary: int, seed: int = 0) -> torch.Tensor:
    """Return random token ids [rows, length] without special tokens."""
    return torch.randint(2, vocabulary, (rows, length), generator=torch.Generator().manual_seed(seed))
