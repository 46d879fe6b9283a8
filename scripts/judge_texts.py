"""Measure what a judge gives references, damaged references and degenerate texts, row by row.

    python scripts/judge_texts.py tldr --judge MODEL --split train --every 3 --out facts.jsonl
    python scripts/judge_texts.py --read facts.jsonl

The first line adds to a file and skips rows that it has. The second prints the mean return of v2 for each kind of text,
in % of the maximum, and the measurements that most references reach. On training rows these are the ends of the ramps.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import llm_dec_pomdp
from llm_dec_pomdp.agents.judges import ModelJudge
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.agents.loading import load_model
from llm_dec_pomdp.envs.writing.v2 import judged

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "envs" / "writing"))
import writing_strategies as written

REACHED = 0.95  # of the references of training rows, for which a factor is 1
KINDS = {
    "reference": written.reference,
    **written.DAMAGE,
    **written.OPPOSITE,
    **written.COPIED,
    **written.STRATEGIES,
    **{
        f"{kind}: {text} text, beside a reference": written.beside_reference(strategy, place)
        for kind, strategy in {**written.DAMAGE, **written.STRATEGIES}.items()
        for place, text in enumerate(("first", "second"))
    },
}


def measure(given: argparse.Namespace) -> None:
    """Judge the texts that the file does not have yet, a row of all kinds at a time."""
    out = Path(given.out)
    known = {(line["task"], line["split"], line["kind"], line["id"]) for line in read(out)} if out.exists() else set()
    written.SPLIT = given.split
    judge = ModelJudge(LanguageModel(*load_model(given.judge, dtype=given.dtype)), given.judge)
    env: Any = llm_dec_pomdp.make(f"{given.task}-v2", split=given.split, judge=judge)
    published: Any = llm_dec_pomdp.make(f"{given.task}-v0", split=given.split)
    for index in range(given.first, len(env.items), given.every):
        item = env.items[index]
        pairs = {
            kind: dict(zip(env.possible_agents, strategy(given.task, index), strict=True))
            for kind, strategy in KINDS.items()
            if (given.task, given.split, kind, item.id) not in known and (not given.kinds or kind in given.kinds)
        }
        with env.judge.put_off():
            for actions in pairs.values():
                env.score(item, actions)
        with out.open("a") as file:
            for kind, actions in pairs.items():
                found = env.score(item, actions).diagnostics
                line = {"task": given.task, "split": given.split, "kind": kind, "id": item.id, "judge": env.judge.name}
                line["published"] = published.score(item, actions).total / env.facts.max_return
                line["measures"] = [found[name] for name in judged.Measures._fields]
                file.write(json.dumps(line) + "\n")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file."""
    return map(json.loads, path.read_text().splitlines())


def paid(line: dict[str, Any]) -> float:
    """Return the share of the maximum under v2."""
    full = {"tldr": judged.TLDR, "arxiv": judged.ARXIV}[line["task"]]
    return line["published"] * math.prod(judged.factors(judged.Measures(*line["measures"]), full).values())


def show(path: Path) -> None:
    """Print both tables."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in read(path):
        groups[line["task"], line["split"], line["kind"]].append(line)
    for (task, split, kind), lines in groups.items():
        before = statistics.mean(line["published"] for line in lines)
        after = statistics.mean(map(paid, lines))
        print(f"{task:6} {split:6} {kind:40} {len(lines):3} rows  v0 {100 * before:5.1f}  v2 {100 * after:5.1f}")
    for (task, split, kind), lines in groups.items():
        if kind == "reference" and len(lines) > 1:
            for number, name in enumerate(judged.Measures._fields):
                value = np.quantile([line["measures"][number] for line in lines], 1 - REACHED)
                print(f"{task:6} {split:6} {name:12} reached by {REACHED:.1%}: {value:6.3f}")


def main() -> None:
    """Measure or show."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("task", nargs="?", choices=written.NAMES)
    options.add_argument("--judge")
    options.add_argument("--split", default="test")
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--every", type=int, default=1)
    options.add_argument("--dtype", default="float32")
    options.add_argument("--kinds", nargs="*")
    options.add_argument("--out")
    options.add_argument("--read")
    given = options.parse_args()
    if given.read:
        show(Path(given.read))
    else:
        measure(given)


if __name__ == "__main__":
    main()
