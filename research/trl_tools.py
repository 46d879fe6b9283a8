# pyright: basic, reportMissingImports=false
"""Train one agent with tools with TRL's GRPOTrainer: a listener that has to read the board of its team.

    pip install torch==2.13.0 trl==1.16.0
    python research/trl_tools.py [--steps 60] [--learning-rate 5e-4] [--seed 0] [--out FILE]

In relay-v0 the speaker, a fixed policy here, knows a word and pins it to the board. The listener is trained to answer
with the word. Its small model has tokens that are whole calls. It first imitates episodes, half of which read the board
and half of which guess. The script prints the mean return of the first step and of the last 10. Guessing has a return
of 0.25. For an untrained control, run with --learning-rate 0.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import raw_data
import torch
import transformers
import trl
import typer
from tokenizers import Tokenizer, models, pre_tokenizers

import llm_dec_pomdp
from llm_dec_pomdp.envs.relay import WORDS
from llm_dec_pomdp.envs.tools import kit, written
from llm_dec_pomdp.envs.wrappers import WithTools
from llm_dec_pomdp.integrations.role import Role
from llm_dec_pomdp.integrations.trl import role_dataset, role_environment
from llm_dec_pomdp.types import Message

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}> {{ m.content }} {% for c in m.tool_calls or [] %}<tool_call>"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call> {% endfor %}'
    "{% if m.role == 'assistant' %}<eos> {% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
PARSED = {  # format of the model's completions: calls in tags, other text is content
    "defaults": {"role": "assistant"},
    "start_anchor": "<assistant>",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<eos>\s*", "content": "text"},
    },
}


def pin(state: tuple[str, ...], word: str) -> tuple[tuple[str, ...], str]:
    """Pin a word to the board."""
    return (*state, word), "pinned"


def read_board(state: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Read the board."""
    return state, " ".join(state) or "nothing"


def speaker(agent: str, history: Sequence[Message]) -> str:
    """Pin the observed word to the board."""
    word = history[0].text.partition("The word is ")[2].partition(".")[0]
    return f'pin("{word}")' if len(history) == 1 else "pass"


def small_model(seed: int) -> tuple[transformers.PreTrainedModel, transformers.PreTrainedTokenizerBase]:
    """Return a Llama of 2 layers, whose tokens are the words and the calls of the task."""
    special = ["<unk>", "<pad>", "<eos>", "<user>", "<assistant>", "<tool>"]
    words = {word: number for number, word in enumerate([*special, *WORDS, "nothing"])}
    inner = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>"
    )
    calls = [written("read_board", {}), *(written("say", {"text": word}) for word in WORDS)]
    tokenizer.add_tokens(calls)
    tokenizer.chat_template, tokenizer.response_template = TEMPLATE, PARSED
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=48,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=[words["<eos>"], *tokenizer.convert_tokens_to_ids(calls)],  # a text ends with its call
        pad_token_id=words["<pad>"],
    )
    return transformers.LlamaForCausalLM(config), tokenizer


def imitate(
    model: transformers.PreTrainedModel, tokenizer: transformers.PreTrainedTokenizerBase, role: Role, tasks: int
) -> None:
    """Fit the model to episodes of which half read the board and half guess."""
    chats: list[list[dict[str, object]]] = []
    for number in range(2 * tasks):
        messages = [{"role": "user", "content": role.reset(index=number // 2)}]
        if number % 2:
            word = role.call("read_board", {})
            messages += [called("read_board", {}), {"role": "tool", "name": "read_board", "content": word}]
        chats.append([*messages, called("say", {"text": word if number % 2 else WORDS[number // 2 % 4]})])
    rows = tokenizer.apply_chat_template(chats, padding=True, return_dict=True, return_tensors="pt")
    labels = rows["input_ids"].masked_fill(rows["attention_mask"] == 0, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        model(**rows, labels=labels).loss.backward()
        optimizer.step()


def called(name: str, arguments: dict[str, str]) -> dict[str, object]:
    """Return a message with a call."""
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def main(steps: int = 60, learning_rate: float = 5e-4, seed: int = 0, out: Path | None = None) -> None:
    """Train, print the result, and add the run to a file."""
    env = WithTools(llm_dec_pomdp.make("relay-v0", n_agents=2), [kit("board", pin, read_board, initial=())], rounds=2)
    model, tokenizer = small_model(seed)
    imitate(model, tokenizer, Role(env, "listener", speaker), len(env.items))
    fit = {"learning_rate": learning_rate, "lr_scheduler_type": "constant", "max_steps": steps, "seed": seed}
    fit |= {"num_generations": 8, "per_device_train_batch_size": 64, "max_completion_length": 8, "logging_steps": 1}
    fit |= {"max_tool_calling_iterations": 2}  # a call, and the answer
    fit |= {
        "save_strategy": "no",
        "report_to": [],
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
    }
    with tempfile.TemporaryDirectory() as folder:
        trainer = trl.GRPOTrainer(
            model,
            args=trl.GRPOConfig(folder, **fit),
            train_dataset=role_dataset(env),
            processing_class=tokenizer,
            environment_factory=role_environment(env, "listener", speaker, seed=seed),
        )
        trainer.train()
    curve = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    print(f"seed {seed}: {curve[0]:.2f} in the first step, {fmean(curve[-10:]):.2f} in the last 10 of {steps} steps")
    if out is not None:
        run = {"seed": seed, "learning_rate": learning_rate, "returns": curve}
        raw_data.write(out, [*(raw_data.read(out) if out.exists() else []), run])


if __name__ == "__main__":
    typer.run(main)
