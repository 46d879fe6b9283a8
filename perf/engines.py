"""Compare the sampling speed of the own loop, vLLM in this process and as a server, and `generate` of transformers.

    python perf/engines.py --url http://127.0.0.1:8000 --model FOLDER [--prompts 8 32] [--runs 3] [--new-tokens 64]

FOLDER is the transformers folder of the server (`llm-dec-pomdp engine vllm FOLDER`). Each engine samples 32 completions
at temperature 1 without an end token. A prompt has 100 tokens. `--prompts 8 32` measures 8 prompts with 4 completions
each, and 32 prompts with one each. If vLLM is installed in this environment, there are two more engines: vLLM in this
process, and the client of vLLM's own benchmark with the server. The engines run in turns, and the minimum over the runs
counts. The load of the machine before each run is in the result. On a busy machine, `--session PID` counts processor
seconds of this process and of the server, whose session (`setsid`) is PID; use one thread for both.

The script also measures the seconds to load two adapters into vLLM. It compares the log-probabilities of vLLM with
those of the model in this process, with and without adapters. `--all-weights` also measures the seconds to load the
whole model. It requires a server with the flags `--all-weights -- --enable-lora --max-loras 8 --max-lora-rank 8`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import gc
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from sides import alternate

import llm_dec_pomdp
from llm_dec_pomdp.agents.base import Sampling
from llm_dec_pomdp.agents.engines import Prompt, Sampled, make_engine
from llm_dec_pomdp.agents.engines.vllm import drawn_so
from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.seeding import derive
from llm_dec_pomdp.types import Completion

AGENTS = ("agent_0", "agent_1")
TEXTS, PROMPT_TOKENS = 32, 100
SPREAD = 0.02  # standard deviation of the adapters' second factors, which are zero after initialisation
LOADS = 5


def policy_of(model: str, sharing: str, dtype: str) -> LanguageModel:
    """Return the model on the CPU."""
    [policy] = load_team(AGENTS, model, sharing=sharing, device="cpu", dtype=dtype).policies
    assert isinstance(policy, LanguageModel)
    return policy


def prompts_of(policy: LanguageModel, prompts: int = 8) -> list[list[int]]:
    """Return prompts of token ids from posts, all of the same length."""
    posts = "\n".join(item.prompt for item in llm_dec_pomdp.make("tldr-v0").items)
    ids = policy.tokenizer(posts)["input_ids"][: prompts * PROMPT_TOKENS]
    return [ids[start : start + PROMPT_TOKENS] for start in range(0, len(ids), PROMPT_TOKENS)]


def seconds_of(session: int) -> float:
    """Return processor seconds of this process and of a session, or wall time if the session is 0."""
    if not session:
        return time.perf_counter()
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            fields = path.read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12]) if int(fields[3]) == session else 0
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


async def asked_by_vllm(url: str, bodies: Sequence[tuple[list[int], dict[str, Any]]]) -> int:
    """Send all requests at once with the client of vLLM's benchmark, and return the number of sampled tokens."""
    import aiohttp
    from vllm.benchmarks.lib.endpoint_request_func import (  # pyright: ignore[reportMissingImports]
        RequestFuncInput,
        async_request_openai_completions,
    )

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3600)) as session:
        asked = [
            RequestFuncInput(
                prompt=ids,
                api_url=f"{url}/v1/completions",
                prompt_len=len(ids),
                output_len=body["max_tokens"],
                model="base",
                extra_body=body,
            )
            for ids, body in bodies
        ]
        answers = await asyncio.gather(*(async_request_openai_completions(each, session) for each in asked))
    return sum(answer.output_tokens for answer in answers)


