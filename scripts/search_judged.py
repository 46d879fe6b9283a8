"""A search against v2 of the writing tasks: degenerate texts are mutated, and what the judge likes better is kept.

    python scripts/search_judged.py tldr --judge MODEL --judgements 1000 [--seed 0]

It begins at the best of three degenerate pairs of a test row. Each round tries several mutations (two words change
places, a word goes, comes from the source, or is replaced by one) and keeps the best of them, if it is better: first by
the share of v1, then by how far its numbers fall short of those of references, so that the search climbs where the
reward itself is still 0. Prints the reward in % of the maximum as it goes.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from pathlib import Path
from typing import Any

import llm_dec_pomdp
from llm_dec_pomdp.agents.judges import load_judge
from llm_dec_pomdp.envs.writing.v2 import judged

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "envs" / "writing"))
import writing_strategies as written

AT_ONCE = 8  # mutations of a round
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

    def __init__(self, task: str, judge: Any, index: int) -> None:
        self.env: Any = llm_dec_pomdp.make(f"{task}-v2", split="test", judge=judge)
        self.plain: Any = llm_dec_pomdp.make(f"{task}-v1", split="test")
        self.item = self.plain.items[index]
        self.judgements = 0

    def values(self, pairs: list[Pair]) -> list[tuple[float, float, float]]:
        """(share of v1, shortfall below 0, reward in %) of each pair."""
        source, usual = self.plain.source_text(self.item), self.env.usual
        with self.env.facts.judge.put_off():
            for pair in pairs:
                judged.judged(self.env.facts.judge, source, pair, usual)
        found: list[tuple[float, float, float]] = []
        for pair in pairs:
            texts = dict(zip(self.plain.possible_agents, pair, strict=True))
            share = self.plain.score(self.item, texts).total / self.plain.facts.max_return
            shortfall = judged.judged(self.env.facts.judge, source, pair, usual).shortfall
            earned = 100 * self.env.score(self.item, texts).total / self.env.facts.max_return
            found.append((min(share, 0.9), -max(shortfall, judged.ALL), earned))
        self.judgements += len(pairs)
        return found


def main() -> None:
    """Search and print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("task", choices=written.NAMES)
    options.add_argument("--judge", required=True)
    options.add_argument("--judgements", type=int, default=1000)
    options.add_argument("--row", type=int, default=0)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    draw = random.Random(given.seed)
    search = Search(given.task, load_judge(given.judge), given.row)
    source = re.findall(r"[\w'-]+[.,]?", search.item.prompt)
    kinds = ("template, source words in order", "shuffled source with commas", "every 4th word deleted")
    starts = [written.STRATEGIES[kind](given.task, given.row) for kind in kinds]
    best, pair = max(zip(search.values(starts), starts, strict=True))
    highest = 0.0
    while search.judgements < given.judgements:
        pairs = [mutated(pair, source, draw) for _ in range(AT_ONCE)]
        for value, other in zip(search.values(pairs), pairs, strict=True):
            highest = max(highest, value[2])
            if value > best:
                best, pair = value, other
        if search.judgements // AT_ONCE % 10 == 0:
            print(
                f"{search.judgements}: v1 {best[0]:.2f}, shortfall {-best[1]:.2f}, highest {highest:.1f} %", flush=True
            )
    print(*pair, sep="\n")


if __name__ == "__main__":
    main()
