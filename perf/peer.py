"""Peer process of the comparison, which trains with comlrl as requested on stdin, one JSON object per line.

It runs in an interpreter with comlrl. It stays alive between requests, so that imports and warm-up are not timed. Each
answer has the seconds of one run.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ |= {"WANDB_MODE": "disabled", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import tiny
import torch
from comlrl.trainers.actor_critic import IACConfig, IACTrainer, MAACConfig, MAACTrainer
from comlrl.trainers.reinforce import MAGRPOConfig, MAGRPOTrainer
from datasets import Dataset

clock = time.perf_counter


LEARNERS = {
    "magrpo": (MAGRPOConfig, MAGRPOTrainer),
    "iac": (IACConfig, IACTrainer),
    "maac": (MAACConfig, MAACTrainer),
}
CRITICS = {"magrpo": (), "iac": (3, 4), "maac": (3,)}  # one model for each agent, or one for the team


def trainer(
    prompts: int, group: int, new_tokens: int, vocabulary: int = 512, updates: int = 1, learner: str = "magrpo"
) -> Any:
    """Return a trainer of two agents with a model each and separate critics: `updates` updates of `prompts` prompts."""
    seeds = CRITICS[learner]
    buffered = prompts * group if seeds else prompts  # samples of an agent, or number of prompts
    of_critics = {"critic_devices": "cpu", "critic_learning_rate": 1e-3} if seeds else {}
    make_config, make_trainer = LEARNERS[learner]
    config = make_config(
        num_train_epochs=1,
        agent_learning_rate=1e-3,
        num_agents=2,
        agent_devices="cpu",
        num_generations=group,
        max_new_tokens=new_tokens,
        temperature=1.0,
        top_p=1.0,
        top_k=50,
        num_turns=1,
        eval_interval=0,
        rollout_buffer_size=buffered,
        train_batch_size=buffered,
        **of_critics,
    )
    found = make_trainer(
        agents=[tiny.model(seed, vocabulary=vocabulary) for seed in (1, 2)],
        tokenizer=tiny.tokenizer(),
        train_dataset=Dataset.from_list([{"prompt": text} for text in tiny.prompts(prompts * updates)]),
        reward_func=lambda first, second: [tiny.letters(pair) for pair in zip(first, second, strict=True)],
        formatters=[lambda item, external_prompts=None: external_prompts or item["prompt"]] * 2,
        args=config,
        wandb_config=None,
        **({"critics": [tiny.model(seed, vocabulary=vocabulary) for seed in seeds]} if seeds else {"num_agents": 2}),
    )
    found.verbose = False
    return found


def train(request: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of some updates with their rollouts, and the number of sampled tokens."""
    side = trainer(**request)
    tokens = 0
    magrpo = isinstance(side, MAGRPOTrainer)
    name = "_generate_completions" if magrpo else "_collect_rollouts"
    generate = getattr(side, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal tokens
        found = generate(*args, **kwargs)
        tokens += sum(found["response_lens"]) if magrpo else sum(sample.response_len for sample in found)
        return found

    setattr(side, name, counted)
    started = clock()
    side.train()
    return {"seconds": clock() - started, "tokens": tokens}


def update(request: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of loss and backward pass for completions of one prompt."""
    vocabulary = request["vocabulary"]
    side = trainer(1, request["group"], request["new_tokens"], vocabulary)
    prompt = tiny.token_ids(1, request["prompt_tokens"], vocabulary, seed=1)
    completions = tiny.token_ids(request["group"], request["new_tokens"], vocabulary, seed=2)
    data = {"prompt_input_ids": prompt, "completion_input_ids": [list(completions)]}
    seconds: list[float] = []
    for _ in range(2):  # the first run allocates the gradient buffers
        started = clock()
        loss = side._compute_loss_with_gradients(side.agents[0], data, request["returns"])
        loss.backward()
        seconds.append(clock() - started)
        side.optimizers[0].zero_grad(set_to_none=False)
    return {"seconds": seconds[-1]}


def main() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # all other output goes to stderr
    global clock
    threads, kind = sys.argv[1:]
    torch.set_num_threads(int(threads))
    clock = {"wall": time.perf_counter, "cpu": time.process_time}[kind]
    for line in sys.stdin:
        request = json.loads(line)
        found = {"train": train, "update": update}[request.pop("what")](request)
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
