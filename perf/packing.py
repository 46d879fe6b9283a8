"""Compare packed and padded sequences in updates: seconds of a forward and backward pass, in turns.

    python perf/packing.py [--model builtin:tiny] [--least 20] [--most 200] [--texts 4] [--prompts 4] [--json]

Lengths of completions are uniformly distributed, and a prompt has 100 tokens. `padding` is the share of padding in the
computed positions of completions. The fastest turn of each side counts. `gap` is the largest difference of
log-probabilities, in nats.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from typing import Any

import torch

from llm_dec_pomdp.agents.io.load import load_team
from llm_dec_pomdp.types import Completion


def texts(given: argparse.Namespace, most: int) -> list[tuple[str, Completion]]:
    """Return the samples of an update."""
    draws = random.Random(0)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(draws.randrange(3, most) for _ in range(count))

    prompts = [ids(100) for _ in range(given.prompts)]
    lengths = [draws.randint(given.least, given.most) for _ in range(given.prompts * given.texts)]
    return [("agent_0", Completion("", prompts[i // given.texts], ids(n))) for i, n in enumerate(lengths)]


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="builtin:tiny")
    for name, default in (("least", 20), ("most", 200), ("texts", 4), ("prompts", 4), ("turns", 5), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    policies: dict[bool, Any] = {}
    for packed in (False, True):
        [policies[packed]] = load_team(["agent_0"], given.model, sharing="shared", device="cpu", packed=packed).policies
    read = texts(given, policies[True].model.config.vocab_size)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    found: dict[bool, Any] = {}
    for _ in range(given.turns):
        for packed, policy in policies.items():
            started = time.perf_counter()
            logprobs, mask = policy.token_logprobs(read, 1.0)
            (logprobs * mask).sum().backward()
            seconds[packed].append(time.perf_counter() - started)
            found[packed] = (logprobs * mask).detach()
            policy.model.zero_grad()
    lengths = [len(c.token_ids) - 1 for _, c in read]
    rows = [sum(lengths[i : i + given.texts]) for i in range(0, len(lengths), given.texts)]
    figures = {
        "padded_s": min(seconds[False]),
        "packed_s": min(seconds[True]),
        "ratio": min(seconds[True]) / min(seconds[False]),
        "padding": 1 - sum(lengths) / (max(lengths) * len(lengths)),
        "padding_packed": 1 - sum(rows) / (max(rows) * len(rows)),
        "gap": (found[True] - found[False]).abs().max().item(),
    }
    print(json.dumps(figures) if given.json else "\n".join(f"{name:15} {value:.3g}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
