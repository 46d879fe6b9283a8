"""Who draws texts how fast: the own loop, vLLM in this process and as a server, and `generate` of transformers.

    python perf/engines.py --url http://127.0.0.1:8000 --model FOLDER [--prompts 8 32] [--runs 3] [--new-tokens 64]

FOLDER is the transformers folder that the server was started with (`llm-dec-pomdp engine vllm FOLDER`). 32 texts
without an end token at temperature 1, of 8 prompts of 100 tokens with 4 texts each, of 32 with one each, or whatever
`--prompts` says. Where vLLM is installed beside this package, two more sides ask for the same: vLLM in this process,
and the client of vLLM's own benchmark with the server. The sides take turns; the minimum over the runs counts, and the
load of the machine before each is printed with the result. On a busy machine `--session PID`, with one thread on both
sides, counts processor seconds, those of the server among them; PID is its session's (`setsid`). Then: the time to
hand vLLM two adapters, and by how much its log-probabilities differ from those of the model here, without adapters and
with them. With `--all-weights`, for a server that was started so and takes adapters too (`--all-weights --
--enable-lora --max-loras 8 --max-lora-rank 8`), also the time to hand it the whole model.
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
SPREAD = 0.02  # standard deviation of the adapters' second factors, which are zero at first
LOADS = 5


def policy_of(model: str, sharing: str, dtype: str) -> LanguageModel:
    """The model on the processor."""
    [policy] = load_team(AGENTS, model, sharing=sharing, device="cpu", dtype=dtype).policies
    assert isinstance(policy, LanguageModel)
    return policy


def prompts_of(policy: LanguageModel, prompts: int = 8) -> list[list[int]]:
    """Token ids from posts, all of one length."""
    posts = "\n".join(item.prompt for item in llm_dec_pomdp.make("tldr-v0").items)
    ids = policy.tokenizer(posts)["input_ids"][: prompts * PROMPT_TOKENS]
    return [ids[start : start + PROMPT_TOKENS] for start in range(0, len(ids), PROMPT_TOKENS)]


def seconds_of(session: int) -> float:
    """Of this process and of all of a session; wall time where there is none (0)."""
    if not session:
        return time.perf_counter()
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12]) if int(fields[3]) == session else 0
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


async def asked_by_vllm(url: str, bodies: Sequence[tuple[list[int], dict[str, Any]]]) -> int:
    """Tokens of texts that the client of vLLM's benchmark gets, all asked for at once."""
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
    """Tokens per second of the sides, and the load before each run; `here` is vLLM in this process, if any."""
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
        raise RuntimeError(f"{found} tokens were drawn and {wanted} were to be compared")


def with_spread(policy: LanguageModel) -> None:
    """Adapters that change what is said: as they start, they change nothing."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, factor in policy.state_dict().items():
            if "lora_B" in name:
                factor.copy_(SPREAD * torch.randn(factor.shape, generator=draw))


def gap(policy: LanguageModel, server: Any, sampling: Sampling) -> dict[str, Any]:
    """Log-probabilities of the server less those of the model here, in nats, over all texts."""
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
    """Seconds to hand vLLM two adapters or a whole model, and drop what was before."""
    seconds: list[float] = []
    for version in range(LOADS):
        started = time.perf_counter()
        server.load(policy, version)
        seconds.append(time.perf_counter() - started)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of a server that `llm-dec-pomdp engine vllm` started")
    parser.add_argument("--model", required=True, help="the folder it was started with")
    parser.add_argument("--prompts", type=int, nargs="+", default=[8, 32], help=f"divisors of {TEXTS}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--dtype", default="float32", help="of the model here; the server has its own --dtype")
    parser.add_argument("--all-weights", action="store_true", help="the server takes them: time that too")
    parser.add_argument("--session", type=int, default=0, help="of the server: count processor seconds")
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
        if arguments.all_weights:  # at first it is tried out with other weights
            result["seconds_to_load_all_weights"] = loading(base, make_engine(options))
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
