"""Rebuild `data/function_word_pairs.txt`: pairs of function words that follow each other in the embedded train rows.

python scripts/build_function_word_pairs.py
"""

from __future__ import annotations

from pathlib import Path

import llm_dec_pomdp
from llm_dec_pomdp.envs.writing.quality import function_word_pairs
from llm_dec_pomdp.envs.writing.text import Text

TARGET = Path(llm_dec_pomdp.__file__).parent / "data" / "function_word_pairs.txt"


def main() -> None:
    pairs: set[tuple[str, str]] = set()
    for env_id in ("tldr-v0", "arxiv-v0", "coophumaneval-v0"):
        for item in llm_dec_pomdp.make(env_id, split="train").items:
            texts = [item.prompt] if env_id.startswith("coop") else [item.prompt, *item.reference]
            pairs.update(pair for text in texts for pair in function_word_pairs(Text(text)))
    TARGET.write_text("".join(f"{first} {second}\n" for first, second in sorted(pairs)), encoding="utf-8")
    print(f"{len(pairs)} pairs in {TARGET}")


if __name__ == "__main__":
    main()
