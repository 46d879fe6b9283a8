# pyright: basic
"""`builtin:words`: a small untrained Llama, whose tokens are the words of an environment.

Environments with few words declare them (`vocabulary`). The model has 2 layers of width 48, about 60 thousand
parameters. It learns such a task in seconds on one core and needs no download. Its initial weights follow from a seed.

The prompt has the words of the agent's history in order, with `<say>` before each of its actions and `<eos>` after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NAME = "builtin:words"
_SPECIAL = ("<unk>", "<pad>", "<eos>", "<say>")
_TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'assistant' %}<say> {{ m['content'] }} <eos> "
    "{% else %}{{ m['content'] }} {% endif %}{% endfor %}{% if add_generation_prompt %}<say>{% endif %}"
    "{# results of tools are messages like any other #}"
)
_CONTEXT = 2048  # tokens
_SPREAD = 0.1  # standard deviation of the initial weights; with the usual 0.02, a model of this width learns slowly


def word_model(vocabulary: Sequence[str], seed: int) -> tuple[Any, Any]:
    """Return the model and its tokenizer.

    Args:
        vocabulary: Different words without spaces.
        seed: The seed of the initial weights.
    """
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = [*_SPECIAL, *vocabulary]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"unk_token": "<unk>", "pad_token": "<pad>", "eos_token": "<eos>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **special, additional_special_tokens=["<say>"])
    tokenizer.chat_template = _TEMPLATE
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=48,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=_CONTEXT,
        initializer_range=_SPREAD,
        bos_token_id=None,
        eos_token_id=words.index("<eos>"),
        pad_token_id=words.index("<pad>"),
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval(), tokenizer
