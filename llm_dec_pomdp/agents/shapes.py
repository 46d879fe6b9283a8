# pyright: basic
"""`random:NAME`: a model with the published shape of NAME and random weights, to measure time and memory.

Nothing is downloaded. The tokenizer is the one of `builtin:tiny`, so completions are nonsense. All tokens are about
equally likely, so completions almost never end before the token limit. The weights follow from a seed.
"""

from __future__ import annotations

from typing import Any

PREFIX = "random:"

_LLAMA = {"model_type": "llama", "tie_word_embeddings": True}
_QWEN2 = {"model_type": "qwen2", "vocab_size": 151_936, "max_position_embeddings": 32_768, "tie_word_embeddings": True}
_QWEN3 = {
    "model_type": "qwen3",
    "vocab_size": 151_936,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
    "tie_word_embeddings": True,
}
_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
# By published name: the family, the sizes in the order of _SIZES, and other differences from the family.
_PUBLISHED: dict[str, tuple[dict[str, Any], tuple[int, int, int, int], dict[str, Any]]] = {
    "SmolLM2-135M": (_LLAMA, (576, 1_536, 30, 9), {"num_key_value_heads": 3, "vocab_size": 49_152}),
    "Qwen2.5-0.5B": (_QWEN2, (896, 4_864, 24, 14), {"num_key_value_heads": 2}),
    "Qwen3-0.6B": (_QWEN3, (1_024, 3_072, 28, 16), {}),
    "Llama-3.2-1B": (_LLAMA, (2_048, 8_192, 16, 32), {"num_key_value_heads": 8, "vocab_size": 128_256}),
    "Qwen3-1.7B": (_QWEN3, (2_048, 6_144, 28, 16), {}),
    "Qwen2.5-Coder-3B": (_QWEN2, (2_048, 11_008, 36, 16), {"num_key_value_heads": 2}),
    "Qwen3-4B": (_QWEN3, (2_560, 9_728, 36, 32), {}),
    "Qwen3-8B": (_QWEN3, (4_096, 12_288, 36, 32), {"tie_word_embeddings": False}),
}
SHAPES = tuple(_PUBLISHED)


def random_model(shape: str, tokenizer: Any, *, device: str, dtype: Any, seed: int) -> Any:
    """Return a model of a published shape with random weights.

    Args:
        shape: One of `SHAPES`.
        tokenizer: The tokenizer, whose special tokens the model has.
        device, dtype: Device and type of the weights.
        seed: The seed of the weights; the same seed gives other weights on another device.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    family, sizes, rest = _PUBLISHED[shape]
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    fields = {**family, **dict(zip(_SIZES, sizes, strict=True)), **rest, **special}
    config = AutoConfig.for_model(fields.pop("model_type"), **fields)
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
