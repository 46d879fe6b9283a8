"""Measurements of peak memory, and of the cost of many episodes.

    python perf/memory.py train AGENTS [LEARNER]
    python perf/memory.py logprobs TOKENS CHUNK
    python perf/memory.py nothing

Each command prints the peak resident memory of that work in bytes; every measurement runs in its own process.
"""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MEASURED = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}  # frees tensors at once


def peak() -> int:
    """Return the peak resident bytes of this process."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a child starts at the value of its parent
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measured(*work: str | int) -> int:
    """Return the peak resident bytes of a process that does this work."""
    command = [sys.executable, __file__, *map(str, work)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, env=MEASURED).stdout)


def train(agents: int, name: str = "magrpo") -> None:
    """Run a rollout and an update of agents with LoRA on one random base of 135 M parameters, G = 4, 4 prompts."""
    import tiny
    import torch
    from learner_speed import AGENTS, letters_env
    from transformers import LlamaConfig, LlamaForCausalLM

    from llm_dec_pomdp.agents.base import Sampling, Team
    from llm_dec_pomdp.agents.language_model.adapters import new_adapters
    from llm_dec_pomdp.agents.language_model.policy import LanguageModel
    from llm_dec_pomdp.algorithms.registration import build_algorithm
    from llm_dec_pomdp.rollout import Trajectories

    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        tie_word_embeddings=True,
        eos_token_id=tiny.END,
    )
    torch.set_num_threads(1)
    torch.manual_seed(0)
    names = AGENTS[:agents]
    words = tiny.tokenizer()
    base = tiny.silenced(LlamaForCausalLM(config), [tiny.PAD, tiny.END, *range(len(words), config.vocab_size)])
    network = new_adapters(base, names, 8, 0)
    policy = LanguageModel(network, words, adapters={name: name for name in names})
    team = Team(dict.fromkeys(names, policy))
    env = letters_env(4, agents)
    sampling = Sampling(max_new_tokens=16)
    critics = {} if name == "magrpo" else {"body": "own"}
    learner = build_algorithm(name, {"micro_batch": 8, **critics}, team, sampling)
    learner.update(Trajectories().play(env, team, [f"p{i}" for i in range(4)], range(4), sampling, 4))


def logprobs(tokens: int, chunk: int) -> None:
    """Compute log-probabilities of tokens and their gradient with a vocabulary of 32k."""
    import torch

    from llm_dec_pomdp.agents.language_model.logprobs import chunked_logprobs

    torch.set_num_threads(1)
    hidden = torch.zeros(tokens, 64, requires_grad=True)
    weight = torch.zeros(32768, 64, requires_grad=True)
    chunked_logprobs(hidden, weight, None, torch.zeros(tokens, dtype=torch.long), 1.0, chunk).sum().backward()


def nothing() -> None:
    """Load torch and run a small pass, the memory that log-probabilities need in any case."""
    logprobs(1, 1)


def adapters_row() -> dict[str, Any]:
    """Compare two agents on one base with one agent."""
    single, double = measured("train", 1), measured("train", 2)
    return limit(double / single, 1.15, one_agent_mb=single / 1e6, two_agents_mb=double / 1e6)


def critics_row() -> dict[str, Any]:
    """Compare critics as adapters on the policies' base with no critics; the larger of two learners counts."""
    mb = {name: measured("train", 2, name) / 1e6 for name in ("magrpo", "iac", "maac")}
    return limit(max(mb["iac"], mb["maac"]) / mb["magrpo"], 1.1, **{f"{name}_mb": size for name, size in mb.items()})


def logprobs_row() -> dict[str, Any]:
    """Compare four times the tokens, and four times the chunk. All logits of the larger batch would take 1 GB."""
    idle = measured("nothing")
    small, tokens, chunk = 2048, 8192, 1 << 24
    mb = {
        "tokens_2048_mb": (measured("logprobs", small, chunk) - idle) / 1e6,
        "tokens_8192_mb": (measured("logprobs", tokens, chunk) - idle) / 1e6,
        "tokens_8192_quarter_chunk_mb": (measured("logprobs", tokens, chunk // 4) - idle) / 1e6,
        "all_logits_8192_mb": tokens * 32768 * 4 / 1e6,
    }
    return limit(mb["tokens_8192_mb"] / mb["tokens_2048_mb"], 1.15, **mb)


def limit(measured_ratio: float, most: float, **numbers: Any) -> dict[str, Any]:
    """Return a row whose measured figure has an upper limit."""
    return {**numbers, "measured": measured_ratio, "limit": most, "ratio": most / measured_ratio, "target": 1.0} | {
        "met": measured_ratio <= most
    }


def writing_step_row() -> dict[str, Any]:
    """Measure a step of the slowest writing environment."""
    from env_overhead import WRITING, step_us

    import llm_dec_pomdp

    found = {env_id: step_us(env_id)[1] for env_id in WRITING if env_id in llm_dec_pomdp.registry}
    return limit(max(found.values()), 150.0, **{f"{env_id}_us": us for env_id, us in found.items()})


def episodes_row() -> dict[str, Any]:
    """Compare the cost of the last and the first of 10,000 episodes of a scripted team, 100 at a time as in training.

    The row also has 10,000 episodes in a single call. All of them stay in memory, so that Python's garbage collector
    visits more and more objects.
    """
    import tiny
    from learner_speed import AGENTS, letters_env

    from llm_dec_pomdp.agents.base import Sampling, Team
    from llm_dec_pomdp.agents.scripted import Scripted
    from llm_dec_pomdp.rollout import Trajectories

    env, team = letters_env(100), Team(dict.fromkeys(AGENTS, Scripted(lambda agent, history: tiny.WORDS[0])))
    ids = [item.id for item in env.items]

    def play(first: int, tasks: int) -> float:
        started = time.process_time()
        Trajectories().play(env, team, [ids[i % 100] for i in range(tasks)], range(first, first + tasks), Sampling(), 4)
        return (time.process_time() - started) / (4 * tasks) * 1e6

    play(0, 25)
    gc.collect()
    first = [play(i * 25, 25) for i in range(10)]
    early = peak()
    last = [play(i * 25, 25) for i in range(10, 100)][-10:]
    late = peak()
    found = limit(
        min(last) / min(first),
        1.1,
        first_us=min(first),
        last_us=min(last),
        single_call_us=min(play(i * 2500, 2500) for i in range(3)),
        after_1000_mb=early / 1e6,
        after_10000_mb=late / 1e6,
    )
    return {**found, "met": found["met"] and late <= 1.02 * early}


ROWS = {
    "memory_two_agents": adapters_row,
    "memory_critics": critics_row,
    "memory_logprobs": logprobs_row,
    "writing_step": writing_step_row,
    "episodes": episodes_row,
}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    given: list[Any] = [int(text) if text.isdigit() else text for text in arguments]
    {"train": train, "logprobs": logprobs, "nothing": nothing}[name](*given)
    print(peak())
