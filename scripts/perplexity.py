"""How likely an untrained model finds the texts of a run: a measure of fluency that no reward here looks at.

    python scripts/perplexity.py RUN [RUN ...] --model MODEL [--json FILE]

Every text of every evaluated episode is scored given what its agent was told; printed is, per cell and agent, the
perplexity exp(-mean log pi per token) with a 95 % interval over texts (a t interval of the
mean log-probability). Word salad and loops stand out: the former is high, the latter close to 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch

from llm_dec_pomdp.agents.loading import load_model
from llm_dec_pomdp.agents.transformers.language_model import LanguageModel
from llm_dec_pomdp.benchmarks.intervals import Interval, mean_interval
from llm_dec_pomdp.benchmarks.runs import Entry, read_run
from llm_dec_pomdp.types import Completion

BATCH = 8  # texts scored at once


def perplexity(policy: LanguageModel, said: Sequence[tuple[str, str]]) -> Interval:
    """Perplexity of texts, over texts; empty ones are left out.

    Args:
        policy: Who finds them likely or not.
        said: What an agent was told, and its text.
    """
    samples: list[tuple[str, Completion]] = []
    for told, text in said:
        ids = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
        if ids:
            samples.append(("", Completion(text, tuple(policy.encode([told])), tuple(ids))))
    means: list[float] = []
    with torch.no_grad():
        for first in range(0, len(samples), BATCH):
            logprobs, mask = policy.token_logprobs(samples[first : first + BATCH], 1.0)
            means += (logprobs.sum(1) / mask.sum(1)).tolist()
    found = mean_interval(means)
    return Interval(*(math.exp(-nats) for nats in (found.mean, found.high, found.low)))


def by_agent(policy: LanguageModel, entry: Entry) -> dict[str, Interval]:
    """Perplexity of each agent's texts in a cell."""
    said: dict[str, list[tuple[str, str]]] = {}
    for turn in (turn for episode in entry.episodes() for turn in episode["turns"]):
        for agent, text in turn["actions"].items():
            said.setdefault(agent, []).append((turn["observations"].get(agent, ""), text))
    return {agent: perplexity(policy, texts) for agent, texts in said.items()}


def main() -> None:
    """Score and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--model", required=True, help="builtin:tiny, a folder, a .gguf file, or a hub id")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    policy = LanguageModel(*load_model(arguments.model))
    found: dict[str, dict[str, dict[str, float]]] = {}
    for run in arguments.runs:
        for entry in read_run(run).entries:
            if entry.result is None:
                continue
            intervals = by_agent(policy, entry)
            found[f"{run.name}/{entry.cell.label}"] = {a: dataclasses.asdict(i) for a, i in intervals.items()}
            shown = ", ".join(f"{a} {i.mean:.1f} ({i.low:.1f}-{i.high:.1f})" for a, i in intervals.items())
            print(f"{run.name}/{entry.cell.label}: {shown}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
