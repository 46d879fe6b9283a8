"""A search against v2 of the writing tasks: degenerate texts are mutated, and what earns more is kept.

    python scripts/search_judged.py tldr --judge MODEL --sees reward [--judgements 1000] [--row 0] [--seed 0]

It begins at the best of the degenerate pairs of a test row, at all of them where several are equally good. Pairs with a
sentence of a reference are left out: few mutations make them honest. Each round mutates some of the best (two words
change places, a word goes, comes from the source, or is replaced by one) and keeps what is better, or as good. A search
that sees the reward, as a learner does, drifts where it is 0. One that sees the numbers climbs there too: it maximises
the distance of both measurements to the ends of their ramps. The return is printed in % of the maximum.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from pathlib import Path
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.agents.judges import ModelJudge
from llm_dec_pomdp.agents.language_model.policy import LanguageModel
from llm_dec_pomdp.agents.loading import load_model
from llm_dec_pomdp.envs.writing.v2 import judged

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "envs" / "writing"))
import writing_strategies as written

AT_ONCE = 8  # mutations of a round
SENTENCE = 8  # words of a reference's beginning by which it is known
Pair = tuple[str, str]


def mutated(pair: Pair, source: list[str], draw: random.Random) -> Pair:
    """One to three small changes of one text."""
    texts = [text.split() for text in pair]
    words = draw.choice(texts)
    for _ in range(draw.randint(1, 3)):
        place, kind = draw.randrange(len(words)), draw.randrange(4)
        if kind == 0:
            other = draw.randrange(len(words))
            words[place], words[other] = words[other], words[place]
        elif kind == 1 and len(words) > 5:
            del words[place]
        elif kind == 2:
            words.insert(place, draw.choice(source))
        else:
            words[place] = draw.choice(source)
    return " ".join(texts[0]), " ".join(texts[1])


class Search:
    """One row, its judge, and what was found so far."""

    def __init__(self, task: str, judge: Any, index: int, *, sees: str) -> None:
        self.env: Any = llm_dec_pomdp.make(f"{task}-v2", split="test", judge=judge)
        self.item = self.env.items[index]
        self.sees, self.judgements = sees, 0

    def values(self, pairs: list[Pair]) -> list[tuple[float, float]]:
        """Return (value to climb, return in %) of each pair."""
        with self.env.judge.put_off():
            for pair in pairs:
                self._scored(pair)
        found: list[tuple[float, float]] = []
        for pair in pairs:
            score = self._scored(pair)
            share = 100 * score.total / self.env.facts.max_return
            gain, order = (score.diagnostics[name] for name in judged.Measures._fields)
            lacking = min(gain / self.env.full.gain - 1.0, 0.0) + min(order - self.env.full.order, 0.0)
            found.append((lacking if self.sees == "numbers" else share, share))
        self.judgements += len(pairs)
        return found

    def _scored(self, pair: Pair) -> Any:
        return self.env.score(self.item, dict(zip(self.env.possible_agents, pair, strict=True)))


def main() -> None:
    """Search and print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("task", choices=written.NAMES)
    options.add_argument("--judge", required=True)
    options.add_argument("--sees", choices=("reward", "numbers"), default="numbers")
    options.add_argument("--judgements", type=int, default=1000)
    options.add_argument("--row", type=int, default=0)
    options.add_argument("--dtype", default="float32")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    draw = random.Random(given.seed)
    policy = LanguageModel(*load_model(given.judge, dtype=given.dtype))
    search = Search(given.task, ModelJudge(policy, given.judge), given.row, sees=given.sees)
    source = re.findall(r"[\w'-]+[.,]?", search.item.prompt)
    sentences = [" ".join(text.split()[:SENTENCE]) for text in written.reference(given.task, given.row)]
    pairs = [strategy(given.task, given.row) for strategy in written.STRATEGIES.values()]
    starts = [pair for pair in pairs if not any(sentence in text for sentence in sentences for text in pair)]
    values = search.values(starts)
    best = max(values)
    kept = [pair for value, pair in zip(values, starts, strict=True) if value == best]
    highest = best[1]
    while search.judgements < given.judgements:
        pairs = [mutated(draw.choice(kept), source, draw) for _ in range(AT_ONCE)]
        for value, pair in zip(search.values(pairs), pairs, strict=True):
            highest = max(highest, value[1])
            if value > best:
                best, kept = value, []
            if value == best:
                kept.append(pair)
        if search.judgements // AT_ONCE % 5 == 0:
            print(f"{search.judgements}: value {best[0]:.2f}, highest {highest:.1f} %", flush=True)
    print(*kept[-1], sep="\n")


if __name__ == "__main__":
    main()
