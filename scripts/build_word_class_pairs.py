"""Rebuild `data/word_class_pairs.txt`: how often word classes follow each other in the embedded train rows.

python scripts/build_word_class_pairs.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import llm_dec_pomdp
from llm_dec_pomdp.envs.writing.grammar import WordClasses
from llm_dec_pomdp.envs.writing.text import Text, lexicon

TARGET = Path(llm_dec_pomdp.__file__).parent / "data" / "word_class_pairs.txt"
FREQUENT = 150  # words that are classes of their own, beside the stop words


def texts() -> Iterator[Text]:
    """The prompts of the embedded train rows, and the references that are no programs."""
    for env_id in ("tldr-v0", "arxiv-v0", "coophumaneval-v0"):
        for item in llm_dec_pomdp.make(env_id, split="train").items:
            yield from map(Text, [item.prompt] if env_id.startswith("coop") else [item.prompt, *item.reference])


def main() -> None:
    stop_words = lexicon()[1]
    words = Counter(word for text in texts() for word in text.words if word not in stop_words)
    classes = WordClasses(stop_words | {word for word, _ in words.most_common(FREQUENT)})
    counts = Counter(pair for text in texts() for pair in pairwise(classes.of(text)))
    lines = (f"{first} {second} {count}\n" for (first, second), count in sorted(counts.items()))
    TARGET.write_text("".join(lines), encoding="utf-8")
    print(f"{len(counts)} pairs in {TARGET}")


if __name__ == "__main__":
    main()
