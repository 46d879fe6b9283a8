"""Measure research-v0: a search against a plain call of `bm25s`, and the memory of forks.

    python perf/research.py [--json] [--runs 7]

Both sides run the same queries over the same sentences, in turns in one process. The minimum over the runs counts. The
plain call is `bm25s.tokenize(query)` and `BM25.retrieve(..., k=5)` without progress bars. Memory is the peak resident
memory of the process, before and after 64 forks of an environment have searched. A second figure is the memory that the
environments allocate (tracemalloc), with texts, worlds and index.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bm25s
from sides import Timer, alternate

import llm_dec_pomdp
from llm_dec_pomdp.contrib.research.questions import embedded
from llm_dec_pomdp.contrib.research.worlds import worlds
from llm_dec_pomdp.envs.tools.search import Index

SENTENCES = (250, 100_000)
QUERIES = 200
COUNT = 5
FORKS = 64
SEARCH_TARGET, MEMORY_TARGET = 1.2, 1.1


def sentences(count: int) -> list[str]:
    """Return `count` sentences: those of all worlds, followed by copies with other years."""
    once = [text for of in worlds().values() for text in of.texts]
    texts = list(once)
    for year in range(1001, 1001 + count // len(once)):
        texts += [f"{text} So it was in {year}." for text in once]
    return texts[:count]


def search(count: int, runs: int) -> dict[str, float]:
    """Return the microseconds of a search, of this package and plain, and the ratio."""
    texts = sentences(count)
    index, bare = Index(texts), bm25s.BM25()
    bare.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    queries = [item.prompt for item in embedded()]
    queries = (queries * (QUERIES // len(queries) + 1))[:QUERIES]

    def ours() -> None:
        for query in queries:
            index.best(query, COUNT)

    def theirs() -> None:
        for query in queries:
            bare.retrieve(bm25s.tokenize(query, show_progress=False), k=COUNT, show_progress=False)

    timer = Timer("wall")
    sides: dict[str, Callable[[], float]] = {"ours": lambda: timer(ours), "bare": lambda: timer(theirs)}
    seconds = alternate(runs, **sides)
    micro = {name: found / QUERIES * 1e6 for name, found in seconds.items()}
    return {**micro, "ratio": micro["ours"] / micro["bare"]}


def memory(count: int) -> dict[str, float]:
    """Return megabytes of one environment after a search, of its 64 forks after a search each, and the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        tasks: Any = "sample"
        if count != SENTENCES[0]:
            tasks = Path(folder) / "tasks.jsonl"
            lines = (json.dumps({"text": text}) for text in sentences(count))
            (Path(folder) / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
            row = {"question": "Who founded it?", "answer": "Ada", "corpus": "corpus.jsonl"}
            tasks.write_text(json.dumps(row), encoding="utf-8")
        tracemalloc.start()
        env = llm_dec_pomdp.make("research-v0", tasks=tasks)
        env.reset(seed=0)
        env.step({"agent_0": 'ask("reader", "What is there?")'})
        _search(env)
    gc.collect()
    single, single_resident = tracemalloc.get_traced_memory()[0] / 1e6, _resident_mb()
    forks = [env.fork() for _ in range(FORKS)]
    for fork in forks:
        _search(fork)
    gc.collect()
    many, many_resident = tracemalloc.get_traced_memory()[0] / 1e6, _resident_mb()
    tracemalloc.stop()
    allocated = {"one_mb": single, "many_mb": many, "allocated_ratio": many / single}
    return {
        **allocated,
        "one_rss": single_resident,
        "many_rss": many_resident,
        "ratio": many_resident / single_resident,
    }


def _search(env: Any) -> None:
    env.step({agent: 'search("who founded it?")' if env.asked(agent) else "" for agent in env.agents})


def _resident_mb() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--runs", type=int, default=7)
    arguments = parser.parse_args()
    result: dict[str, Any] = {
        "memory": {str(count): memory(count) for count in SENTENCES},
        "search": {str(count): search(count, arguments.runs) for count in SENTENCES},
    }
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"search (target: at most {SEARCH_TARGET} times a plain call of bm25s)")
    for count, row in result["search"].items():
        print(f"  {count:>7} sentences   {row['ours']:6.0f} us, plain {row['bare']:6.0f} us   ratio {row['ratio']:.2f}")
    print(f"memory of {FORKS} forks (target: the process has at most {MEMORY_TARGET} times that of one)")
    for count, row in result["memory"].items():
        resident = f"{row['one_rss']:.1f} -> {row['many_rss']:.1f} MB   ratio {row['ratio']:.3f}"
        print(f"  {count:>7} sentences   {resident}")
        allocated = f"{row['one_mb']:.2f} -> {row['many_mb']:.2f} MB   ratio {row['allocated_ratio']:.3f}"
        print(f"          by the environments {allocated}")


if __name__ == "__main__":
    main()
