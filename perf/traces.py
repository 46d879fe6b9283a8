"""Measure the time and memory to write traces of 10,000 episodes, against plain JSON and as share of an evaluation.

    python perf/traces.py [--episodes N] [--rounds N]

A team without a model plays a few episodes. They are written repeatedly with other seeds, so that only writing is
timed. The formats take turns, and the fastest of several rounds counts. There are two baselines with one line of `json`
per episode. `all texts` has all texts of the trace: observations, actions, the task, tool calls and results, orders,
reports and notes. `told and said` has observations and actions only.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from llm_dec_pomdp import make
from llm_dec_pomdp.agents import Sampling, Scripted
from llm_dec_pomdp.benchmarks.cell import build_cell, evaluate
from llm_dec_pomdp.benchmarks.kept import keeping
from llm_dec_pomdp.benchmarks.suite import Suite
from llm_dec_pomdp.envs.base import TextDecPOMDP
from llm_dec_pomdp.envs.wrappers import with_protocol
from llm_dec_pomdp.episodes import Header, TraceWriter
from llm_dec_pomdp.episodes.files import Texts
from llm_dec_pomdp.episodes.header import item_as_json
from llm_dec_pomdp.progress import Silent
from llm_dec_pomdp.rollout import Trajectories
from llm_dec_pomdp.storage.files import fsync
from llm_dec_pomdp.types import Episode, Group, TaskItem

WORKLOADS = (("tldr-v0", "parallel"), ("humaneval-v0", "discussion"), ("research-v0", "parallel"))


def episodes_of(env: TextDecPOMDP, count: int) -> list[Episode]:
    """Return episodes of `count` tasks by an optimal team or, without one, by agents that repeat 400 characters."""
    say = env.task.script("optimal") if env.facts.hierarchical else lambda agent, history: history[-1].text[:400]  # type: ignore[attr-defined]
    ids = [item.id for item in env.items[:count]]
    groups = Trajectories("own").play(env, Scripted(say), ids, list(range(len(ids))), Sampling())
    return [group.episodes[0] for group in groups]


def texts_alone(episode: Episode) -> dict[str, Any]:
    """Return observations and actions."""
    turns = [[dict(turn.observations), {a: c.text for a, c in turn.actions.items()}] for turn in episode.turns]
    return {"task": episode.item_id, "seed": episode.seed, "turns": turns}


def all_texts(episode: Episode, item: TaskItem) -> dict[str, Any]:
    """Return all texts that are a `content` in the trace."""
    more = [
        [
            [dict(event.details) for event in turn.events if event.kind != "read"],
            dict(turn.score.notes if turn.score else {}),
        ]
        for turn in episode.turns
    ]
    return {**texts_alone(episode), "task": item_as_json(item), "more": more}


def timed(work: Callable[[], object]) -> float:
    """Return the processor seconds of a function."""
    started = time.process_time()
    work()
    return time.process_time() - started


class Workload:
    """Writers of the episodes of an environment under a protocol; each is a function of a file."""

    def __init__(self, env_id: str, protocol: str, count: int) -> None:
        env = with_protocol(make(env_id), protocol)
        self._items = {item.id: item for item in env.items}
        self._header = Header.of(env, env_id, protocol=protocol)
        self._episodes = episodes_of(env, 20)
        self._count = count

    def ways(self) -> dict[str, Callable[[Path], None]]:
        """Return the writers by name; the first two are the baselines."""
        return {
            "all texts": partial(self._write_plain, lambda episode: all_texts(episode, self._items[episode.item_id])),
            "told and said": partial(self._write_plain, texts_alone),
            "inline": partial(self._write_traces, "inline"),
            "hashed": partial(self._write_traces, "hashed"),
            "none": partial(self._write_traces, "none"),
        }

    def _again(self) -> Iterator[Episode]:
        shown = self._episodes
        return (dataclasses.replace(shown[n % len(shown)], seed=n) for n in range(self._count))

    def _write_plain(self, record: Callable[[Episode], Any], path: Path) -> None:
        with path.open("w") as file:
            file.writelines(json.dumps(record(episode)) + "\n" for episode in self._again())
        fsync(path)

    def _write_traces(self, texts: Texts, path: Path) -> None:
        with TraceWriter(path, texts) as writer:
            for episode in self._again():
                writer.write_episode(episode, self._header, self._items[episode.item_id])


def measure(env_id: str, protocol: str, count: int, rounds: int) -> None:
    """Print a line of numbers for every writer."""
    work = Workload(env_id, protocol, count)
    ways = work.ways()
    seconds, size, grown = dict.fromkeys(ways, math.inf), dict.fromkeys(ways, 0), dict.fromkeys(ways, 0.0)
    for number in range(rounds):
        for name, write in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                seconds[name] = min(seconds[name], timed(partial(write, Path(folder) / "t")))
                if number == 0:
                    grown[name] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
                size[name] = sum(path.stat().st_size for path in Path(folder).iterdir())
    print(f"{env_id} {protocol}: {count} episodes, the best of {rounds} rounds")
    for name in ways:
        ratios = ", ".join(f"{seconds[name] / seconds[other]:.2f} x {other}" for other in list(ways)[:2])
        print(
            f"  {name:16}{seconds[name] / count * 1e6:6.1f} us, {size[name] / count:6.0f} bytes; {ratios}; "
            f"memory + {grown[name]:.0f} MB"
        )


def share_of_evaluation(env_id: str, method: str, items: int) -> None:
    """Print the share of an evaluation that writes its traces with token ids, as `bench --traces` does."""
    values = {
        "name": "traced",
        "methods": [{"name": method}],
        "environments": [{"id": env_id}],
        "evaluation": {"items": items},
    }
    [cell] = Suite.model_validate(values).cells()
    setup, spent = build_cell(cell), 0.0

    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        with keeping(cell, setup.team, setup.eval_env, Path(folder), 0, token_ids=True) as kept:

            def timed_keep(groups: Sequence[Group]) -> None:
                nonlocal spent
                before = time.perf_counter()
                kept.keep(groups)
                spent += time.perf_counter() - before

            evaluate(cell, setup, Silent(), "", timed_keep)
            before = time.perf_counter()
        spent += time.perf_counter() - before
        whole = time.perf_counter() - started
    print(f"{env_id} {method}: evaluation {whole:.2f} s, of which traces {spent:.3f} s, {100 * spent / whole:.2f} %")


def main() -> None:
    """Measure every workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for env_id, protocol in WORKLOADS:
        measure(env_id, protocol, options.episodes, options.rounds)
    for env_id, method in (("tldr-v0", "concat"), ("tldr-v0", "discussion"), ("keys-v0", "concat")):
        share_of_evaluation(env_id, method, 64)


if __name__ == "__main__":
    main()
