# pyright: basic
"""Speed of sampling and training on a device, compared with transformers, vLLM, the peak of the device, and estimates.

Completions have a fixed number of tokens, so that all methods do the same work. The share of the peak counts 6
operations per weight and token if all weights are trained, and 4 with adapters, since the base model needs no gradient.
The peak is the speed of a large matrix product on the device, in the number type of the model's products.
"""

from __future__ import annotations

import functools
import importlib.util
import platform
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers

from ..agents.base import Sampling
from ..agents.engines import Engine, Prompt, make_engine
from ..agents.io.load import load_team
from ..agents.language_model.policy import LanguageModel
from ..algorithms.objectives import Clipped
from ..algorithms.options import UpdaterOptions
from ..algorithms.samples import Sample
from ..algorithms.updater import KL_CHECK_UPDATES, updaters_of
from ..config import ConfigError
from ..envs.registration import make
from ..types import Completion
from .device_checks import AGENTS
from .estimate import drawing_seconds, learning_seconds

COPIES = 4  # completions per prompt
_PROMPT_TOKENS = 100
_AT_ONCE = {"cuda": (4, 32, 128, 512), "cpu": (4, 32)}
_LEARNT = {"cuda": (4, 32, 128), "cpu": (4, 32)}
_SIDE = {"cuda": 8192, "cpu": 1024}  # rows of the matrices in the measurement of the peak
_VLLM = {"kind": "vllm-colocate"}
_WEIGHTS = {"all weights": "shared", "adapters": "lora"}
Row = dict[str, Any]


def about(device: str) -> Row:
    """Return a description of the device, with versions of its software."""
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    if not device.startswith("cuda"):
        return {"device": device, "name": platform.processor() or platform.machine(), **versions}
    properties = torch.cuda.get_device_properties(device)
    memory = {"gigabytes": properties.total_memory / 1e9, "cuda": torch.version.cuda}
    return {"device": device, "name": properties.name, **memory, **versions}


def peak(device: str) -> float:
    """Return the operations per second of a matrix product: in bfloat16 on a GPU, in float32 on a CPU."""
    kind = _kind(device)
    dtype = torch.bfloat16 if kind == "cuda" else torch.float32
    side = _SIDE[kind]
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in "ab")
    repeat = 10

    def multiply() -> None:
        for _ in range(repeat):
            torch.mm(a, b)

    multiply()
    return 2 * side**3 * repeat / _seconds(device, multiply)


def speeds(device: str, model: str, new_tokens: int = 64) -> Iterator[Row]:
    """Measure sampling and updates for several numbers of completions, and yield a row for each measurement.

    A measurement that fails has the reason under "failed".

    Args:
        device: "cpu", "cuda:0", ...
        model: Name of the model, see `agents.io.models`; `random:NAME` has random weights of a published shape.
        new_tokens: Tokens of every completion.
    """
    most = peak(device)
    yield {"what": "product of matrices", "operations_per_s": most}
    for weights, sharing in _WEIGHTS.items():
        team = load_team(AGENTS, model, sharing=sharing, device=device, seed=0)
        [policy] = team.policies
        if not isinstance(policy, LanguageModel):
            raise ValueError(f"{model!r} is a {type(policy).__name__}; give a language model")
        parameters = sum(p.numel() for p in policy.model.parameters())
        work = [("texts", _AT_ONCE, _drawing), ("update", _LEARNT, _learning)]
        if importlib.util.find_spec("vllm") is not None:
            work.append(("texts by vLLM", _AT_ONCE, functools.partial(_drawing_by_vllm, make_engine(_VLLM))))
        for what, counts, row in work:
            for texts in counts[_kind(device)]:
                found: Row = {"what": what, "weights": weights, "texts": texts}
                try:
                    found |= row(team, texts, new_tokens, parameters, most)
                except ConfigError:  # vLLM computes on another device, which its check reports
                    continue
                except Exception as error:  # an error of a driver or a kernel is the result
                    found["failed"] = f"{type(error).__name__}: {error}"
                yield found
        del team, policy, work, row
        if device.startswith("cuda"):
            torch.cuda.empty_cache()


