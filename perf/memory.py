"""Peak memory and cost over many episodes.

    python perf/memory.py train AGENTS [LEARNER]
    python perf/memory.py logprobs TOKENS CHUNK
    python perf/memory.py nothing

prints the peak resident memory of that work in bytes; every measurement is a process of its own.
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

MEASURED = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}  # freed tensors go back at once


def peak() -> int:
    """Peak resident bytes of this process."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a child begins with that of its parent
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measured(*work: str | int) -> int:
    """Peak resident bytes of a process that does this work."""
    command = [sys.executable, __file__, *map(str, work)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, env=MEASURED).stdout)


def train(agents: int, name: str = "magrpo") -> None:
    """Rollout and update of some agents with LoRA on one base of 135 M parameters (random), G = 4, 4 prompts."""
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
    """Log-probabilities of tokens and their gradient, vocabulary 32k."""
    import torch

    from llm_dec_pomdp.agents.language_model.logprobs import chunked_logprobs

    torch.set_num_threads(1)
    hidden = torch.zeros(tokens, 64, requires_grad=True)
    weight = torch.zeros(32768, 64, requires_grad=True)
    chunked_logprobs(hidden, weight, None, torch.zeros(tokens, dtype=torch.long), 1.0, chunk).sum().backward()


def nothing() -> None:
    """What the log-probabilities need in any case: torch, and a small pass to load it."""
    logprobs(1, 1)


def adapters_row() -> dict[str, Any]:
    """Two agents on one base against one."""
    single, double = measured("train", 1), measured("train", 2)
    return limit(double / single, 1.15, one_agent_mb=single / 1e6, two_agents_mb=double / 1e6)


def critics_row() -> dict[str, Any]:
    """Critics that are adapters on the base of the policies, against none; the larger of the two learners."""
    mb = {name: measured("train", 2, name) / 1e6 for name in ("magrpo", "iac", "maac")}
    return limit(max(mb["iac"], mb["maac"]) / mb["magrpo"], 1.1, **{f"{name}_mb": size for name, size in mb.items()})


def logprobs_row() -> dict[str, Any]:
    """Four times the tokens, and four times the chunk. All logits of the larger batch would be 1 GB."""
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
    """A row whose measured figure has an upper limit."""
    return {**numbers, "measured": measured_ratio, "limit": most, "ratio": most / measured_ratio, "target": 1.0} | {
        "met": measured_ratio <= most
    }


def writing_step_row() -> dict[str, Any]:
    """The slowest writing environment."""
    from env_overhead import WRITING, step_us

    import llm_dec_pomdp

    found = {env_id: step_us(env_id)[1] for env_id in WRITING if env_id in llm_dec_pomdp.registry}
    return limit(max(found.values()), 150.0, **{f"{env_id}_us": us for env_id, us in found.items()})


def episodes_row() -> dict[str, Any]:
    """Cost of the last of 10,000 episodes against the first, 100 at a time as in training, with a scripted team.

    Also reported: 10,000 episodes in a single call, all of which are alive at once, so that Python's garbage collector
    walks over ever more objects.
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
