"""Compare the time to score the texts of a group with the time to sample them, with the same model as LLM judge.

    python perf/judging.py --model FILE.gguf [--task tldr] [--rows 2] [--group 4] [--tokens 96] [--runs 3] [--threads 1]
        [--device cuda:0] [--dtype bfloat16]

As in a training step, `group` completions of each agent with at most `tokens` tokens are sampled at once for some rows.
Then the LLM judge scores all pairs at once, as version v2 of the task does. This is the maximum cost of a judge. Both
run in turns in one process, and the minimum over the runs counts. The ratio is 40 % of the sampling time / the judging
time: larger is better, and the target is met at 1. The contrasts of a row are read once before the clock starts.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

import llm_dec_pomdp
from llm_dec_pomdp.agents import Request, Sampling
from llm_dec_pomdp.agents.io.models import load_model
from llm_dec_pomdp.agents.judges import ModelJudge
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.envs.judging import RememberingJudge
from llm_dec_pomdp.envs.writing.v2 import judged

TARGET = 0.4  # of the sampling time


def measure(given: argparse.Namespace) -> tuple[float, float]:
    """Return the seconds of sampling and of judging, the minimum over the runs."""
    torch.set_num_threads(given.threads)
    policy = LanguageModel(*load_model(given.model, dtype=given.dtype, device=given.device))
    judge = ModelJudge(policy, given.model)
    remembering = RememberingJudge(judge)
    env: Any = llm_dec_pomdp.make(f"{given.task}-v2", split="test", judge=remembering)
    sources = [env.judged_source(item) for item in env.items]
    others = [[other for other in sources[:5] if other != source][: judged.CONTRASTS] for source in sources]
    sampling = Sampling(max_new_tokens=given.tokens)
    sampled = asked = float("inf")
    items = env.items[: given.rows]
    for n, item in enumerate(items):
        judged.measure(remembering, sources[n], item.reference[:2], others[n])
    for run in range(given.runs):
        seeds = tuple(1000 * run + number for number in range(given.group))
        requests: list[Request] = []
        for item in items:
            env.reset(options={"task_id": item.id})
            requests += [Request(agent, tuple(env.history(agent)), seeds) for agent in env.agents]
        begun = time.perf_counter()
        texts = [[completion.text for completion in group] for group in policy.generate(requests, sampling)]
        sampled = min(sampled, time.perf_counter() - begun)
        begun = time.perf_counter()
        with remembering.put_off():
            for n, (first, second) in enumerate(zip(texts[::2], texts[1::2], strict=True)):
                for pair in zip(first, second, strict=True):
                    judged.measure(remembering, sources[n], pair, others[n])
        asked = min(asked, time.perf_counter() - begun)
    return sampled, asked


def main() -> None:
    """Measure, and print the figures."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--model", required=True)
    options.add_argument("--task", default="tldr", choices=("tldr", "arxiv"))
    for name, default in (("rows", 2), ("group", 4), ("tokens", 96), ("runs", 3), ("threads", 1)):
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--device", default="cpu")
    options.add_argument("--dtype", default="float32")
    given = options.parse_args()
    sampled, asked = measure(given)
    print(f"{given.task}: sampling {sampled:.2f} s, judging {asked:.2f} s, {asked / sampled:.1%} of it")
    print(f"ratio {TARGET * sampled / asked:.2f}")


if __name__ == "__main__":
    main()