def _drawing(team: Any, texts: int, new_tokens: int, parameters: int, most: float) -> Row:
    [policy] = team.policies
    device, prompts = str(policy.device), _prompts(policy, texts)
    policy.batch_rows.size = texts
    sampling = Sampling(max_new_tokens=new_tokens)

    def draw(sampling: Sampling = sampling) -> Any:
        return policy.engine.generate(prompts, sampling, frozenset())

    ids = torch.tensor([prompt.ids for prompt in prompts for _ in prompt.seeds], device=policy.device)

    def by_transformers(tokens: int = new_tokens) -> None:
        options = {"max_new_tokens": tokens, "min_new_tokens": tokens, "pad_token_id": policy.pad_id}
        with torch.inference_mode(), policy.precision():
            policy.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, **options)

    draw(Sampling(max_new_tokens=2))
    _reset_memory(device)
    seconds = _seconds(device, draw)
    row = {"tokens_per_s": texts * new_tokens / seconds, **_memory(device)}
    estimated = drawing_seconds(texts * new_tokens, texts, parameters, _where(device), bool(policy.adapters))
    row["estimate_by_measured"] = estimated / seconds
    if policy.adapters is None:  # transformers cannot mix adapters in a batch
        by_transformers(2)
        row["generate_tokens_per_s"] = texts * new_tokens / _seconds(device, by_transformers)
    return row


def _drawing_by_vllm(engine: Engine, team: Any, texts: int, new_tokens: int, parameters: int, most: float) -> Row:
    [policy] = team.policies
    prompts = _prompts(policy, texts)

    def draw(tokens: int = new_tokens) -> Any:
        return engine.generate(prompts, Sampling(max_new_tokens=tokens), frozenset())

    engine.load(policy, 0)
    draw(2)
    seconds = _seconds(str(policy.device), draw)
    return {"tokens_per_s": texts * new_tokens / seconds}


def _learning(team: Any, texts: int, new_tokens: int, parameters: int, most: float) -> Row:
    [policy] = team.policies
    device, samples, read = str(policy.device), list[Sample](), 0
    for place, prompt in enumerate(_prompts(policy, texts)):
        read += len(prompt.ids) + len(prompt.seeds) * new_tokens
        for seed in prompt.seeds:
            ids = tuple((7 * seed + 3 * token) % len(policy.tokenizer) for token in range(new_tokens))
            text = Completion("", tuple(prompt.ids), ids, (-1.0,) * new_tokens)
            samples.append(Sample(AGENTS[place % 2], text, (-1.0) ** seed))
    [updater] = updaters_of(
        team, 1.0, UpdaterOptions(learning_rate=0.0, micro_batch=texts, objective=Clipped(importance="none"))
    )
    updater.updates = KL_CHECK_UPDATES  # the first updates would read their completions twice
    updater.step(samples)
    _reset_memory(device)
    seconds = _seconds(device, lambda: updater.step(samples))
    row = {"tokens_per_s": read / seconds, "share_of_peak": (4 if policy.adapters else 6) * parameters * read / seconds}
    row["share_of_peak"] /= most
    row["estimate_by_measured"] = learning_seconds(read, parameters, _where(device)) / seconds
    return {**row, **_memory(device), "texts_at_once": updater.micro_batch.size}


def _prompts(policy: LanguageModel, texts: int) -> list[Prompt]:
    """Return prompts of `_PROMPT_TOKENS` tokens from posts, with `COPIES` seeds each."""
    ids: list[int] = [token for item in make("tldr-v0").items for token in policy.tokenizer(item.prompt)["input_ids"]]
    count = -(-texts // COPIES)
    ids = (ids * (1 + count * _PROMPT_TOKENS // len(ids)))[: count * _PROMPT_TOKENS]
    agents = AGENTS if policy.adapters else (None,)
    starts = range(0, len(ids), _PROMPT_TOKENS)
    return [
        Prompt(ids[start : start + _PROMPT_TOKENS], range(COPIES), agents[place % len(agents)])
        for place, start in enumerate(starts)
    ]


def _seconds(device: str, work: Callable[[], Any]) -> float:
    """Return the seconds until the device has finished the work."""
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    wait()
    started = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - started


def _reset_memory(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(device)


def _memory(device: str) -> Row:
    return {"gigabytes": torch.cuda.max_memory_allocated(device) / 1e9} if device.startswith("cuda") else {}


def _kind(device: str) -> str:
    return "cuda" if device.startswith("cuda") else "cpu"


def _where(device: str) -> str:
    return "gpu" if device.startswith("cuda") else "cpu"
