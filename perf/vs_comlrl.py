"""Compare speed and memory with comlrl, plain loops and fixed limits, in one table.

    python perf/vs_comlrl.py --peer-python PATH [--model FILE.gguf] [--runs 5] [--threads 2] [--json | --markdown]

PATH is an interpreter with comlrl. Both sides have models of the same shape, the same number of tokens, the same
sampling and the same threads. They run in turns, and the minimum over the runs counts. Completions have full length on
both sides (see `tiny`; the 135 M model is sampled without an end token). A ratio is the figure of the reference divided
by the figure of this package: larger is better. Rows with a limit print the measured figure and its maximum.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import learner_speed
import memory
import torch
from sides import CLOCKS, Peer, Timer

NAMES = {
    "step_64_tokens_8_prompts": "time per prompt, G=4, 64 tokens, 8 prompts per update, against comlrl",
    "step_256_tokens_1_prompt": "time per prompt, G=4, 256 tokens, 1 prompt per update, against comlrl",
    "update_32k_vs_peer": "update, vocabulary 32k, 4 x 256 tokens, against comlrl",
    "update_32k_vs_bare": "the same update against a plain vectorised loop",
    "generation_135m": "sampling, 135 M model, 8 x 4 completions of 64 tokens, top-p 0.9, against model.generate",
    "update_shared_prompt": "update, 8 x 64 tokens after one prompt of 200, against a plain vectorised loop",
    "iac_step": "time per prompt of IAC with a critic model each, G=4, 64 tokens, 8 prompts per update, against comlrl",
    "maac_step": "time per prompt of MAAC with one critic model, otherwise the same, against comlrl",
    "iac_shared_against_magrpo": "step of iac, critics on the policies' bodies, against magrpo at equal samples",
    "iac_own_against_magrpo": "step of iac, critics on separate bodies, against magrpo at equal samples",
    "maac_against_magrpo": "step of maac, a critic on a separate body, against magrpo at equal samples",
    "memory_critics": "peak memory, two agents with LoRA and critics with LoRA on one base, against magrpo",
    "memory_two_agents": "peak memory, two agents with LoRA on one base, against one agent",
    "memory_logprobs": "peak memory of the log-probabilities, four times the tokens against one time",
    "writing_step": "step of a writing environment, microseconds",
    "episodes": "cost of the last of 10,000 episodes against the first, 100 at a time",
}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return all rows, or the requested ones."""
    torch.set_num_threads(arguments.threads)
    peer, timer = Peer(arguments.peer_python, arguments.threads, arguments.clock), Timer(arguments.clock)
    works = learner_speed.rows(peer, timer, arguments.runs, arguments.model) | memory.ROWS
    result: dict[str, Any] = {}
    for name, work in works.items():
        if arguments.only and name not in arguments.only:
            continue
        found = work()
        result |= found if name == "update_32k" else {name: found}
        print(f"{name} done", file=sys.stderr, flush=True)
    peer.close()
    return result


def shown(found: Mapping[str, Any]) -> list[str]:
    """Return the columns of a row: numbers, ratio, target, met."""
    if "skipped" in found:
        return [f"skipped: {found['skipped']}", "", "", ""]
    numbers = {k: v for k, v in found.items() if k not in ("ratio", "target", "met", "measured", "limit")}
    words = ", ".join(f"{name} {value:.3g}" for name, value in numbers.items())
    if "limit" in found:
        return [words, f"{found['measured']:.2f}", f"at most {found['limit']:g}", "yes" if found["met"] else "no"]
    return [words, f"{found['ratio']:.2f}", f"at least {found['target']:.3g}", "yes" if found["met"] else "no"]


def table(result: Mapping[str, Any]) -> str:
    """Return the result as a Markdown table."""
    lines = ["| row | measured | ratio | target | met |", "|---|---|---|---|---|"]
    lines += ["| " + " | ".join([NAMES[name], *shown(found)]) + " |" for name, found in result.items()]
    return "\n".join(lines)


def main() -> None:
    """Measure, and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True, help="an interpreter with comlrl")
    parser.add_argument("--model", help="GGUF file of a model of 135 M parameters")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall", help="cpu: for one thread on a busy machine")
    parser.add_argument("--only", nargs="*", choices=[*learner_speed.ROWS, *memory.ROWS], help="rows to measure")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    arguments = parser.parse_args()
    result = measure(arguments)
    if arguments.json:
        print(json.dumps(result))
    elif arguments.markdown:
        print(table(result))
    else:
        for name, found in result.items():
            words, ratio, target, met = shown(found)
            print(f"{NAMES[name]}\n    {words}\n    ratio {ratio or '-'}, target {target or '-'}, met: {met or '-'}")


if __name__ == "__main__":
    main()
