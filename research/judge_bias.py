"""Measure the positional bias of a language model as a judge, on pairs of references and worse texts of tldr-v0.

    python research/judge_bias.py MODEL --pairs 20 --out research/data/judge_bias.json.xz

Each pair has the reference of a training post of tldr-v0, and the reference of the next post, which is off the topic.
So the better text is known. Prints the share of usable answers that prefer the text shown first, the share of pairs
that both orders rank alike, the share that is decided for the right text, and the share without a usable answer.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import raw_data
import torch

from llm_dec_pomdp import make
from llm_dec_pomdp.agents.io.models import load_policy
from llm_dec_pomdp.agents.principles import Comparison, PrincipleJudge

PRINCIPLES = ("The better text is a summary of the post in the task.", "It contains nothing that is not in the post.")


def main() -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    judge = PrincipleJudge(load_policy(given.model), PRINCIPLES)
    items = make("tldr-v0", split="train").items[: given.pairs + 1]
    rows: list[dict[str, float]] = []
    started = time.perf_counter()
    for place, (item, other) in enumerate(itertools.pairwise(items)):
        texts = (item.reference[0], other.reference[0])
        [[right, wrong]] = judge.scores([Comparison(item.prompt, texts, place)])
        rows.append({**judge.measured(), "right": float(right > wrong), "tie": float(right == wrong)})
        print(place, rows[-1], f"{time.perf_counter() - started:.0f} s", flush=True)
    for name in ("judge_first", "judge_agreement", "right", "tie", "judge_neutral", "judge_repeated"):
        known = [row[name] for row in rows if name in row]
        print(f"{name}: {sum(known) / len(known):.2f} of {len(known)}" if known else f"{name}: no pair")
    if given.out:
        raw_data.write(given.out, {"model": Path(given.model).name, "principles": PRINCIPLES, "pairs": rows})


if __name__ == "__main__":
    main()