def speed(
    policy: LanguageModel, server: Any, here: Any, sampling: Sampling, prompts: int, runs: int, session: int
) -> dict[str, Any]:
    """Return tokens per second of each engine and the load before each run; `here` is vLLM in this process or None."""
    ids, loads = prompts_of(policy, prompts), list[float]()
    copies = TEXTS // prompts
    tokens = prompts * copies * sampling.max_new_tokens
    network, calls = policy.model, iter(range(10**6))
    network.generation_config.eos_token_id = None
    rows = torch.tensor(ids).repeat_interleave(copies, dim=0)
    settings = {"do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 0}

    def drawn_by(engine: Any) -> None:
        call = next(calls)
        asked = [Prompt(row, [derive(call, i, copy) for copy in range(copies)]) for i, row in enumerate(ids)]
        drawn = engine.generate(asked, sampling, frozenset())
        _check(sum(len(text.ids) for texts in drawn for text in texts), tokens)

    def client() -> None:
        call = next(calls)
        bodies = [
            (row, drawn_so(derive(call, i, copy), sampling, frozenset()))
            for i, row in enumerate(ids)
            for copy in range(copies)
        ]
        _check(asyncio.run(asked_by_vllm(server.config.url, bodies)), tokens)

    def generate() -> None:
        with torch.no_grad():
            mask, most = torch.ones_like(rows), sampling.max_new_tokens
            found = network.generate(input_ids=rows, attention_mask=mask, max_new_tokens=most, **settings)
        _check(found[:, PROMPT_TOKENS:].numel(), tokens)

    def timed(name: str, side: Any) -> float:
        loads.append(os.getloadavg()[0])
        gc.collect()
        started = seconds_of(session)
        side()
        seconds = seconds_of(session) - started
        print(f"{name}: {tokens / seconds:.1f} tokens/s at a load of {loads[-1]:.1f}", file=sys.stderr, flush=True)
        return seconds

    sides: dict[str, Any] = {
        "own_loop": lambda: drawn_by(policy.engine),
        "vllm": lambda: drawn_by(server),
        "generate": generate,
    }
    if here is not None:
        sides |= {"colocated": lambda: drawn_by(here), "client": client}
    seconds = alternate(runs, **{name: functools.partial(timed, name, side) for name, side in sides.items()})
    return {"tokens_per_second": {name: tokens / found for name, found in seconds.items()}, "load": loads}


def _check(found: int, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"{found} tokens were sampled, but the comparison needs {wanted}")


def with_spread(policy: LanguageModel) -> None:
    """Give the adapters random weights, since new adapters do not change the model."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, factor in policy.state_dict().items():
            if "lora_B" in name:
                factor.copy_(SPREAD * torch.randn(factor.shape, generator=draw))


def gap(policy: LanguageModel, server: Any, sampling: Sampling) -> dict[str, Any]:
    """Return the difference between log-probabilities of the engine and of this process, in nats, over all tokens."""
    texts = prompts_of(policy)
    owners = [AGENTS[i % len(AGENTS)] for i in range(len(texts))]
    adapters = policy.adapters or {}
    prompts = [
        Prompt(ids, [derive(7, copy) for copy in range(TEXTS // len(texts))], adapters.get(agent))
        for ids, agent in zip(texts, owners, strict=True)
    ]
    drawn: Sequence[Sequence[Sampled]] = server.generate(prompts, sampling, frozenset())
    differences: list[float] = []
    for prompt, agent, texts in zip(prompts, owners, drawn, strict=True):
        samples = [(agent, Completion("", tuple(prompt.ids), tuple(t.ids), tuple(t.logprobs))) for t in texts]
        with torch.inference_mode():
            known, _ = policy.token_logprobs(samples, sampling.temperature)
        for text, row in zip(texts, known.tolist(), strict=True):
            differences += [there - here for there, here in zip(text.logprobs, row, strict=True)]
    sizes = [abs(difference) for difference in differences]
    return {"tokens": len(sizes), "mean": statistics.fmean(sizes), "largest": max(sizes)}


def loading(policy: LanguageModel, server: Any) -> list[float]:
    """Return the seconds to load two adapters or a whole model into vLLM, including the removal of the old ones."""
    seconds: list[float] = []
    for version in range(LOADS):
        started = time.perf_counter()
        server.load(policy, version)
        seconds.append(time.perf_counter() - started)
    return seconds


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="URL of a server of `llm-dec-pomdp engine vllm`")
    parser.add_argument("--model", required=True, help="model folder of the server")
    parser.add_argument("--prompts", type=int, nargs="+", default=[8, 32], help=f"numbers that divide {TEXTS}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--dtype", default="float32", help="of the local model; the server has its own --dtype")
    parser.add_argument("--all-weights", action="store_true", help="also time the loading of all weights")
    parser.add_argument("--session", type=int, default=0, help="session id of the server, to count processor seconds")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    sampling = Sampling(max_new_tokens=arguments.new_tokens)
    with tempfile.TemporaryDirectory() as folder:
        options = {"kind": "vllm", "url": arguments.url, "model": "base", "adapters": str(Path(folder))}
        base, adapted = (policy_of(arguments.model, sharing, arguments.dtype) for sharing in ("shared", "lora"))
        with_spread(adapted)
        server = make_engine(options)
        result: dict[str, Any] = {"dtype": arguments.dtype, "new_tokens": arguments.new_tokens}
        result["threads"] = arguments.threads
        result["clock"] = "processor" if arguments.session else "wall"
        here = None
        if importlib.util.find_spec("vllm") is not None:
            here = make_engine({"kind": "vllm-colocate"})
            here.load(base, 0)
        for prompts in arguments.prompts:
            found = speed(base, server, here, sampling, prompts, arguments.runs, arguments.session)
            result[f"{prompts}_prompts"] = found
        if here is not None:
            result |= {"colocated_gap": gap(base, here, sampling), "colocated_all_weights": loading(base, here)}
            here = make_engine({"kind": "vllm-colocate"})
            here.load(adapted, 0)
            result["colocated_two_adapters"] = loading(adapted, here)
            result["colocated_gap_with_adapters"] = gap(adapted, here, sampling)
        result |= {"gap": gap(base, server, sampling), "seconds_to_load_two_adapters": loading(adapted, server)}
        result["gap_with_adapters"] = gap(adapted, server, sampling)
        if arguments.all_weights:  # a new engine first verifies the loading with other weights
            result["seconds_to_load_all_weights"] = loading(base, make_engine(options))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
