"""Rebuild `builtin:tiny` from the train splits of the embedded task sets.

    python scripts/build_tiny.py            # about 6 minutes on two cores, writes llm_dec_pomdp/data/tiny

A byte-level BPE tokenizer of 2,048 tokens and a Llama of 2.2 M parameters are fitted to conversations from the
environments. Every task is played under every communication protocol by a team that acts with the references. The
references are made shorter or longer at random. So the model knows every format, but not which lengths have a high
reward.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import llm_dec_pomdp
from llm_dec_pomdp.agents.base import chat
from llm_dec_pomdp.envs.wrappers import PROTOCOLS, with_protocol
from llm_dec_pomdp.types import Message, TaskItem

ENVIRONMENTS = ("tldr-v0", "arxiv-v0", "coophumaneval-v0")
CHAT_TEMPLATE = (
    "{% if tools %}<|user|>Tools:{% for tool in tools %}{{ '\\n' ~ (tool.function | tojson) }}{% endfor %}{{ '\\n' }}"
    'Call one: <tool_call>{"name": ..., "arguments": {...}}</tool_call><|end|>{% endif %}'
    "{% for m in messages %}{% if m.role == 'tool' %}<|user|>{{ m.name ~ ':\\n' }}{% else %}<|{{ m.role }}|>{% endif %}"
    "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"]
TARGET = Path(__file__).parent.parent / "llm_dec_pomdp" / "data" / "tiny"


@dataclass(frozen=True)
class Conversation:
    """History of an agent and its next action."""

    history: tuple[Message, ...]
    action: str


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+", text)


def noisy_texts(item: TaskItem, name: str, rng: random.Random) -> list[str]:
    """Return the references of an item; references of writing tasks are made shorter or longer at random."""
    if name.startswith("coop"):
        return list(item.reference)
    first, second = (sentences(text) for text in item.reference)
    if name.startswith("tldr"):
        first = first + second[: rng.choice((0, 0, 0, 1, 2, 3))]
        second = second[: rng.choice((1, 2, 3, 4, 9, 9, 9))]
        return [" ".join(first), " ".join(second)]
    return [" ".join(_resized(first, second, rng)), " ".join(_resized(second, first, rng))]


def _resized(words: list[str], other: list[str], rng: random.Random) -> list[str]:
    kind = rng.random()
    if kind < 0.55:
        return words
    if kind < 0.8:
        return words[: rng.randint(2, len(words))]
    return words + other[: rng.randint(1, 3)]


def conversations(rng: random.Random) -> list[Conversation]:
    """Yield one pass over all train items, half of them under the parallel protocol and half under a random one."""
    found: list[Conversation] = []
    for name in ENVIRONMENTS:
        for item in llm_dec_pomdp.make(name, split="train").items:
            protocol = rng.choice(("parallel", "parallel", *PROTOCOLS))
            env = with_protocol(llm_dec_pomdp.make(name, tasks=(item,), split="all"), protocol)
            env.reset(options={"index": 0})
            while env.agents:
                texts = noisy_texts(item, name, rng)
                if protocol == "centralized":
                    texts = [env.facts.join(texts)]
                answers = dict(zip(env.agents, texts, strict=True))
                found += [Conversation(env.history(a), answers[a]) for a in env.agents if env.asked(a)]
                env.step(answers)
    return found


def build_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2048, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        additional_special_tokens=["<|user|>", "<|assistant|>"],
        padding_side="left",
        model_max_length=2048,
        chat_template=CHAT_TEMPLATE,
    )


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=6,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def encode(tokenizer: PreTrainedTokenizerFast, found: Conversation) -> tuple[list[int], int]:
    """Return the token ids of a whole conversation and the position of the first token to learn."""
    turns = chat(found.history)
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    prompt_ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    action_ids = tokenizer(found.action + "<|end|>", add_special_tokens=False)["input_ids"]
    return prompt_ids + action_ids, len(prompt_ids)


def batches(rows: list[tuple[list[int], int]], tokens: int, rng: random.Random) -> list[list[tuple[list[int], int]]]:
    """Return batches of rows of similar length in random order, with about `tokens` tokens each at most."""
    result: list[list[tuple[list[int], int]]] = [[]]
    for row in sorted(rows, key=lambda row: len(row[0])):
        if result[-1] and len(row[0]) * (len(result[-1]) + 1) > tokens:
            result.append([])
        result[-1].append(row)
    rng.shuffle(result)
    return result


def loss_of(model: LlamaForCausalLM, rows: list[tuple[list[int], int]], prompt_weight: float) -> torch.Tensor:
    width = max(len(ids) for ids, _ in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    weight = torch.zeros(len(rows), width)
    for i, (row, start) in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        weight[i, :start] = prompt_weight
        weight[i, start : len(row)] = 1.0
    logits = model(input_ids=ids).logits[:, :-1]
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    weight = weight[:, 1:].flatten()
    return (each * weight).sum() / weight.sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--passes", type=int, default=12, help="passes over the embedded train splits")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--prompt-weight", type=float, default=0.25, help="loss weight of the text that is only read")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    rng = random.Random(args.seed)
    first = conversations(rng)
    tokenizer = build_tokenizer([text for c in first for text in (*(m.text for m in c.history), c.action)])
    model = build_model(tokenizer, args.seed).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.05, betas=(0.9, 0.98))
    started, step, total = time.time(), 0, None
    for number in range(args.passes):
        plan = batches([encode(tokenizer, c) for c in conversations(rng)], tokens=1500, rng=rng)
        total = total or args.passes * len(plan)
        losses = []
        for rows in plan:
            progress = min(1.0, step / total)
            rate = min(1.0, (step + 1) / 40) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress)))
            for group in optimizer.param_groups:
                group["lr"] = args.learning_rate * rate
            loss = loss_of(model, rows, args.prompt_weight)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
            step += 1
        print(
            f"pass {number + 1}/{args.passes}  loss {sum(losses) / len(losses):.3f}  {time.time() - started:.0f} s",
            flush=True,
        )

    shutil.rmtree(args.out, ignore_errors=True)
    model.half().save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    size = sum(f.stat().st_size for f in args.out.iterdir())
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({"parameters": parameters, "bytes": size, "steps": step, "seconds": round(time.time() - started)}))


if __name__ == "__main__":
    main()
