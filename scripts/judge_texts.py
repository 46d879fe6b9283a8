"""What a judge makes of references, of damaged references and of texts that tell nothing: nats per word, row by row.

    python scripts/judge_texts.py tldr --judge MODEL --split train --rows 30 --out facts.jsonl
    python scripts/judge_texts.py --read facts.jsonl

The first line adds to a file (rows that it has are not judged again), the second prints what v2 pays for each kind of
text, in % of the maximum, and the values that nearly all references reach, which for training
rows is where ramps end.
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
from llm_dec_pomdp.agents.judges import load_judge
from llm_dec_pomdp.envs.writing.v2 import judged

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "envs" / "writing"))
import writing_strategies as written

REACHED = 0.95  # of the references of training rows, which a ramp pays in full
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
    """Judge what the file does not have yet, a row of all kinds at a time."""
    out = Path(given.out)
    known = {(line["task"], line["split"], line["kind"], line["id"]) for line in read(out)} if out.exists() else set()
    written.SPLIT = given.split
    env: Any = llm_dec_pomdp.make(f"{given.task}-v2", split=given.split, judge=load_judge(given.judge))
    plain: Any = llm_dec_pomdp.make(f"{given.task}-v1", split=given.split)
    for index, item in enumerate(plain.items[: given.rows]):
        pairs = {
            kind: strategy(given.task, index)
            for kind, strategy in KINDS.items()
            if (given.task, given.split, kind, item.id) not in known and (not given.kinds or kind in given.kinds)
        }
        shares = {
            kind: plain.score(item, dict(zip(plain.possible_agents, pair, strict=True))).total
            for kind, pair in pairs.items()
        }
        with env.facts.judge.put_off():
            for kind, pair in pairs.items():
                if shares[kind]:
                    judged.judged(env.facts.judge, plain.source_text(item), pair, env.lowest)
        with out.open("a") as file:
            for kind, pair in pairs.items():
                found = judged.NOT_JUDGED
                if shares[kind]:
                    found = judged.judged(env.facts.judge, plain.source_text(item), pair, env.lowest)
                line = {
                    "task": given.task,
                    "split": given.split,
                    "kind": kind,
                    "id": item.id,
                    "judge": env.facts.judge.name,
                }
                line |= {"v1": shares[kind] / plain.facts.max_return, "measures": found.measures, "cut": found.cut}
                file.write(json.dumps(line) + "\n")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file."""
    return map(json.loads, path.read_text().splitlines())


def paid(line: dict[str, Any]) -> float:
    """The share of the maximum that v2 pays."""
    lowest = {"tldr": judged.TLDR, "arxiv": judged.ARXIV}[line["task"]]
    return line["v1"] * math.prod(judged.properties(judged.Measures(*line["measures"]), lowest).values())


def show(path: Path) -> None:
    """Print both tables."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in read(path):
        groups[line["task"], line["split"], line["kind"]].append(line)
    for (task, split, kind), lines in groups.items():
        before = statistics.mean(line["v1"] for line in lines)
        after = statistics.mean(map(paid, lines))
        print(f"{task:6} {split:6} {kind:40} {len(lines):3} rows  v1 {100 * before:5.1f}  v2 {100 * after:5.1f}")
    for (task, split, kind), lines in groups.items():
        if kind == "reference" and len(lines) > 1:
            values = np.quantile([line["measures"] for line in lines], 1 - REACHED, axis=0)
            for name, value in zip(judged.Measures._fields, values, strict=True):
                print(f"{task:6} {split:6} {name:12} reached by {REACHED:.1%}: {value:6.2f}")


def main() -> None:
    """Measure or show."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("task", nargs="?", choices=written.NAMES)
    options.add_argument("--judge")
    options.add_argument("--split", default="test")
    options.add_argument("--rows", type=int)
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
